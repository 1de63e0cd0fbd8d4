"""The least levels that the samples of a few distributions prove, at many epsilons.

One set of samples (log R, log dP'/dQ) gives the values of a test at every epsilon. The wealth of a test by betting
grows with its level, for fixed bets, so the least level at which it is 1/q is a valid bound with chance q:
docs/curves.md, section 1. Prover and checker share this file, which chooses nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from scipy import optimize

from minsep.accounting.certification.claims import is_immediate
from minsep.accounting.certification.curve_proof import NOTHING
from minsep.accounting.directions import Direction
from minsep.accounting.importance import BoundedLaw, Payoff, best_tangent, shared
from minsep.accounting.pairs import Pair
from minsep.accounting.reduction import Alongside, Reduction, Shift, best_reduction, unreduced
from minsep.accounting.sequential import log_wealth_of, values_are_valid
from minsep.core.arrays import FloatArray
from minsep.engine import Compute
from minsep.mechanism import Mechanism
from minsep.randomness import Key

Levels = tuple[float, ...]
"""A level at each epsilon of a curve; 1 where nothing is proven."""

_CLOSE = 1e-4  # how far a level may be above the least one, relative to it
_DIGITS = 5
_MOST_BOUND = 3.0  # of a test that may show anything
_MARGIN = 1e-6  # of the logarithm of the wealth, so that another processor finds it sufficient as well


@dataclass(frozen=True)
class Direct:
    """What has to be shown of one direction at several epsilons.

    Args:
        mechanism: The mechanism.
        direction: The direction.
        epsilons: The epsilons, in increasing order.
        level: The delta at which the mechanism was tested, by which bounds on truncation are chosen.
        alongside: What runs beside the mechanism, and is part of what is proven.
    """

    mechanism: Mechanism
    direction: Direction
    epsilons: tuple[float, ...]
    level: float
    alongside: Alongside = field(default_factory=Alongside)

    @property
    def payoff(self) -> Payoff:
        """What a test sums up."""
        return self.alongside.payoff(self.direction)

    def is_immediate(self, reduction: Reduction) -> bool:
        """Whether nothing is left to show at an epsilon."""
        return is_immediate(reduction, self.direction, self.payoff)

    @cached_property
    def reductions(self) -> tuple[Reduction | None, ...]:
        """What is left to show at each epsilon; None where it is about another pair than at the largest."""
        if self.alongside:
            one, terms = unreduced(self.mechanism, 0.0), self.payoff.infinite
            return tuple(Reduction(one.pair, Shift(epsilon, terms)) for epsilon in self.epsilons)
        found = [best_reduction(self.mechanism, each, self.level, self.direction) for each in self.epsilons]
        return tuple(one if one.pair == found[-1].pair else None for one in found)

    @property
    def pair(self) -> Pair:
        """The pair that samples are drawn for."""
        last = self.reductions[-1]
        assert last is not None
        return last.pair

    @cached_property
    def known(self) -> tuple[float, ...]:
        """A level at each epsilon that needs no samples; 1 where none is known."""
        return tuple(NOTHING if one is None else self._known(one) for one in self.reductions)

    def _known(self, reduction: Reduction) -> float:
        if self.is_immediate(reduction):
            return _whole(reduction, 0.0)
        pair, epsilon = reduction.pair, reduction.shift.epsilon
        if self.direction == "remove" or pair.upper_bound or self.alongside:
            return NOTHING
        by_moments = 1.0 if pair.moments is None else pair.moments.best(epsilon)[0]
        return _whole(reduction, min(best_tangent(pair, epsilon)[0], by_moments))

    @property
    def needs_samples(self) -> bool:
        """Whether samples can show anything."""
        tested = (one is not None and not self.is_immediate(one) for one in self.reductions)
        return any(tested) and not (self.direction == "add" and self.pair.upper_bound)


@dataclass(frozen=True)
class Draws:
    """Samples of a distribution, which serve at all epsilons.

    Attributes:
        law: The distribution.
        log_ratios: Their log R.
        log_densities: Their log dP'/dQ.
    """

    law: BoundedLaw
    log_ratios: FloatArray
    log_densities: FloatArray

    def proves(self, reduction: Reduction, level: float, chance: float) -> bool:
        """Whether the samples prove that the mechanism's delta is at most a level."""
        values, bound = self.values(reduction)
        if not values_are_valid(values, bound):
            return False
        if bound <= reduction.shift.level(level):
            return True
        left = reduction.shift.level(level) - bound * self.law.distance
        return 0 < left < bound <= _MOST_BOUND and log_wealth_of(values, left, bound) >= -math.log(chance)

    def values(self, reduction: Reduction) -> tuple[FloatArray, float]:
        """Return the values of a test at the epsilon of a reduction, and their bound."""
        epsilon, law = reduction.shift.epsilon, self.law
        values = law.upward_values(self.log_ratios, self.log_densities, epsilon)
        return values, law.upward_bound(epsilon)


