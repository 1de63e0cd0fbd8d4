"""What rounding costs a run in epsilon and delta: the theorem of docs/rounding.md as a function.

The costs do not depend on the noise multiplier, because the grid follows it: they are those of the finest grid that a
noise multiplier can have.
"""

import math
from dataclasses import dataclass

import numpy as np

from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.noise.grid import DEVIATIONS, FINENESS, SMOOTHING, reach_of
from minsep.strategy import Strategy
from minsep.strategy.inverse_banded import powers
from minsep.strategy.recurrence import Buffers

DEFAULT_VALUES = 10**10
"""Released values (model size times iterations) that a certificate covers if it is not told how many there are."""

_UNIT = 2.0**-53
# A normal variate of radius r is within so much times r of an exact one: proven for the host, and for devices whose
# elementary functions are right to four units in the last place (Lemma 4).
NORMAL_ERROR = 20 * _UNIT
_RADIUS = 11.9  # beyond it nothing is claimed about a pair of variates
_TAIL = 8e-31  # probability of that for a value and its smoothing, and of a row beyond its reach
_TAIL_OF_Z = 1.7e-26  # the same, where a row is a sum of normals none of which may lie far out
_AT_THE_END = 7.2e-13  # error of a variate near that radius
_MOST_ORDER = 5e6  # of a moment, which cells at that radius limit
_LOG_CHANCE_OF_LARGER = 100.0  # minus the logarithm of the chance that radii are larger on average
_MEAN_RADIUS = math.sqrt(math.pi / 2)
_SHARE = 1e-5  # of delta, for the chance that rounding costs more than its epsilon
_MOST_TAIL = 0.01  # of delta
_MOST_GAPS = 0.01


def rounding_cost(strategy: Strategy, values: float, chance: float) -> tuple[float, float]:
    """Return (x, beta): but for probability beta, rounding changes no probability of a run by more than a factor e^x.

    A run of an (epsilon, delta)-DP mechanism is then (epsilon + 2 x, e^x delta + beta (1 + e^(epsilon + 2 x)))-DP.

    Args:
        strategy: The strategy of the mechanism.
        values: The number of released values, model size times iterations.
        chance: A part of beta. The rest of beta is the tails of normal variates.

    >>> from minsep import BandedToeplitz
    >>> x, beta = rounding_cost(BandedToeplitz.optimal(iterations=2000, bands=16), values=1e9, chance=1e-15)
    >>> 1e-5 < x < 6e-5, beta < 2e-15
    (True, True)
    """
    values = validate.real(values=values, above=0)
    chance = validate.real(chance=chance, above=0, below=1)
    errors = _relative_errors(strategy, values)
    variance = values / 2 * sum(error.variance for error in errors)
    tail = (_TAIL if strategy.recurrence().moving_sum is None else _TAIL_OF_Z) * values
    needed = 1.0 - math.log(chance)
    largest = max(error.largest for error in errors)
    order = min(math.sqrt(needed / (0.72 * variance)), 1 / largest, _MOST_ORDER)
    gaps = _gaps(strategy, values)
    if not order >= 2 or order * tail > 1 or gaps > _MOST_GAPS:  # also for NaN
        raise ValueError(
            f"values is {values:.3g} and strategy is {strategy!r}, whose C^-1 has rows of norm up to "
            f"{strategy.largest_inverse_row_norm:.2g}, but nothing is proven about rounding in so long a run, or if "
            "C^-1 grows."
        )
    x = (needed + 0.72 * order**2 * variance) / (order - 1)
    return x + 1.05 * gaps, chance + tail


@dataclass(frozen=True)
class Reserve:
    """The part of a budget that a certificate keeps for rounding in the run.

    Attributes:
        values: How many values the run may release: model size times iterations.
        epsilon: The epsilon that is kept.
        delta: The delta that is kept.

    >>> from minsep import BandedToeplitz
    >>> reserve = Reserve.of(BandedToeplitz.optimal(iterations=2000, bands=16), Budget(4.0, 1e-5), 10**10)
    >>> reserve.epsilon < 3e-4, reserve.delta < 1.1e-8
    (True, True)
    """

    values: int
    epsilon: float
    delta: float

    @classmethod
    def of(cls, strategy: Strategy, budget: Budget, values: int) -> "Reserve":
        """Return the reserve of a run.

        Args:
            strategy: The strategy of the mechanism.
            budget: What is promised. One that rounding would use up is refused.
            values: How many values the run may release.
        """
        others = 1 + math.exp(budget.epsilon)
        x, beta = rounding_cost(strategy, values, _SHARE * budget.delta / others)
        # Rounded up to few digits, so that every processor finds the same numbers.
        epsilon = _rounded_up(2 * x)
        delta = _rounded_up(beta * others + budget.delta * math.expm1(x))
        if epsilon >= budget.epsilon or delta > _MOST_TAIL * budget.delta:
            share = f"{delta:g}" if delta < budget.delta else "all"
            raise ValueError(
                f"epsilon is {budget.epsilon:g} and delta is {budget.delta:g}, but a run that releases {values:.3g} "
                f"values (model size times iterations) loses {epsilon:g} of epsilon and {share} of delta to rounding: "
                "state model_size if the model is smaller, or choose a larger delta, or an epsilon from 0.001 to 30."
            )
        return cls(values, epsilon, delta)

    def left(self, budget: Budget) -> Budget:
        """Return what is left of a budget: what must be shown of the mechanism without rounding.

        Args:
            budget: What is promised.
        """
        return Budget(budget.epsilon - self.epsilon, budget.delta - self.delta)

    def suffices(self, strategy: Strategy, budget: Budget) -> bool:
        """Return whether this is at least what a run of so many values needs.

        Args:
            strategy: The strategy of the mechanism.
            budget: What is promised.
        """
        if self.values == 0:
            return self.epsilon == self.delta == 0
        needed = Reserve.of(strategy, budget, self.values)
        return self.epsilon >= needed.epsilon and self.delta >= needed.delta


