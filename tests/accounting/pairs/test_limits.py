"""b-min-sep beside cyclic Poisson in the two limits that the paper compares them in."""

import math

import numpy as np
import pytest
from scipy import stats

import minsep
from minsep.accounting.schemes import pair_of
from minsep.randomness import Key

FALSE_ALARM = 1e-7


def counts_law(scheme, iterations):
    """Return the exact law of the number of participations under a warm start of b-min-sep."""
    p, b = scheme.sampling_prob, scheme.min_sep
    available = 1 / (1 + (b - 1) * p)
    most = -(-iterations // b)
    state = np.zeros((b, most + 1))  # by iterations to wait and participations so far
    state[0, 0] = available
    state[1:, 0] = p * available
    for _ in range(iterations):
        after = np.zeros_like(state)
        after[: b - 1] += state[1:]
        after[0] += (1 - p) * state[0]
        after[b - 1, 1:] += p * state[0, :-1]
        state = after
    return state.sum(axis=0)


@pytest.mark.parametrize(("rate", "b"), [(0.05, 8), (0.1, 5), (0.02, 32)])
def test_the_variance_of_the_loss_without_noise_is_smaller_by_the_published_factor(rate, b):
    """As sigma goes to 0 the loss is |C x|^2/(2 sigma^2), and the ratio of variances 1 - p0 (b - 1)."""
    iterations, sigma = 4000, 0.02
    law = counts_law(minsep.MinSep(rate, b), iterations)
    counts = np.arange(law.size)
    variance = law @ counts**2 - (law @ counts) ** 2
    cyclic = iterations / b * b * rate * (1 - b * rate)
    assert law @ counts == pytest.approx(rate * iterations)
    assert variance / cyclic == pytest.approx(1 - rate * (b - 1), rel=0.02)

    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=b)
    key = Key.from_seed(0)
    for scheme, expected in ((minsep.MinSep(rate, b), variance), (minsep.CyclicPoisson(rate, b), cyclic)):
        pair = pair_of(minsep.Mechanism(strategy, scheme, sigma), np.float64)
        losses = np.concatenate([pair.draw_log_ratios("remove", key, chunk) for chunk in range(20)])
        found = float(np.var(2 * sigma**2 * losses))
        # A sample variance of normals has relative deviation sqrt(2/(N - 1)); noise and short columns add little.
        assert found == pytest.approx(expected, rel=stats.norm.isf(FALSE_ALARM) * math.sqrt(2 / losses.size) + 0.03)


def test_with_much_noise_the_losses_agree_to_first_order():
    """As sigma grows the loss is <E[C x], y>/sigma^2 for both schemes: what differs is of second order."""
    rate, b, iterations = 0.05, 8, 400
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=b)
    normals = np.random.default_rng(0).standard_normal((8, iterations))
    mean = strategy.dense() @ np.full(iterations, rate)
    gaps = []
    for sigma in (100.0, 1000.0):
        first, second = (
            pair_of(minsep.Mechanism(strategy, scheme, sigma), np.float64).log_ratios(sigma * normals)
            for scheme in (minsep.MinSep(rate, b), minsep.CyclicPoisson(rate, b))
        )
        linear = normals @ mean / sigma
        gaps.append(float(np.abs(first - second).max() / np.abs(linear).max()))
        assert first == pytest.approx(linear, abs=20 * float(np.abs(linear).max()) / sigma)
    assert gaps[1] < 0.2 * gaps[0] < 0.02
