"""What the training of every framework does. A new adapter is added to `adapters.py` and passes all of it."""

import dataclasses
import os
import stat
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import minsep
from minsep.core.state import load_state, save_state
from minsep.noise.grid import Grid
from minsep.training.checkpoint import load_checkpoint, save_checkpoint
from tests.training.adapters import ADAPTERS

EXAMPLES, FEATURES, ITERATIONS = 60, 4, 12
SIZE = FEATURES + 1
CLIP = 0.7
KEPT = 1 - 2**-14  # of the clip norm

_GENERATOR = np.random.default_rng(0)
INPUTS = (0.5 * _GENERATOR.standard_normal((EXAMPLES, FEATURES))).astype(np.float32)
TARGETS = _GENERATOR.standard_normal((EXAMPLES, 1)).astype(np.float32)


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.name)
def adapter(request):
    return request.param


def mechanism_of(iterations=ITERATIONS, bands=3, rate=0.1, noise_multiplier=0.9, **options):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=rate, min_sep=bands), noise_multiplier, **options)


def arguments_of(adapter, mechanism=None, features=FEATURES, optimizer="sgd", **options):
    """What makes a training, and resumes one."""
    given = {"num_examples": EXAMPLES, "clip_norm": CLIP, "micro_batch": 8, **options}
    return (*adapter.arguments(features, optimizer), mechanism or mechanism_of()), given


def trainer_of(adapter, *arguments, **options):
    positional, keywords = arguments_of(adapter, *arguments, **options)
    return adapter.training(*positional, **keywords)


def resume(adapter, path, *arguments, **options):
    positional, keywords = arguments_of(adapter, *arguments, **options)
    return adapter.training.resume(path, *positional, **keywords)


def step(adapter, trainer, indices, inputs=INPUTS):
    trainer.step(adapter.array(inputs[indices]), adapter.array(TARGETS[indices]))


def train(adapter, trainer, steps=None):
    for indices in trainer.batches():
        step(adapter, trainer, indices)
        if trainer.steps == steps:
            break
    return trainer


def next_batch_of_some(adapter, trainer):
    """Train up to a batch of two examples or more, and return it."""
    for indices in trainer.batches():
        if indices.size > 1:
            return indices
        step(adapter, trainer, indices)
    raise AssertionError("the run has no such batch")


def clipped_gradients(parameters, indices):
    """The gradient of each example in float64 with its norm, and their sum after clipping."""
    inputs = np.column_stack([INPUTS[indices], np.ones(indices.size)]).astype(np.float64)
    gradients = 2 * (inputs @ parameters - TARGETS[indices, 0])[:, None] * inputs
    norms = np.linalg.norm(gradients, axis=1)
    return norms, np.minimum(1.0, KEPT * CLIP / norms) @ gradients


# Steps ---------------------------------------------------------------------------------------------------------------


def test_a_run_has_exactly_the_iterations_and_batches_of_its_mechanism(adapter):
    trainer, taken = trainer_of(adapter, seed=5), []
    for indices in trainer.batches():
        taken.append(indices.tolist())
        step(adapter, trainer, indices)
    assert trainer.steps == len(taken) == ITERATIONS
    assert taken == [batch.tolist() for batch in mechanism_of().batches(EXAMPLES, seed=5)]
    assert next(trainer.batches(), None) is None
    with pytest.raises(RuntimeError, match="No batch was drawn"):
        step(adapter, trainer, np.arange(0))
    assert trainer.steps == ITERATIONS


def test_progress_is_told_and_changes_nothing(adapter, capsys):
    quiet, telling = (trainer_of(adapter, seed=5) for _ in range(2))
    for expected, found in zip(quiet.batches(), telling.batches(progress=True), strict=True):
        assert_array_equal(found, expected)
        for trainer in (quiet, telling):
            step(adapter, trainer, expected)
    assert f"trained {ITERATIONS} steps in " in capsys.readouterr().err


@pytest.mark.parametrize(
    "strategy",
    [
        minsep.BandedToeplitz.identity(iterations=ITERATIONS),
        minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=4),
        minsep.BandedInverseToeplitz.square_root(iterations=ITERATIONS, bands=3),
        minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=ITERATIONS),
    ],
    ids=["identity", "banded", "banded inverse", "buffered"],
)
def test_an_update_is_the_clipped_sum_and_the_noise_over_the_expected_batch(adapter, strategy):
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=0.9)
    trainer = trainer_of(adapter, mechanism, seed=5)
    norms_seen, sizes_seen = [], set()
    for indices, row in zip(trainer.batches(), mechanism.noise(SIZE, seed=5), strict=True):
        before = adapter.parameters(trainer)
        norms, total = clipped_gradients(before, indices)
        step(adapter, trainer, indices)
        expected = minsep.release(total, row, CLIP) / (0.1 * EXAMPLES)
        assert_released(before - adapter.parameters(trainer), expected, mechanism, 0.1 * EXAMPLES)
        norms_seen.extend(norms)
        sizes_seen.add(indices.size)
    assert min(norms_seen) < CLIP < max(norms_seen)
    assert len(sizes_seen) > 3


