"""The Renyi-tilted law, from which certificates draw."""

import math
from dataclasses import dataclass, field
from functools import cached_property

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import BoundedLaw, ScoredLaw
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.importance.tuple_law import TupleLaw, affordable
from minsep.accounting.pairs import Pair, TiltablePair
from minsep.accounting.pairs.rounding import distance_of_draws
from minsep.core.arrays import FloatArray, Rows
from minsep.core.identity import Description
from minsep.randomness import Key

MOST_COPIES = 12
"""Most copies of a tilted law."""
_MOST_TABLE = 8 << 30  # bytes


@dataclass(frozen=True)
class TiltedLaw(ScoredLaw, BoundedLaw):
    """The Renyi-tilted law dP'/dQ = F_t^k / M with F_t = E_x exp(t l_x): k copies, scale t.

    `tilt` is t: at least 1 for `remove` and negative for `add`; the order is k |t|. If x is a sum of several vectors,
    copies are of x itself (`whole`), or of one vector. P/Q is at most that of one vector to their number, so that
    divides the order of such copies for `remove`; for `add` they have no bound.
    """

    pair: TiltablePair
    direction: Direction
    copies: int
    tilt: float
    whole: bool = False
    payoff: Payoff = field(default=ALONE, kw_only=True)
    kind = "tilted"

    def __post_init__(self) -> None:
        if self.pair.upper_bound:
            bands, min_sep = self.pair.strategy.bands, self.pair.single.min_sep
            raise ValueError(f"bands is {bands}, but a tilted law needs at most min_sep = {min_sep}.")
        if (self.direction == "remove" and self.tilt < 1) or (self.direction == "add" and self.tilt >= 0):
            raise ValueError(f"tilt is {self.tilt}, but it must be at least 1 for `remove` and below 0 for `add`.")
        if self.whole and self.pair.vectors == 1:
            raise ValueError("whole is True, but x is a single vector: it must be False.")

    @property
    def power(self) -> int:
        """k: the number of copies."""
        return self.copies

    @property
    def scale(self) -> float:
        """t: the tilt."""
        return self.tilt

    @cached_property
    def law(self) -> TupleLaw:
        """Law of the tuples; t times the sum of their columns is the mean of the law's normals."""
        t, variance = self.tilt, self.pair.noise_multiplier**2
        own, shared = (t * t - t) / (2 * variance), t * t / variance
        return TupleLaw(self.pair.single, self.copies, own, shared, vectors=self.pair.vectors if self.whole else 1)

    @property
    def log_constant(self) -> float:
        """Logarithm of M: the total weight of all tuples."""
        return self.law.log_constant

    def log_bound(self, epsilon: float) -> float:
        """Return log M + the largest log of (R - e^eps) R^-a, or of (1 - e^eps R) R^a, a the order."""
        a = self.copies * abs(self.tilt)
        if self.pair.vectors > 1 and not self.whole:
            a /= self.pair.vectors
            if self.direction == "add" or a <= 1:
                return math.inf
        if self.direction == "remove":
            return self.log_constant - (a - 1) * epsilon + self.payoff.log_peak(a - 1)
        return self.log_constant - a * epsilon + self.payoff.log_peak(a)

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        samples, times, weights = self.law.draw(key, chunk)
        return self.pair.filter.scores(self.pair.moved_noise(key, chunk, samples, times, self.tilt * weights))

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores and log R."""
        copied = self.pair if self.whole else self.pair.single
        known = self.tilt == 1.0 and copied.vectors == self.pair.vectors
        log_mean = log_ratio if known else copied.log_means(scores, self.tilt, self.tilt)
        return self.copies * log_mean - self.log_constant

    @property
    def distance(self) -> float:
        """Probability that a drawn sample is not close to one of its exact law."""
        return distance_of_draws(self.pair, self.grid, self.copies, self.tilt, self.law.vectors)

    @classmethod
    def read(
        cls, description: Description, pair: Pair, direction: Direction, payoff: Payoff = ALONE
    ) -> "TiltedLaw | None":
        """Return the law of a pair and direction that gave a description; None unless there is exactly such a law."""
        match description:
            case {"kind": cls.kind, "copies": int() as copies, "tilt": float() as tilt, **rest} if (
                rest in ({}, {"whole": True}) and (tiltable := pair.tiltable) is not None
            ):
                whole, few = bool(rest), 1 <= copies <= MOST_COPIES
                sums = pair.vectors > 1 or not whole
                if few and sums and affordable(tiltable.single, copies, _MOST_TABLE, pair.vectors if whole else 1):
                    return cls(tiltable, direction, copies, tilt, whole, payoff=payoff)
        return None

    @classmethod
    def in_words(cls, description: Description) -> str:
        """Return what is drawn, in words."""
        match description:
            case {"copies": copies, "tilt": tilt, "kind": _, **rest}:
                of = " of the user" if rest else ""
                return f"a tilted law ({copies} cop{'y' if copies == 1 else 'ies'}{of}, tilt {tilt:.3g})"
        return super().in_words(description)

    def describe(self) -> Description:
        """Return the law as plain data."""
        described = {"kind": self.kind, "copies": self.copies, "tilt": self.tilt}
        return {**described, "whole": True} if self.whole else described