def draw(law: BoundedLaw, seed: int, count: int, compute: Compute) -> Draws:
    """Return the samples of a distribution for a curve: other ones than for the test of one epsilon."""
    key = Key.from_seed(seed).derive("curve")
    parts = compute.run(partial(_chunk, law, key, count), -(-count // law.samples_in_chunk))
    log_ratios, log_densities = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Draws(law, log_ratios, log_densities)


def _chunk(law: BoundedLaw, key: Key, count: int, chunk: int) -> tuple[FloatArray, FloatArray]:
    log_ratios, log_densities = shared(law).draw(key, chunk)
    left = count - chunk * log_ratios.size
    return log_ratios[:left], log_densities[:left]


def known_levels(direct: Direct) -> Levels:
    """Return a level at each epsilon that needs no samples; 1 where none is known."""
    return tuple(map(rounded_up, direct.known))


def levels_of(drawn: Draws, direct: Direct, chance: float) -> Levels:
    """Return the least level that samples prove at each epsilon, but for this chance; 1 where there is none."""
    return tuple(rounded_up(_level(drawn, direct, reduction, chance)) for reduction in direct.reductions)


def lowest(found: Sequence[Levels]) -> Levels:
    """Return the least of several levels at each epsilon."""
    return tuple(map(min, zip(*found, strict=True)))


def _level(drawn: Draws, direct: Direct, reduction: Reduction | None, chance: float) -> float:
    if reduction is None or direct.is_immediate(reduction):
        return NOTHING
    values, bound = drawn.values(reduction)
    if not values_are_valid(values, bound):
        return NOTHING
    least = bound
    if bound <= _MOST_BOUND:
        found = least_level(values, bound, _MARGIN - math.log(chance)) + bound * drawn.law.distance
        least = min(least, found)
    return _whole(reduction, least)


def least_level(values: FloatArray, bound: float, target: float) -> float:
    """Return the least level at which the wealth of a test reaches a target, or hardly more; the bound if none does.

    Args:
        values: Values of the test.
        bound: The most that a value can be.
        target: The logarithm of the wealth.

    >>> values = np.repeat([0.0, 1.0], [9_900, 100])
    >>> 0.015 < least_level(values, 1.0, target=16.0) < 0.018
    True
    """
    values = np.minimum(values, bound)
    mean, deviation = float(values.mean()), float(values.std())
    spread = deviation * math.sqrt(2 * target / values.size) + bound * target / values.size

    def excess(level: float) -> float:
        return log_wealth_of(values, level, bound) - target

    top = bound * (1 - _CLOSE / 4)  # beyond it a level is hardly less than the bound
    if mean >= top:
        return bound
    low = high = min(mean + spread, top)
    while excess(high) < 0:
        if high == top:
            return bound
        low, high = high, min(high + spread, top)
    while low > mean and excess(low) >= 0:
        low, high = max(low - spread / 2, mean), low
    found = float(optimize.brentq(excess, low, high, rtol=_CLOSE / 4, xtol=_CLOSE / 4 * high))
    while excess(found) < 0:
        found = min(found * (1 + _CLOSE / 4), high)
    return found


def rounded_up(level: float) -> float:
    """Return a level with few digits that is at least this one, so that every processor finds about the same.

    >>> rounded_up(1.234561e-6), rounded_up(1.0)
    (1.2346e-06, 1.0)
    """
    if level >= 1.0:
        return 1.0
    if level <= 0.0:
        return 0.0
    digit = 10.0 ** (math.floor(math.log10(level)) + 1 - _DIGITS)
    nearest = float(f"{level:.{_DIGITS - 1}e}")
    return min(nearest if nearest >= level else float(f"{level + digit / 2:.{_DIGITS - 1}e}"), 1.0)


def _whole(reduction: Reduction, level: float) -> float:
    """Return what a level of the pair says of the mechanism."""
    shift = reduction.shift
    return min(shift.factor * level + shift.truncation_terms, 1.0)