def assert_released(found, expected, mechanism, divisor):
    """Equal, but for sums so near an edge of the grid that the rounding of gradients in single precision decides."""
    step = CLIP * Grid(mechanism.strategy, mechanism.noise_multiplier).step / divisor
    assert_allclose(found, expected, atol=step + 2e-6)
    assert np.mean(np.abs(found - expected) < 2e-6) > 0.5


def test_an_empty_batch_adds_noise_and_steps_and_the_divisor_is_public(adapter):
    mechanism = mechanism_of(iterations=30, rate=0.01)
    trainer = trainer_of(adapter, mechanism, expected_batch=2.5, seed=1)
    sizes = []
    for indices, row in zip(trainer.batches(), mechanism.noise(SIZE, seed=1), strict=True):
        before = adapter.parameters(trainer)
        _, total = clipped_gradients(before, indices)
        step(adapter, trainer, indices)
        expected = minsep.release(total, row, CLIP) / 2.5
        assert_released(before - adapter.parameters(trainer), expected, mechanism, 2.5)
        sizes.append(indices.size)
    assert sizes.count(0) > 5
    assert max(sizes) > 0
    assert trainer.steps == 30


def test_a_step_given_too_few_or_too_many_examples_is_refused_with_the_counts(adapter):
    trainer = trainer_of(adapter, mechanism_of(rate=0.3), seed=1)
    before = adapter.parameters(trainer)
    with pytest.raises(RuntimeError, match="No batch was drawn"):
        step(adapter, trainer, np.arange(EXAMPLES))
    indices = next(trainer.batches())
    right = indices.size
    for wrong in (indices[1:], np.append(indices, 0), indices[:0]):
        with pytest.raises(ValueError, match=f"Step 1 was given {wrong.size} examples, but its batch has {right}"):
            step(adapter, trainer, wrong)
    counts = rf"There are {right} inputs and {right - 1} targets|first dimensions \[{right - 1}, {right}\]"
    with pytest.raises(ValueError, match=counts):
        trainer.step(adapter.array(INPUTS[indices]), adapter.array(TARGETS[indices[1:]]))
    assert trainer.steps == 0
    assert_array_equal(adapter.parameters(trainer), before)
    step(adapter, trainer, indices)
    assert trainer.steps == 1


def test_a_batch_drawn_twice_without_a_step_is_refused(adapter):
    trainer = trainer_of(adapter, seed=1)
    batches = trainer.batches()
    indices = next(batches)
    with pytest.raises(RuntimeError, match="batch of step 1 was drawn but not trained on: .* resume the training"):
        next(trainer.batches())
    with pytest.raises(RuntimeError, match="was drawn but not trained on"):
        next(batches)
    step(adapter, trainer, indices)
    next(trainer.batches())


def test_threads_that_take_one_step_release_one_row(adapter, monkeypatch):
    trainer = trainer_of(adapter, seed=1)
    indices = next_batch_of_some(adapter, trainer)
    before, expect = trainer.steps, trainer._run.expect

    def slowly(examples):
        expected = expect(examples)
        time.sleep(0.02)
        return expected

    monkeypatch.setattr(trainer._run, "expect", slowly)
    refused = []

    def work():
        try:
            step(adapter, trainer, indices)
        except RuntimeError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trainer.steps == trainer._noise.position == before + 1
    assert [sentence[:18] for sentence in refused] == ["No batch was drawn"] * 2


def test_padding_is_never_trained_on(adapter):
    truncation = minsep.Truncation(batch_size=4, num_examples=EXAMPLES)
    trainer = trainer_of(adapter, mechanism_of(iterations=20, rate=0.08, truncation=truncation), seed=1)
    sizes = []
    for indices in trainer.batches():
        assert (indices >= 0).all()
        sizes.append(indices.size)
        step(adapter, trainer, indices)
    assert max(sizes) == 4
    assert min(sizes) < 4


