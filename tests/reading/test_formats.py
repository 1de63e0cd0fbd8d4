"""Each format becomes the mechanism that was run."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

import minsep
from minsep.reading import read_record, read_runs
from minsep.reading.jax_privacy import JaxPrivacy
from tests.reading.records import (
    ALL,
    JAX,
    JAX_ONE_BAND,
    JAX_TRUNCATED,
    OPACUS,
    OPACUS_IN_PARTS,
    write,
)


@pytest.fixture
def read(tmp_path):
    return lambda content: read_runs(write(tmp_path / "record.json", content))


def dp_sgd(iterations, rate, noise_multiplier, truncation=None):
    identity = minsep.BandedToeplitz.identity(iterations=iterations)
    return minsep.Mechanism(identity, minsep.Poisson(rate=rate), noise_multiplier, truncation)


def test_an_entry_of_a_history_is_poisson_sampling(read):
    assert read(OPACUS) == [dp_sgd(500, 0.01, 1.1)]
    assert read(OPACUS_IN_PARTS) == [dp_sgd(100, 0.02, 1.5), dp_sgd(50, 0.02, 1.2), dp_sgd(1, 0.04, 1.5)]


def test_a_configuration_is_cyclic_poisson_sampling(read):
    (mechanism,) = read(JAX)
    assert mechanism.scheme == minsep.CyclicPoisson(rate=0.1, cycle=4, parts="random")
    assert mechanism.scheme.sampling_prob == pytest.approx(4 * 4 / 40)
    assert mechanism.noise_multiplier == 2.0
    column = np.array(JAX["strategy"])
    assert mechanism.strategy.coefficients == pytest.approx(column / np.linalg.norm(column))


def test_a_configuration_with_a_number_of_examples_has_equal_groups(read):
    (mechanism,) = read(JAX | {"num_examples": 401})
    assert mechanism.scheme.parts == "equal"
    (mechanism,) = read(JAX_TRUNCATED)
    assert mechanism.truncation == minsep.Truncation(40, 400)


def test_a_configuration_with_one_band_is_poisson_sampling(read):
    assert read(JAX_ONE_BAND) == [dp_sgd(40, 0.1, 2.0)]
    truncated = JAX_ONE_BAND | {"truncated_batch_size": 50}
    assert read(truncated) == [dp_sgd(40, 0.1, 2.0, minsep.Truncation(50, 400))]


def test_fields_without_a_default_suffice(read):
    names = ("iterations", "expected_participations", "strategy", "noise_multiplier")
    assert read({name: JAX[name] for name in names}) == read(JAX)


@pytest.mark.parametrize("bands", [1, 4])
def test_a_configuration_is_as_private_as_its_own_event(bands):
    """jax-privacy accounts for ceil(iterations / bands) sampled Gaussians at the probability of a group's turn."""
    (mechanism,) = JaxPrivacy.read(JAX | {"strategy": JAX["strategy"][:bands], "iterations": 42})
    event = PoissonSampledDpEvent(4 * bands / 42, GaussianDpEvent(2.0))
    theirs = PLDAccountant().compose(SelfComposedDpEvent(event, -(-42 // bands)))
    ours = minsep.certify(mechanism, epsilon=1.0, delta=0.4).proofs[0].delta
    assert ours == pytest.approx(theirs.get_delta(1.0), rel=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_a_record_says_what_it_is_and_what_it_does_not_show(name, tmp_path):
    record = read_record(write(tmp_path / "record.json", ALL[name]))
    assert record.words.split()[-1] in ("accountant", "jax-privacy", "dp_accounting")
    assert all(sentence.endswith(".") for sentence in record.assumptions)
    assert (record.mechanism is None) is (name in ("opacus in parts", "named tuple"))
