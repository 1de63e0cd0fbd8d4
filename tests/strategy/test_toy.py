"""A new strategy in one file: what it describes, how its noise is made, and that the rest of the library takes it."""

from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import minsep
from minsep.noise import NoiseStream
from minsep.noise.grid import Grid
from minsep.noise.rounding_reserve import rounding_cost
from minsep.randomness import Key
from minsep.strategy import Strategy, strategy_from
from minsep.strategy.recurrence import MovingSum
from minsep.strategy.toeplitz import Toeplitz
from minsep.training.jax.noise import Releases, released
from minsep.training.torch.device_noise import DeviceNoiseStream
from tests.oracles.quadrature import delta as integrated


@dataclass(frozen=True, eq=False)
class Alternating(Strategy):
    """Every second row correlates with the row before it: nothing but the matrix is known."""

    kind = "alternating"

    weight: float
    iterations: int

    def dense(self):
        below = np.where(np.arange(self.iterations - 1) % 2 == 0, self.weight, 0.0)
        return (np.eye(self.iterations) + np.diag(below, -1)) / np.hypot(1.0, self.weight)

    def describe(self):
        return {"kind": self.kind, "weight": self.weight, "iterations": self.iterations}

    @classmethod
    def from_description(cls, description):
        return cls(description["weight"], description["iterations"])


@dataclass(frozen=True, eq=False)
class Decaying(Toeplitz):
    """C[i, j] = ratio^(i - j), scaled: a Toeplitz matrix, whose inverse has two diagonals."""

    kind = "decaying"

    ratio: float
    iterations: int

    _norm = cached_property(lambda self: float(np.linalg.norm(self.ratio ** np.arange(self.iterations))))
    coefficients = cached_property(lambda self: self.ratio ** np.arange(self.iterations) / self._norm)

    def solve(self, values):
        rows = np.asarray(values, dtype=np.float64)
        return self._norm * (rows - self.ratio * np.concatenate([np.zeros_like(rows[:1]), rows[:-1]]))

    def recurrence(self):
        return MovingSum(self._norm * np.array([1.0, -self.ratio]))

    def describe(self):
        return {"kind": self.kind, "ratio": self.ratio, "iterations": self.iterations}

    @classmethod
    def from_description(cls, description):
        return cls(description["ratio"], description["iterations"])


STRATEGIES = [Alternating(0.5, 6), Decaying(0.5, 6)]
SIZE, CLIP_NORM = 40, 0.5


@pytest.fixture(params=STRATEGIES, ids=lambda strategy: strategy.kind)
def mechanism(request):
    return minsep.Mechanism(request.param, minsep.BallsInBins(2), noise_multiplier=2.0)


def test_it_is_described_and_read_back(mechanism):
    again = minsep.Mechanism.from_description(mechanism.describe())
    assert again == mechanism
    assert type(again.strategy) is type(mechanism.strategy)
    assert strategy_from(mechanism.strategy.describe()).fingerprint == mechanism.strategy.fingerprint


def test_its_noise_is_that_of_its_matrix(mechanism):
    strategy = mechanism.strategy
    known = minsep.Dense(strategy.dense())
    rows, expected = (np.stack(list(NoiseStream(one, 2.0, SIZE, None, Key.from_seed(1)))) for one in (strategy, known))
    assert np.abs(rows - expected).max() < 4 * Grid(known, 2.0).step


def test_its_noise_is_the_same_everywhere(mechanism):
    host = mechanism.noise(SIZE, seed=1)
    device = DeviceNoiseStream(mechanism, SIZE, torch.device("cpu"), mechanism.noise_key(seed=1))
    jax = Releases(mechanism, mechanism.noise_key(seed=1), CLIP_NORM, 1.0)
    jax.begin(np.zeros(SIZE))
    for step in range(mechanism.iterations):
        sums = np.zeros(SIZE)
        on_device, in_jax = torch.zeros(SIZE, dtype=torch.float64), released(jax, step, jnp.zeros(SIZE), np.float64)
        host.release_next(sums, CLIP_NORM)
        device.release_next(on_device, CLIP_NORM)
        assert (on_device.numpy() == sums).all()
        assert (np.asarray(in_jax) == sums.astype(in_jax.dtype)).all()


@pytest.mark.parametrize("kind", [Alternating, Decaying])
def test_it_is_estimated(kind):
    strategy = kind(0.6, 2)
    mechanism = minsep.Mechanism(strategy, minsep.BallsInBins(2), 1.5)
    estimate = minsep.estimate_delta(mechanism, 0.3, samples=200_000)
    for direction in ("remove", "add"):
        truth = integrated({(1, 0): 0.5, (0, 1): 0.5}, strategy.dense(), 1.5, 0.3, direction)
        error = getattr(estimate, f"{direction}_stderr")
        assert abs(getattr(estimate, direction) - truth) < 6 * error  # false alarm: 2e-9


def test_it_is_certified_checked_and_calibrated(mechanism):
    certificate = minsep.certify(mechanism, 1.0, 0.1, seed=0)
    assert certificate.passed
    again = minsep.Certificate.from_json(certificate.to_json())
    assert minsep.verify(again).holds
    assert again.mechanism == mechanism
    assert not minsep.certify(mechanism.with_noise_multiplier(0.3), 1.0, 0.1, seed=0).passed
    best = minsep.calibrate(mechanism.strategy, mechanism.scheme, epsilon=1.0, delta=0.05, seed=0)
    assert best.certificate.passed
    assert best.mechanism.strategy == mechanism.strategy


def test_rounding_costs_it_what_it_costs_its_matrix(mechanism):
    strategy = mechanism.strategy
    known = minsep.Dense(strategy.dense())
    if isinstance(strategy, Decaying):
        known = minsep.BandedInverseToeplitz([1.0, -0.5], 6)
    found, expected = (rounding_cost(one, values=1e6, chance=1e-15) for one in (strategy, known))
    assert found == pytest.approx(expected, rel=1e-9)


def test_what_no_strategy_names_is_refused():
    for kind in ("unheard of", None, [], 3):
        with pytest.raises(ValueError, match=r"The strategy is of kind .*, but it must be one of 'banded-toeplitz', "):
            strategy_from({"kind": kind, "iterations": 3})


def test_a_strategy_that_describes_nothing_cannot_be_made():
    class Silent(Toeplitz):
        iterations = 6

    with pytest.raises(TypeError, match="describe"):
        Silent()


def test_the_error_of_a_workload_needs_a_toeplitz_matrix():
    workload = minsep.Workload(momentum=0.5)
    assert workload.mean_squared_error(Decaying(0.5, 6)) > 0
    with pytest.raises(ValueError, match="the error of a workload is known for Toeplitz matrices"):
        workload.mean_squared_error(Alternating(0.5, 6))


class Weak(minsep.BandedToeplitz):
    """Makes less noise than its description says."""

    def recurrence(self):
        return MovingSum(np.array([0.01]))


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (Alternating(-0.5, 6), "its matrix must be non-negative"),
        (Decaying(-0.5, 6), "its matrix must be non-negative"),
        (Weak.identity(iterations=6), "its class Weak must name a `kind` of its own"),
    ],
)
def test_what_no_accounting_covers_is_refused(strategy, words):
    with pytest.raises(ValueError, match=words):
        minsep.Mechanism(strategy, minsep.BallsInBins(2), noise_multiplier=2.0)