@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_refused_with_the_step(adapter, bad, place, tmp_path):
    trainer = train(adapter, trainer_of(adapter, mechanism_of(rate=0.3), seed=1), steps=1)
    indices = next_batch_of_some(adapter, trainer)
    poisoned = INPUTS.copy()
    poisoned[indices[place], 0] = bad
    before, number = adapter.parameters(trainer), trainer.steps + 1
    with pytest.raises(ValueError, match=f"Step {number} has an example whose gradient is not finite"):
        step(adapter, trainer, indices, poisoned)
    assert number > 1
    assert_array_equal(adapter.parameters(trainer), before)
    with pytest.raises(RuntimeError, match="interrupted"):
        step(adapter, trainer, indices)
    with pytest.raises(RuntimeError, match="interrupted"):
        trainer.save(tmp_path / "run.checkpoint")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_model_or_the_data_leaves_the_step_to_be_repeated(adapter, tmp_path):
    weights = []
    for wrong in (True, False):
        trainer = trainer_of(adapter, mechanism_of(rate=0.3), seed=1)
        indices = next(trainer.batches())
        if wrong:
            with pytest.raises((RuntimeError, TypeError)):
                step(adapter, trainer, indices, INPUTS[:, :-1])
            assert trainer.steps == 0
            trainer.save(tmp_path / f"{adapter.name}.checkpoint")
        step(adapter, trainer, indices)
        assert trainer.steps == 1
        weights.append(adapter.parameters(trainer))
    assert_array_equal(*weights)


@pytest.mark.parametrize("clip_norm", [0.0, 1e-21, float("nan")])
def test_clip_norms_that_cannot_work_are_refused(adapter, clip_norm):
    with pytest.raises(ValueError, match="clip_norm is .*, but it must be a finite number above 1e-09"):
        trainer_of(adapter, clip_norm=clip_norm)


def test_seeds_are_a_function_of_step_and_index(adapter):
    trainer = trainer_of(adapter, seed=7)
    first = next_batch_of_some(adapter, trainer)
    seeds = trainer.seeds(first)
    assert seeds.shape == (first.size, 2)
    assert_array_equal(trainer.seeds(first[::-1]), seeds[::-1])
    step(adapter, trainer, first)
    assert not np.isin(trainer.seeds(first), seeds).any()
    assert not np.isin(trainer_of(adapter, seed=None).seeds(first), seeds).any()
    assert len({tuple(row) for row in trainer.seeds(np.arange(1000)).tolist()}) == 1000


# Checkpoints ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(adapter, tmp_path):
    """A checkpoint of a run with Adam, after five steps."""
    train(adapter, trainer_of(adapter, optimizer="adam", seed=7), steps=5).save(tmp_path / "run.checkpoint")
    return tmp_path / "run.checkpoint"


@pytest.mark.parametrize("drawn", [False, True], ids=["", "a batch is drawn"])
@pytest.mark.parametrize("steps", [5, *(pytest.param(steps, marks=pytest.mark.slow) for steps in (0, 1))])
def test_a_resumed_run_continues_bit_by_bit(adapter, tmp_path, steps, drawn):
    straight = train(adapter, trainer_of(adapter, optimizer="adam", seed=7))
    first = trainer_of(adapter, optimizer="adam", seed=7)
    if steps:
        train(adapter, first, steps)
    if drawn:
        next(first.batches())
    first.save(tmp_path / "run.checkpoint")
    resumed = resume(adapter, tmp_path / "run.checkpoint", optimizer="adam")
    assert resumed.steps == steps
    assert_array_equal(adapter.parameters(resumed), adapter.parameters(first))
    train(adapter, resumed)
    assert resumed.steps == ITERATIONS
    assert_array_equal(adapter.parameters(resumed), adapter.parameters(straight))


def test_a_run_that_is_over_resumes_as_such(adapter, tmp_path):
    trainer = train(adapter, trainer_of(adapter, optimizer="adam", seed=7))
    trainer.save(tmp_path / "run.checkpoint")
    resumed = resume(adapter, tmp_path / "run.checkpoint", optimizer="adam")
    assert resumed.steps == ITERATIONS
    assert next(resumed.batches(), None) is None
    assert_array_equal(adapter.parameters(resumed), adapter.parameters(trainer))


def test_a_run_that_was_saved_continues_as_if_it_was_not(adapter, tmp_path):
    straight = train(adapter, trainer_of(adapter, optimizer="adam", seed=7))
    saved = train(adapter, trainer_of(adapter, optimizer="adam", seed=7), steps=5)
    saved.save(tmp_path / "run.checkpoint")
    assert saved.steps == 5
    assert_array_equal(adapter.parameters(train(adapter, saved)), adapter.parameters(straight))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mechanism": mechanism_of(noise_multiplier=0.8)}, "has mechanism"),
        ({"mechanism": mechanism_of(bands=4)}, "has mechanism"),
        ({"num_examples": 61, "expected_batch": 6.0}, "has num_examples 60, but this stream has 61"),
        ({"clip_norm": 1.5}, "has clip_norm 0.7, but this stream has 1.5"),
        ({"expected_batch": 5.0}, "has expected_batch 6.0, but this stream has 5.0"),
        ({"per_layer": True}, "has per_layer False, but this stream has True"),
        ({"features": 5}, "model"),
        ({"optimizer": "sgd"}, "optimizer"),
    ],
    ids=["noise", "strategy", "examples", "clip norm", "expected batch", "per layer", "model", "optimizer"],
)
def test_a_checkpoint_of_another_run_is_refused_by_name(adapter, checkpoint, change, words):
    if words in adapter.names:
        words = f"has {adapter.names[words]} "
    with pytest.raises(ValueError, match=words):
        resume(adapter, checkpoint, **{"optimizer": "adam", **change})


