"""The places of an example in balls-in-bins: log P/Q is a mean over them, whatever the strategy.

The example takes part at place p of every epoch, so C x is one of few vectors m_p, and all that matters of a sample is
its inner products with them. Under Q these are normal, and their covariance is the Gram matrix of the m_p.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from minsep.accounting.pairs.tangents import Tangent
from minsep.core.arrays import FloatArray
from minsep.strategy import Strategy
from minsep.strategy.optimum import participating, shifted_gram

_TURNS = 3


@dataclass(frozen=True, eq=False)
class Places:
    """What the places of an example are: one for each iteration of an epoch, as far as they are within the run.

    Args:
        strategy: The strategy of the mechanism.
        noise_multiplier: The noise multiplier of the mechanism.
        cycle: The number of places, of which those beyond the run move nothing.
    """

    strategy: Strategy
    noise_multiplier: float
    cycle: int

    @property
    def within(self) -> int:
        """Number of places within the run."""
        return min(self.cycle, self.strategy.iterations)

    @property
    def gram(self) -> FloatArray:
        """Inner products <m_p, m_q> over the variance; the last row and column are 0 for all places beyond the run."""
        found = _gram(self.strategy, self.cycle) / self.noise_multiplier**2
        return np.pad(found, (0, 1)) if self.cycle > self.within else found

    @property
    def log_chances(self) -> FloatArray:
        """Logarithms of the chances of places; the last is that of all places beyond the run."""
        beyond = [math.log(self.cycle - self.within)] if self.cycle > self.within else []
        return np.array([0.0] * self.within + beyond) - math.log(self.cycle)

    def tangent(self, distance: float) -> Tangent:
        """Return a plane below log P/Q that touches it near a point so far from 0, against the gradient there.

        For any weights w of places, log P/Q(y) >= sum_p w_p l_p(y) - KL(w, chances): Gibbs' variational principle. The
        weights are those that touch at the point, by which nothing but the choice is made.
        """
        gram, log_chances = self.gram, self.log_chances
        offsets = log_chances - np.diag(gram) / 2
        weights = _shares(offsets)
        for _ in range(_TURNS - 1):
            along = gram @ weights
            weights = _shares(offsets - distance / math.sqrt(float(weights @ along)) * along)
        logs = np.log(np.maximum(weights, 1e-300))
        constant = float(weights @ (offsets - logs))
        gradient = _moved(self.strategy, weights[: self.within]) / self.noise_multiplier**2
        return Tangent(distance, constant, gradient, math.sqrt(float(weights @ (gram @ weights))))


def _shares(logs: FloatArray) -> FloatArray:
    return np.asarray(np.exp(logs - logsumexp(logs)))


@lru_cache(maxsize=4)
def _gram(strategy: Strategy, cycle: int) -> FloatArray:
    within, column = min(cycle, strategy.iterations), strategy.column
    if column is None:
        moved = _moved_by_places(strategy, cycle)
        return np.asarray(moved.T @ moved)
    # All places are one vector, shifted and cut off at the end of the run.
    return shifted_gram(_repeated(column, strategy.iterations, cycle), within)


def _moved(strategy: Strategy, weights: FloatArray) -> FloatArray:
    """Return the weighted sum of the vectors of the places."""
    n, column = strategy.iterations, strategy.column
    if column is None:
        return np.asarray(_moved_by_places(strategy, weights.size) @ weights)
    return np.convolve(_repeated(column, n, weights.size), weights)[:n]


def _repeated(column: FloatArray, iterations: int, cycle: int) -> FloatArray:
    whole = np.pad(column, (0, iterations - column.size))
    return participating(whole, cycle, -(-iterations // cycle))


def _moved_by_places(strategy: Strategy, cycle: int) -> FloatArray:
    matrix = strategy.dense()
    return np.stack([matrix[:, place::cycle].sum(axis=1) for place in range(min(cycle, len(matrix)))], axis=1)
