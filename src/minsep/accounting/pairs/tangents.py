"""Tangents of log P/Q, planes that it lies above.

log f = log P/Q is convex in y, being the logarithm of a mean of exponentials of affine functions. So it lies above each
of its tangents: log f(y) >= m + <g, y>, where g is the gradient at a point a, and m = log f(a) - <g, a>. The gradient
is C u / sigma^2, where u_i is the mean of x_i under the law of x tilted by
exp(<C x, a> / sigma^2 - |C x|^2 / (2 sigma^2)): two recursions, forwards and backwards.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from minsep.core.arrays import FloatArray

if TYPE_CHECKING:
    from minsep.accounting.pairs.min_sep import MinSepPair

_SMALLEST = 1e-280
_TURNS = 3


@dataclass(frozen=True, eq=False)
class Tangent:
    """A plane below log P/Q: `constant` + <`gradient`, y>."""

    distance: float
    """From 0 to the point where it touches, in standard deviations of the noise."""
    constant: float
    gradient: FloatArray
    deviation: float
    """Standard deviation of <`gradient`, y> under Q."""

    def of_several(self, vectors: int) -> "Tangent":
        """Return a plane below log P/Q where x is the sum of independent vectors (certified-sampling.md, Lemma 8)."""
        if vectors == 1:
            return self
        taken_off = vectors * (vectors - 1) / 2 * self.deviation**2
        return Tangent(
            self.distance, vectors * self.constant - taken_off, vectors * self.gradient, vectors * self.deviation
        )


def tangent_of(pair: "MinSepPair", distance: float) -> Tangent | None:
    """Return the plane at a point so far from 0, against the gradient there; None where none is known."""
    strategy, sigma = pair.strategy, pair.noise_multiplier
    n, coefficients = strategy.iterations, strategy.banded_column
    if pair.upper_bound or coefficients is None:
        return None
    point = np.zeros(n)
    for turn in range(_TURNS):
        scores = np.convolve(coefficients[::-1], point)[strategy.bands - 1 :] / sigma**2
        log_ratio, means = _log_ratio_and_means(pair, scores)
        if not (math.isfinite(log_ratio) and np.isfinite(means).all()):
            return None
        gradient = np.convolve(coefficients, means)[:n] / sigma**2
        length = float(np.linalg.norm(gradient))
        if not length > 0:
            return None
        if turn < _TURNS - 1:
            point = -distance * sigma / length * gradient
    return Tangent(distance, log_ratio - float(gradient @ point), gradient, sigma * length)


def _log_ratio_and_means(pair: "MinSepPair", scores: FloatArray) -> tuple[float, FloatArray]:
    """Return log f at a point, given its scores C^T a / sigma^2, and the tilted mean of each x_i."""
    n, b = pair.strategy.iterations, pair.min_sep
    counts = np.arange(1, pair.group + 1)
    # weights[i, j - 1]: the chance of j examples in iteration i, tilted.
    weights = np.exp(pair.log_multiplicities + np.outer(scores, counts) - np.outer(pair.half_norms, counts**2))
    some = weights.sum(axis=1)
    hit = pair.law.prob
    miss = math.exp(pair.log_miss)
    after = np.ones(n + 1)
    for i in range(n - 1, -1, -1):
        after[i] = miss * after[i + 1] + some[i] * after[min(i + b, n)]
    # A warm start begins with a virtual participation up to b - 1 iterations ago.
    before = np.zeros(n + b + 1)
    before[:b] = hit / (1 + (b - 1) * hit) if pair.warm else 0.0
    before[0] = 1 / (1 + (b - 1) * hit) if pair.warm else 1.0
    ratio = float(before[: n + 1] @ after + before[n + 1 :].sum())
    for i in range(n):
        before[i + 1] += miss * before[i]
        before[i + b] += some[i] * before[i]
    # Numbers near the smallest that there are have few digits.
    if not (ratio < math.inf and min(ratio, float(after.min())) > _SMALLEST):
        return math.nan, before[:n]
    ends = after[np.minimum(np.arange(n) + b, n)]
    return math.log(ratio), before[:n] * (weights @ counts) * ends / ratio
