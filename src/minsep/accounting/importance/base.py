"""Sampling laws: what an estimate needs, and what a certificate needs in addition.

For one direction, a law P' draws samples of (log R, log dP'/dQ), R = P/Q. The mean under P' of

    remove:  X = (R - e^eps)+ / (dP'/dQ),          add:  X = (1 - e^eps R)+ / (dP'/dQ)

is delta. A bounded law also has a proven bound W on X. docs/certified-sampling.md has the proofs.
"""

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np

from minsep.accounting.directions import Direction
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.pairs import Pair
from minsep.accounting.pairs.base import ParticipationPair
from minsep.accounting.pairs.rounding import distance_of_draws, rounding_of
from minsep.core.arrays import FloatArray, Rows
from minsep.core.identity import Description
from minsep.core.registry import Registered
from minsep.randomness import Key


class Law(ABC, Registered):
    """A sampling law for one direction, whose density against Q is known."""

    pair: Pair
    direction: Direction

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together."""
        return self.pair.samples_in_chunk

    @abstractmethod
    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""


class ScoredLaw(Law):
    """A law whose density follows from the scores of a sample and its log R."""

    pair: ParticipationPair

    @abstractmethod
    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""

    @abstractmethod
    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores and log R."""

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        scores = self.draw_scores(key, chunk)
        log_ratio = self.pair.log_ratios_of_scores(scores)
        return log_ratio, self.log_density(scores, log_ratio)


class BoundedLaw(Law):
    """A law with a proven bound on X, and values of X that rounding cannot make too small.

    A subclass that names its `kind` can be read from a certificate.
    """

    payoff: Payoff
    """What the values of a test are made of."""

    # How far the grid of the normals may move a logarithm. The larger, the rarer a sample that is moved further.
    grid: ClassVar[float] = 1e-4

    @property
    @abstractmethod
    def power(self) -> int:
        """The power of the mean over participations in the density."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """By how much the law moves a sample for each participation."""

    @property
    @abstractmethod
    def log_constant(self) -> float:
        """Logarithm of M, the normaliser of the density."""

    @abstractmethod
    def log_bound(self, epsilon: float) -> float:
        """Return the logarithm of W, a bound on X."""

    @abstractmethod
    def describe(self) -> Description:
        """Return the law as plain data: all that rebuilds it from its pair and direction."""

    @classmethod
    @abstractmethod
    def read(cls, description: Description, pair: Pair, direction: Direction, payoff: Payoff) -> "BoundedLaw | None":
        """Return the law of a pair and direction that gave a description; None unless there is exactly such a law."""

    @classmethod
    def in_words(cls, description: Description) -> str:
        """Return what is drawn, in words."""
        return "the mechanism itself"

    @property
    def rounding(self) -> float:
        """h: a bound on the errors of logarithms, due to rounding and to the grid of the normals."""
        return self.grid + rounding_of(self.pair, self.power, self.scale)

    @property
    def distance(self) -> float:
        """Probability that a drawn sample is, in a coupling, not close to one of its exact law."""
        return distance_of_draws(self.pair, self.grid, self.power, self.scale)

    def upward_bound(self, epsilon: float) -> float:
        """Return a bound on the rounded-up values."""
        h = self.rounding
        return math.exp(self.log_bound(epsilon - 2 * h) + (2 * self.power + 3) * h)

    def draw_values(self, key: Key, chunk: int, epsilon: float) -> FloatArray:
        """Return rounded-up values of X at an epsilon, for the samples of a chunk."""
        log_ratio, log_density = self.draw(key, chunk)
        return self.upward_values(log_ratio, log_density, epsilon)

    def upward_values(self, log_ratio: FloatArray, log_density: FloatArray, epsilon: float) -> FloatArray:
        """Return values no smaller than X for any errors of the logarithms up to h; NaN where a logarithm is NaN."""
        return upward_values(self.direction, self.power, log_ratio, log_density, epsilon, self.rounding, self.payoff)


def law_from(description: Description, pair: Pair, direction: Direction, payoff: Payoff = ALONE) -> BoundedLaw:
    """Return the law that gave a description, for its pair and direction."""
    kind = _kind_of(description)
    law = None if kind is None else kind.read(description, pair, direction, payoff)
    if law is None:
        raise ValueError(f"The law is {description!r}, but this mechanism has no such law.")
    return law


def law_in_words(description: Description) -> str:
    """Return a law in words, as in "samples of the mechanism itself".

    >>> law_in_words({"kind": "tilted", "copies": 2, "tilt": 1.1})
    'a tilted law (2 copies, tilt 1.1)'
    """
    return (_kind_of(description) or BoundedLaw).in_words(description)


def _kind_of(description: Description) -> type[BoundedLaw] | None:
    match description:
        case {"kind": str(kind)}:
            return BoundedLaw.variants().get(kind)
    return None  # also for what is no description at all, in a forged journal


def upward_values(
    direction: Direction,
    power: int,
    log_ratio: FloatArray,
    log_density: FloatArray,
    epsilon: float,
    h: float,
    payoff: Payoff = ALONE,
) -> FloatArray:
    """Return values no smaller than X for any errors of the logarithms up to h; NaN where a logarithm is NaN."""
    log_ratio = np.where(log_ratio < np.inf, log_ratio, np.nan)
    log_density = np.where(log_density < np.inf, log_density, np.nan)
    if direction == "remove":
        up = log_ratio + h
        log_front, gap = up - log_density + (power + 1) * h, epsilon - up
    else:
        log_front, gap = -log_density + (power + 1) * h, epsilon - h + log_ratio
    paid = payoff.values(gap)
    return np.where(paid == 0.0, 0.0, np.exp(log_front) * paid)


AnyLaw = TypeVar("AnyLaw", bound=Law)


@lru_cache(maxsize=8)
def _first_equal(law: Any) -> Any:
    return law


def shared(law: AnyLaw) -> AnyLaw:
    """Return the first law that equals this one, so that its tables are computed once per process."""
    found: AnyLaw = _first_equal(law)
    return found
