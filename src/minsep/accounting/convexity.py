"""A bound on the direction `add` that needs no samples.

log f = log P/Q is convex in y, being the logarithm of a mean of exponentials of affine functions. So it lies above each
of its tangents: log f(y) >= log f(a) + <g, y - a> with g the gradient at a. Under Q the right-hand side is normal, with
mean m = log f(a) - <g, a> and deviation s = sigma |g|. Hence, for every point a,

    H_epsilon(Q, P) = E_Q (1 - e^epsilon f)_+  <=  E (1 - e^(epsilon + m + s Z))_+ ,

which has a closed form. The gradient is C u / sigma^2, where u_i is the mean of x_i under the law of x tilted by
exp(<C x, a> / sigma^2 - |C x|^2 / (2 sigma^2)): two recursions, forwards and backwards. Points a are tried at several
distances from 0, each against the gradient there, which is where f is small and Q is not.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from minsep.accounting.pairs import MinSepPair
from minsep.strategy import BandedToeplitz

FloatArray = NDArray[np.float64]

# Far more than the rounding errors of the sums below.
_MARGIN = 1e-9
_STEPS = np.arange(0.0, 6.5, 0.5)
_TURNS = 3


def add_bound(pair: MinSepPair, epsilon: float) -> float:
    """Return an upper bound of H_epsilon(Q, P); 1 where there is none.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=1000, bands=8)
    >>> pair = MinSepPair(strategy, 1.0, prob=0.0035, min_sep=8, group=2)
    >>> add_bound(pair, 4.0) < 1e-6 < add_bound(pair, 3.0)
    True
    """
    strategy, sigma = pair.strategy, pair.noise_multiplier
    if pair.upper_bound or not isinstance(strategy, BandedToeplitz):
        return 1.0
    n, coefficients = strategy.iterations, strategy.coefficients
    best, point = 1.0, np.zeros(n)
    for step in _STEPS:
        for _ in range(_TURNS):
            scores = np.convolve(coefficients[::-1], point)[strategy.bands - 1 :] / sigma**2
            log_ratio, moves = _log_ratio_and_means(pair, scores)
            if not (math.isfinite(log_ratio) and np.isfinite(moves).all()):
                return best
            gradient = np.convolve(coefficients, moves)[:n] / sigma**2
            length = float(np.linalg.norm(gradient))
            best = min(best, _normal_bound(epsilon + log_ratio - float(gradient @ point), sigma * length))
            point = -step * sigma / length * gradient
    return best


def _normal_bound(middle: float, deviation: float) -> float:
    """Return E (1 - exp(middle + deviation Z))_+, rounded up."""
    middle, deviation = middle - _MARGIN, deviation * (1 + _MARGIN)
    below = -middle / deviation
    second = math.exp(min(middle + deviation**2 / 2 + float(log_ndtr(below - deviation)), 0.0))
    return float(min(max(ndtr(below) - second, 0.0) + 1e-16, 1.0))


def _log_ratio_and_means(pair: MinSepPair, scores: FloatArray) -> tuple[float, FloatArray]:
    """Return log f at a point, given its scores C^T a / sigma^2, and the tilted mean of each x_i."""
    n, b = pair.strategy.iterations, pair.min_sep
    counts = np.arange(1, pair.group + 1)
    # weights[i, j - 1]: the chance of j examples in iteration i, tilted.
    weights = np.exp(pair.log_multiplicities + np.outer(scores, counts) - np.outer(pair._half_norms, counts**2))
    some = weights.sum(axis=1)
    miss = 1 - pair.law.prob
    after = np.ones(n + 1)
    for i in range(n - 1, -1, -1):
        after[i] = miss * after[i + 1] + some[i] * after[min(i + b, n)]
    before = np.zeros(n + b + 1)
    before[:b] = pair.law.prob / (1 + (b - 1) * pair.law.prob) if pair.warm else 0.0
    before[0] = 1 / (1 + (b - 1) * pair.law.prob) if pair.warm else 1.0
    ratio = float(before[: n + 1] @ after + before[n + 1 :].sum())
    for i in range(n):
        before[i + 1] += miss * before[i]
        before[i + b] += some[i] * before[i]
    ends = after[np.minimum(np.arange(n) + b, n)]
    return math.log(ratio) if ratio > 0 else -math.inf, before[:n] * (weights @ counts) * ends / ratio
