"""A law for small delta, for estimates: a few participations move a sample by far more than the others."""

import math
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import ScoredLaw
from minsep.accounting.importance.tuple_law import TupleLaw
from minsep.accounting.pairs import MinSepPair
from minsep.accounting.pairs.kernels import min_sep_log_ratios
from minsep.core.arrays import FloatArray, Rows
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import uniforms

_FEWEST_ITERATIONS = 10_000
_NEIGHBOURS = 5.0  # of a participation, whose columns are nearly its own
_SHARE_OF_GAIN = 0.85  # other participations and noise do the rest
_LEAST_SCALE, _MOST_SCALE = 2.5, 12.0
_LARGEST_EPSILON = 500.0


@dataclass(frozen=True)
class LeapingLaw(ScoredLaw):
    """y = C x + z, where each participation of x is larger with odds `odds`: it counts `scale` times.

    If a small delta comes from single participations that the noise makes look larger, this law draws such samples, and
    other participations as P has them. Participations are 1 + `odds` times as likely as under P, in weight, so P' is at
    least P times a constant. There is no bound on X, and none is needed.
    """

    pair: MinSepPair
    direction: Direction
    scale: float
    odds: float
    kind = "leaping"

    def __post_init__(self) -> None:
        if not may_leap(self.pair, self.direction):
            raise ValueError(f"direction is {self.direction!r}, but a leaping law is for `remove` and one example.")

    @cached_property
    def law(self) -> TupleLaw:
        """Law of one participation vector with every participation weighted."""
        return TupleLaw(self.pair, 1, 0.0, 0.0, math.log1p(self.odds))

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores.

        Columns of one x do not overlap, so the gain e^l of a participation becomes e^l + odds e^l', l' with `scale`
        columns. The constant is the mean of (1 + odds) to the number of participations.
        """
        pair, gains = self.pair, np.empty(scores.shape, dtype=scores.dtype)
        _gains(scores, gains, pair.half_norms, self.scale, self.odds)
        offsets = np.full(pair.half_norms.size, math.log(pair.prob))
        return min_sep_log_ratios(gains, offsets, pair.log_miss, pair.min_sep, pair.warm) - self.law.log_constant

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        samples, times, weights = self.law.draw(key, chunk)
        leaps = uniforms(KeyedWords(key.derive("leaps")).take(chunk, samples.size)) < self.odds / (1 + self.odds)
        moved = np.where(leaps, self.scale * weights, weights)
        return self.pair.filter.scores(self.pair.moved_noise(key, chunk, samples, times, moved))


def may_leap(pair: object, direction: Direction) -> bool:
    """Return whether a pair has leaping laws."""
    return isinstance(pair, MinSepPair) and direction == "remove" and pair.group == 1


def leaping_law(pair: object, direction: Direction, epsilon: float) -> LeapingLaw | None:
    """Return the law for a run of many iterations in which one participation alone can lose epsilon; None otherwise.

    Its parameters follow from the scheme, so that no pilot is needed: about one leap a run, to where the gain of a
    participation and of its neighbours makes up for its probability.
    """
    if not isinstance(pair, MinSepPair) or not may_leap(pair, direction):
        return None
    if pair.strategy.iterations < _FEWEST_ITERATIONS:
        return None
    squared = 2 * float(pair.half_norms.max())
    means = pair.mean_participation
    gain = math.log(math.expm1(min(epsilon, _LARGEST_EPSILON)) / (_NEIGHBOURS * float(means.max())))
    scale = _SHARE_OF_GAIN * (gain / squared + 0.5)
    if not _LEAST_SCALE <= scale <= _MOST_SCALE:
        return None
    odds = min(1 / float(means.sum()), 1.0)
    return LeapingLaw(pair, direction, round(scale, 3), round(odds, 6))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _gains(scores, gains, half_norms, scale, odds):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set gains to log(e^(s - h) + odds e^(scale s - scale^2 h)), s the score and h the half norm."""
    log_odds = math.log(odds)
    for row in range(scores.shape[0]):
        for i in range(half_norms.size):
            for side in range(2):
                score = scores[row, 2 * i + side]
                plain = score - half_norms[i]
                leap = log_odds + scale * score - scale * scale * half_norms[i]
                if leap - plain > -20.0:
                    high, low = max(plain, leap), min(plain, leap)
                    plain = high + math.log1p(math.exp(low - high))
                gains[row, 2 * i + side] = plain