def test_a_checkpoint_names_its_framework_and_format(adapter, checkpoint):
    state = load_state(checkpoint)
    assert (state["stream"], state["format"]) == (f"training with {adapter.name}", 4)
    for other in ADAPTERS:
        if other is not adapter:
            with pytest.raises(ValueError, match=f"has stream 'training with {adapter.name}'"):
                resume(other, checkpoint, optimizer="adam")
    save_state(checkpoint, state | {"format": 3})
    with pytest.raises(ValueError, match="saved by an older version of minsep, in another format"):
        resume(adapter, checkpoint, optimizer="adam")


def test_a_checkpoint_whose_noise_is_of_another_step_is_refused(adapter, checkpoint):
    trainer = trainer_of(adapter, optimizer="adam")
    content = load_checkpoint(checkpoint, trainer._identity(), trainer._decode)
    content["run"]["batches"]["position"] = 4
    save_checkpoint(checkpoint, trainer._identity(), content, trainer._encode)
    with pytest.raises(ValueError, match="is of step 4, but its noise is of step 5"):
        resume(adapter, checkpoint, optimizer="adam")


def test_a_checkpoint_is_readable_by_its_owner_only(checkpoint):
    assert stat.S_IMODE(os.stat(checkpoint).st_mode) == 0o600


# Certificates --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact():
    """A mechanism with a certificate that passed and one that failed, neither of which takes samples."""
    identity = minsep.BandedToeplitz.identity(iterations=5)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.1), noise_multiplier=3.0)
    passed = minsep.certify(mechanism, epsilon=2.0, delta=1e-3)
    return mechanism, passed, minsep.certify(mechanism, epsilon=0.01, delta=1e-6)


@pytest.fixture(scope="module")
def sampled():
    """A mechanism with a certificate that passed, by samples."""
    mechanism = mechanism_of(iterations=60, bands=2, rate=0.05, noise_multiplier=1.2)
    certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-3, seed=1)
    assert certificate.passed
    assert certificate.samples > 0
    return mechanism, certificate


def test_certificates_that_failed_or_are_of_another_mechanism_are_refused(adapter, exact):
    mechanism, passed, failed = exact
    assert trainer_of(adapter, mechanism, certificate=passed).certificate is passed
    with pytest.raises(ValueError, match="certificate is for another mechanism"):
        trainer_of(adapter, mechanism.with_noise_multiplier(2.0), certificate=passed)
    with pytest.raises(ValueError, match="certificate did not pass"):
        trainer_of(adapter, mechanism, certificate=failed)
    with pytest.raises(ValueError, match="but it must be a minsep.Certificate"):
        trainer_of(adapter, mechanism, certificate="passed")


def test_a_certificate_is_verified_if_that_is_asked_for(adapter, sampled):
    mechanism, certificate = sampled
    assert trainer_of(adapter, mechanism, certificate=certificate, verify=True).certificate is certificate
    forged = dataclasses.replace(certificate, level=certificate.level / 2)
    trainer_of(adapter, mechanism, certificate=forged)
    with pytest.raises(ValueError, match="certificate does not hold"):
        trainer_of(adapter, mechanism, certificate=forged, verify=True)
    with pytest.raises(ValueError, match="verify is True, but there is no certificate"):
        trainer_of(adapter, mechanism, verify=True)


def test_the_certificate_is_saved_and_checked(adapter, exact, tmp_path):
    mechanism, certificate, failed = exact
    trainer_of(adapter, mechanism, certificate=certificate).save(tmp_path / "run.checkpoint")
    assert resume(adapter, tmp_path / "run.checkpoint", mechanism).certificate == certificate
    bare = trainer_of(adapter, mechanism)
    bare.save(tmp_path / "bare.checkpoint")
    given = resume(adapter, tmp_path / "bare.checkpoint", mechanism, certificate=certificate)
    assert given.certificate is certificate
    content = load_checkpoint(tmp_path / "bare.checkpoint", bare._identity(), bare._decode)
    content["run"]["certificate"] = failed.to_json()
    save_checkpoint(tmp_path / "forged.checkpoint", bare._identity(), content, bare._encode)
    with pytest.raises(ValueError, match="certificate did not pass"):
        resume(adapter, tmp_path / "forged.checkpoint", mechanism)
