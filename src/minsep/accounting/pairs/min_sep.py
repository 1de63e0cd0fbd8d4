"""b-min-sep participation: the main recursion of the paper, and its corollary for the warm start."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from minsep.accounting.pairs.base import TiltablePair
from minsep.accounting.pairs.kernels import MODERATE_DECAY, MODERATE_GAIN, add_multiplicities, min_sep_log_ratios
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.participation.renewal import RenewalLaw
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import log_miss_of, uniforms


@dataclass(frozen=True)
class MinSepPair(TiltablePair):
    """b-min-sep participation (the main recursion of the paper, and its corollary for the warm start).

    Poisson sampling has a separation of 1. Exact when `bands <= min_sep`; otherwise the r-min-sep recursion of the
    paper's appendix, an upper bound.

    Args:
        prob: The probability that a free example is sampled.
        min_sep: The separation b.
        warm: Whether the run begins in the stationary state.
        group: The number of examples of the user that the example stands for, each of which is sampled with probability
            `prob`. More than one needs a cold start.
    """

    prob: float = 1.0
    min_sep: int = 1
    warm: bool = False
    group: int = 1

    def __post_init__(self) -> None:
        if self.warm and self.group > 1:
            raise ValueError(f"group is {self.group}, but it must be 1 in a warm start.")

    def shortened(self) -> tuple["MinSepPair", float]:
        """Return a pair whose separation is at most the run, and its share in this pair (`reduction`).

        >>> from minsep import BandedToeplitz
        >>> identity = BandedToeplitz.identity(iterations=10)
        >>> short, share = MinSepPair(identity, 1.0, prob=0.5, min_sep=100, warm=True).shortened()
        >>> short.min_sep, round(share, 4)
        (10, 0.1089)
        """
        n = self.strategy.iterations
        if self.min_sep <= n:
            return self, 1.0
        share = (1 + (n - 1) * self.prob) / (1 + (self.min_sep - 1) * self.prob) if self.warm else 1.0
        return replace(self, min_sep=n), share

    @property
    def log_miss(self) -> float:
        """Logarithm of the probability that no example of the group is sampled in an iteration."""
        return self.group * log_miss_of(self.prob)

    @property
    def single(self) -> "MinSepPair":
        """The pair itself."""
        return self

    @property
    def columns_moved(self) -> int:
        """The size of the group: all its examples may take part together."""
        return self.group

    def takes_logarithms(self, largest_gain: float) -> bool:
        """Whether gains are so large, or waits so long, that the recursion may work with logarithms."""
        wait = -self.law.gap * self.law.log_miss
        return self.law.prob >= 1 or largest_gain > MODERATE_GAIN or wait > MODERATE_DECAY

    @property
    def upper_bound(self) -> bool:
        """Whether columns of two participations may overlap: the recursion leaves their inner products out."""
        return self.strategy.bands > self.min_sep

    @property
    def law(self) -> RenewalLaw:
        """Law of the times at which at least one example of the group takes part."""
        hit = -math.expm1(self.group * log_miss_of(self.prob))
        return RenewalLaw.min_sep(hit, self.min_sep, self.warm)

    @property
    def no_participation(self) -> float:
        """Probability that the example never takes part."""
        n, b = self.strategy.iterations, self.min_sep
        miss = 1 - self.law.prob
        if not self.warm:
            return float(miss**n)
        soon = min(b - 1, n)  # an example that is barred for longer than the run never takes part
        barred = float((miss ** (n - np.arange(1.0, soon + 1))).sum()) + (b - 1 - soon)
        return float((miss**n + self.prob * barred) / (1 + (b - 1) * self.prob))

    @property
    def mean_participation(self) -> FloatArray:
        """Expected number of columns that a sample of P is moved by in each iteration."""
        n, each = self.strategy.iterations, self.group * self.prob
        if self.warm:
            return np.full(n, each * self.law.first_phase)
        available = np.ones(n)
        for i in range(1, n):
            released = available[i - self.min_sep] if i >= self.min_sep else 0.0
            available[i] = available[i - 1] + self.law.prob * (released - available[i - 1])
        return each * available

    def log_means(self, scores: Rows, linear: float, quadratic: float, weight: float = 1.0) -> FloatArray:
        """Return log E_x of weight^|x| exp(linear <C x, y>/s2 - quadratic |C x|^2/(2 s2)): log P/Q when all are 1."""
        log_miss = self.log_miss
        if self.group > 1:
            several = linear * scores.astype(np.float64)
            add_multiplicities(several, quadratic * self.half_norms, self.log_multiplicities + math.log(weight))
            return min_sep_log_ratios(several, np.zeros(self.half_norms.size), log_miss, self.min_sep, self.warm)
        offsets = math.log(self.prob * weight) - quadratic * self.half_norms
        gains = scores if linear == 1.0 else scores * scores.dtype.type(linear)
        return min_sep_log_ratios(gains, offsets, log_miss, self.min_sep, self.warm)

    def multiplicities(self, count: int, key: Key, chunk: int) -> FloatArray:
        """Return how many examples of the group take part in each participation."""
        cumulative = np.cumsum(np.exp(self.log_multiplicities))
        uniform = uniforms(KeyedWords(key.derive("weights")).take(chunk, count))
        extra = np.searchsorted(cumulative[:-1], uniform * cumulative[-1], side="right")
        return np.asarray(1.0 + extra)

    @cached_property
    def log_multiplicities(self) -> FloatArray:
        """Logarithms of Pr[Binomial(group, prob) = j] for j = 1, ..., group."""
        j = np.arange(1, self.group + 1)
        log_ways = np.array([math.log(math.comb(self.group, int(k))) for k in j])
        return np.asarray(log_ways + j * math.log(self.prob) + _times_log_miss(self.group - j, self.prob))


def _times_log_miss(counts: IntegerArray, prob: float) -> FloatArray:
    """Return counts * log(1 - prob), with 0 * -inf = 0."""
    return np.where(counts > 0, counts * log_miss_of(prob), 0.0) if prob < 1 else np.where(counts > 0, -np.inf, 0.0)