@dataclass(frozen=True)
class _RelativeError:
    """How far the probabilities of cells are off, for one kind of draws (Lemmas 5 to 7).

    Attributes:
        slope: a: the probability of a cell of radius r is right up to a relative a r + b.
        offset: b.
        cells: How many of them are in a standard deviation, with what their own width adds.
        shift: What is added to both for the normals of other draws, at most.
        typical: The root mean square of that, relative to the most.
    """

    slope: float
    offset: float
    cells: float
    shift: float = 0.0
    typical: float = 1.0

    @property
    def variance(self) -> float:
        """Bound on the mean square of the relative error, but for the few draws of Lemma 8."""
        a, b = (number + self.typical * self.shift for number in (self.slope, self.offset))
        return 2 * a**2 + 2 * _MEAN_RADIUS * a * b + b**2

    @property
    def largest(self) -> float:
        """Bound on the relative error, up to the largest radius."""
        at_the_end = 4.3 * self.cells * _AT_THE_END
        return (self.slope + self.shift) * _RADIUS + self.offset + self.shift + at_the_end


def _relative_errors(strategy: Strategy, values: float) -> list[_RelativeError]:
    """Return the errors of rows and of the smoothing."""
    finest, shape = 2.0 ** (FINENESS + 1), _RADIUS + 4
    sharp = 4.3 * shape * (NORMAL_ERROR + 4 * _UNIT)
    recurrence = strategy.recurrence()
    if recurrence.moving_sum is not None:
        sizes = np.abs(recurrence.moving_sum)
        in_row = NORMAL_ERROR * _RADIUS + (sizes.size + 3) * _UNIT * _RADIUS
        moved = 2.2 * finest * float(sizes.sum()) / float(sizes[0]) / SMOOTHING  # by an error of a normal variate
        shift = moved * in_row
        cells = shape + moved * (1 + _RADIUS) / 4.3
        return [_RelativeError(sharp, sharp, cells, shift, _typical_radius(values) / _RADIUS)]
    diagonal = strategy.diagonal
    largest, least = float(diagonal.max()), float(diagonal.min())
    cells = finest * largest / least + shape
    reach = reach_of(strategy, largest * finest)
    if recurrence.buffers is None:
        of_mean = (recurrence.window + 3) * strategy.largest_row_sum / least * reach
    else:
        of_mean = _error_of_buffers(strategy, recurrence.buffers, largest * finest)
    shift = 2.2 * of_mean * _UNIT / (finest / 2)
    slope = 4.3 * cells * (NORMAL_ERROR + 4 * _UNIT) + shift
    offset = 4.3 * cells * (_UNIT * (reach + 1) / (finest / 2) + NORMAL_ERROR / 100) + shift
    return [_RelativeError(slope, offset, cells), _RelativeError(sharp, sharp, shape)]


def _typical_radius(values: float) -> float:
    """Return what the root mean square of the radii of normals does not exceed, but for a chance of 4e-44 (Lemma 8)."""
    low, high = 0.0, 4 * _LOG_CHANCE_OF_LARGER / values + 4.0
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        enough = values / 2 * (middle - math.log1p(middle)) >= _LOG_CHANCE_OF_LARGER
        low, high = (low, middle) if enough else (middle, high)
    return min(math.sqrt(2 * (1 + high)), _RADIUS)


def _error_of_buffers(strategy: Strategy, buffers: Buffers, steps: float) -> float:
    """Return a bound on the error of what the buffers add to a row, in units of the last place (Lemma 7).

    Args:
        strategy: The strategy.
        buffers: Its buffers.
        steps: The noise multiplier in steps of the grid.
    """
    total, count = 0.0, buffers.decays.size
    for decay, weight in zip(buffers.decays.tolist(), np.abs(buffers.weights).tolist(), strict=True):
        held = strategy.solve(powers(decay, strategy.iterations))  # column of what is in the buffer, as a filter of Z
        with np.errstate(over="ignore", invalid="ignore"):
            norm, absolute = float(np.linalg.norm(held)), float(np.abs(held).sum())
        most = DEVIATIONS * steps * norm + 0.5 * float(strategy.diagonal.max()) * absolute
        rounds = min(1 / (1 - decay), strategy.iterations)  # how many steps' errors are in the buffer
        total += weight * most * (2.1 * rounds + count + 3)
    return total


def _gaps(strategy: Strategy, values: float) -> float:
    """Return a bound on what the gaps of the grid change in the density of smoothed rows, relative (Lemma 3)."""
    if not strategy.recurrence().on_grid:
        return 0.0
    widest = SMOOTHING * 2.0**-FINENESS / float(strategy.diagonal.max())  # of the smoothing, in noise multipliers
    squared = SMOOTHING**2 / (1 + widest**2 * (strategy.largest_row_sum * strategy.largest_column_sum))
    return 2.01 * values * math.exp(-2 * math.pi**2 * squared)


def _rounded_up(value: float) -> float:
    """Return a number of two digits that is at least the value."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / digit * (1 - 1e-12)) * digit:.1e}")
