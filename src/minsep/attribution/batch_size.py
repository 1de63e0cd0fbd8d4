"""The mean batch size for a sampling probability, and the sampling probability for a mean batch size.

If sampled examples block others, an example takes part if it is sampled and no example of its neighbourhood N was
sampled in the last b - 1 iterations: all coins are independent. So from iteration b on it takes part with probability
p (1 - p)^((b - 1) |N|), and the mean batch size is a sum over neighbourhood sizes. If only examples that took part
block others, there is no such formula, and the mean is estimated from a simulated run.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from minsep.attribution import kernels
from minsep.attribution.graph import AttributionGraph
from minsep.core.identity import to_digits
from minsep.randomness import Key
from minsep.randomness.variates import log_miss_of

# The relative standard error of a simulated mean, approximately, and the relative tolerance of a search.
_RELATIVE_PRECISION = 1e-3
_MOST_SIMULATED_BATCHES = 2_000_000
_LEAST_SIMULATED_BATCHES = 400
_BLOCK_COUNT = 20
_GRID_POINTS = 400
_DIGITS = 9  # of what is computed: the same on every processor


@dataclass(frozen=True)
class MeanBatchSize:
    """Mean number of examples in a batch, and the standard error of that number.

    Attributes:
        value: The mean.
        stderr: The standard error of the mean: 0 if it is exact.
    """

    value: float
    stderr: float


def mean_batch_size(
    graph: AttributionGraph, sampling_prob: float, min_sep: int, participated: bool, burn_in: int
) -> MeanBatchSize:
    """Return the mean size of a batch once batches are stable."""
    if min_sep == 1:
        return MeanBatchSize(sampling_prob * graph.num_examples, 0.0)
    if not participated:
        return MeanBatchSize(to_digits(_Formula(graph, min_sep)(sampling_prob), _DIGITS), 0.0)
    return _Simulation(graph, min_sep, burn_in, "check")(sampling_prob)


def sampling_prob_for(
    graph: AttributionGraph, expected_batch: float, min_sep: int, participated: bool, burn_in: int
) -> float:
    """Return the smallest sampling probability that gives this mean batch size, to nine digits."""
    least = expected_batch / graph.num_examples
    if least > 1:
        raise ValueError(
            f"expected_batch is {expected_batch:g}, but it must be at most the number of examples, "
            f"{graph.num_examples:,}."
        )
    if min_sep == 1:
        return least
    if participated:
        return to_digits(_search(_Simulation(graph, min_sep, burn_in, "search"), expected_batch, least), _DIGITS)
    formula = _Formula(graph, min_sep)
    grid = np.geomspace(least, 1.0, _GRID_POINTS)
    sizes = np.array([formula(prob) for prob in grid])
    if (sizes < expected_batch).all():
        # The largest mean may lie between points of the grid.
        peak = int(np.argmax(sizes))
        low, high = grid[max(peak - 1, 0)], grid[min(peak + 1, _GRID_POINTS - 1)]
        best = float(optimize.minimize_scalar(lambda prob: -formula(prob), bounds=(low, high), method="bounded").x)
        if formula(best) < expected_batch:
            raise _out_of_reach(expected_batch, min_sep, formula(best), best)
        return _root(formula, expected_batch, float(low), best)
    above = int(np.argmax(sizes >= expected_batch))
    return least if above == 0 else _root(formula, expected_batch, float(grid[above - 1]), float(grid[above]))


def _root(formula: "_Formula", target: float, low: float, high: float) -> float:
    if formula(high) == target:
        return to_digits(high, _DIGITS)
    root = optimize.brentq(lambda prob: formula(prob) - target, low, high, xtol=1e-16, rtol=1e-14)
    return to_digits(float(root), _DIGITS)


class _Formula:
    """The exact mean if sampled examples block others."""

    def __init__(self, graph: AttributionGraph, min_sep: int) -> None:
        sizes, counts = np.unique(graph.neighbourhood_sizes, return_counts=True)
        self._coins, self._counts = (min_sep - 1) * sizes.astype(np.float64), counts.astype(np.float64)

    def __call__(self, prob: float) -> float:
        if prob >= 1:
            return float(self._counts[self._coins == 0].sum())
        return float(prob * (self._counts @ np.exp(self._coins * math.log1p(-prob))))


class _Simulation:
    """Means of a simulated run, with the same coins at every sampling probability."""

    def __init__(self, graph: AttributionGraph, min_sep: int, burn_in: int, purpose: str) -> None:
        self._graph, self.min_sep, self._burn_in = graph, min_sep, burn_in
        secret = Key.from_seed(0).derive(f"batch size {purpose}").secret
        self._key = np.uint64(int.from_bytes(secret[:8], "little"))

    def __call__(self, prob: float) -> MeanBatchSize:
        graph = self._graph
        # A size varies about like a Poisson variable with its mean, which is at least prob * examples / (1 + ...).
        guess = max(prob * graph.num_examples / (1 + self.min_sep * prob * graph.neighbourhood_sizes.mean()), 1e-3)
        count = min(max(math.ceil(_RELATIVE_PRECISION**-2 / guess), _LEAST_SIMULATED_BATCHES), _MOST_SIMULATED_BATCHES)
        count = max(count, 4 * self.min_sep * _BLOCK_COUNT) // _BLOCK_COUNT * _BLOCK_COUNT
        sizes = np.empty(self._burn_in + count, dtype=np.int64)
        last = np.full(graph.num_users, kernels.LONG_AGO, dtype=np.int64)
        kernels.simulate_sizes(
            graph.offsets, graph.users, log_miss_of(prob), self.min_sep, True, self._key, last, sizes
        )
        # Means of long blocks are nearly independent of each other, unlike single sizes.
        means = sizes[self._burn_in :].reshape(_BLOCK_COUNT, -1).mean(axis=1)
        return MeanBatchSize(float(means.mean()), float(means.std(ddof=1) / math.sqrt(_BLOCK_COUNT)))


def _search(simulation: _Simulation, target: float, least: float) -> float:
    """Return the probability at which the simulated mean reaches the target, searching from below."""
    low, below = least, simulation(least).value
    largest, best = below, low
    high, above = low, below
    while above < target:
        if high == 1.0:
            raise _out_of_reach(target, simulation.min_sep, largest, best)
        low, below = high, above
        high = min(1.0, 1.25 * high)
        above = simulation(high).value
        if above > largest:
            largest, best = above, high
    for _ in range(40):
        if abs(above / target - 1) < _RELATIVE_PRECISION:
            break
        share = (target - below) / (above - below) if above > below else 0.5
        middle = low + (high - low) * min(max(share, 0.05), 0.95)
        value = simulation(middle).value
        low, below, high, above = (middle, value, high, above) if value < target else (low, below, middle, value)
    return high


def _out_of_reach(target: float, min_sep: int, largest: float, prob: float) -> ValueError:
    return ValueError(
        f"expected_batch is {target:g}, but with min_sep {min_sep} this graph gives at most about {largest:.4g} (at "
        f"sampling_prob {prob:.3g}): lower min_sep or user_bound, or bound neighbourhoods."
    )
