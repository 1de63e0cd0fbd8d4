"""Privacy curves that need no samples: delta as a function of epsilon, for both directions of the zero-out relation."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from minsep.accounting.directions import Direction
from minsep.accounting.exact.normal import normal_excess
from minsep.core.arrays import FloatArray

IN_WORDS = {"gaussian": "in closed form", "pld": "from the privacy loss distribution"}

MARGIN = 1e-11
"""Share of a delta that is added to it, for the sums over its losses."""

# A delta is not carried if rounding may be more than a tenth of it.
_CARRIED_ROUNDINGS = 10.0
_MOST_EPSILON = 1e7
_FINE, _FINE_IS_FOR = 1e-4, 10.0  # a spacing, and the epsilon up to which it is used


class DeltaCurve(ABC):
    """delta as a function of epsilon, for both directions: that of a mechanism, or an upper bound on it."""

    @abstractmethod
    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon, which may be negative."""

    def epsilon(self, delta: float, direction: Direction) -> float:
        """Return the smallest epsilon, at least 0, with at most this delta; infinity if there is none."""

        def excess(epsilon: float) -> float:
            return float(self.delta(epsilon, direction)) - delta

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > _MOST_EPSILON:
                return math.inf
        found = float(optimize.brentq(excess, 0.0, high, xtol=1e-10, rtol=1e-12))
        while excess(found) > 0:
            found = math.nextafter(found * (1 + 1e-12), math.inf)
        return found


class ExactCurve(DeltaCurve):
    """A curve that needs no samples."""

    method: ClassVar[Literal["gaussian", "pld"]]
    """How it is computed: a key of `IN_WORDS`."""
    upper_bound: bool
    """Whether the curve is that of a stronger adversary, or of a bound on the sensitivity."""

    @property
    def rounding(self) -> float:
        """What is added to every delta because rounding may have removed it."""
        return 0.0

    def carries(self, delta: float) -> bool:
        """Whether a delta is well above the rounding error."""
        return delta >= _CARRIED_ROUNDINGS * self.rounding

    def refusal(self, delta: float) -> ValueError:
        """Return the error for a delta that the curve does not carry."""
        return ValueError(
            f"delta is {delta:g}, but exact accounting of this mechanism needs a delta of at least "
            f"{_CARRIED_ROUNDINGS * self.rounding:.2g}: its rounding error may be {self.rounding:.2g}."
        )


@dataclass(frozen=True)
class GaussianCurve(ExactCurve):
    """The Gaussian mechanism with this ratio of sensitivity to noise: Balle and Wang (2018), Theorem 8."""

    shift: float
    upper_bound: bool = False
    method = "gaussian"

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon; the two directions are the same."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        return normal_excess(epsilon - self.shift**2 / 2, self.shift)


@dataclass(frozen=True)
class GaussianMixtureCurve(ExactCurve):
    """A Gaussian mechanism whose shift is random but known to the adversary: the mean of the curves of its shifts."""

    shifts: FloatArray
    probabilities: FloatArray
    upper_bound: bool = True
    method = "gaussian"

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon; the two directions are the same."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        total = np.zeros(epsilon.shape)
        for shift, probability in zip(self.shifts, self.probabilities, strict=True):
            if shift == 0:
                total = total + probability * np.maximum(-np.expm1(epsilon), 0.0)
            elif probability > 0:
                total = total + probability * GaussianCurve(float(shift)).delta(epsilon, direction)
        return np.minimum(total * (1 + MARGIN), 1.0)


@dataclass(frozen=True)
class LargestCurve(ExactCurve):
    """The larger delta of several curves at each epsilon."""

    curves: tuple[ExactCurve, ...]
    upper_bound: bool = True
    method = "pld"

    @property
    def rounding(self) -> float:
        """The largest of all curves."""
        return max(curve.rounding for curve in self.curves)

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return the larger delta at each epsilon."""
        deltas = [curve.delta(epsilon, direction) for curve in self.curves]
        return np.asarray(np.maximum.reduce(deltas))


def spacing_for(epsilon: float) -> float:
    """Return the spacing of losses at an epsilon: it grows with their range, so their number stays the same."""
    return _FINE * max(1.0, epsilon / _FINE_IS_FOR)
