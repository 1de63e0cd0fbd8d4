"""The curve of the best of a random number of trials: the theorem of docs/tuning.md."""

import math
from fractions import Fraction

import numpy as np

from minsep.accounting.curves.points import Point, PointCurve
from minsep.accounting.curves.trials import Trials
from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.core.arrays import FloatArray

_RANKS = 4000  # at which the weights are bracketed, from either end
_SMALLEST_RANK = 1e-14
_POINTS = 600  # of the curve
_MARGIN = 1e-10  # share of a delta that is added to it, for the rounding of a sum
_WEIGHTS = 4e-12  # share by which weights are moved to the safe side, for their rounding
_CHOICE = 1e-14  # share of the mean that is added to delta: for a line that is taken for its neighbour
_DOUBT = 1e-14  # share of a product below which a comparison of two is made in fractions
_FURTHEST = 512.0
_HALVINGS = 40
_NEGLIGIBLE = 1e-6  # share of the last delta
_SMALLEST = 1e-30


def tuned_points(curve: PointCurve, trials: Trials) -> PointCurve:
    """Return an upper bound on the curve of the best of a random number of trials.

    Args:
        curve: The curve of one trial.
        trials: The distribution of the number of trials.

    >>> from minsep.accounting.curves.trials import trials_of
    >>> one = PointCurve(((1.0, 1e-6),), ((1.0, 1e-6),))
    >>> best = tuned_points(one, trials_of(10, "geometric"))
    >>> 2.5 < best.epsilon(1e-4, "remove") < 3.0  # three times epsilon, by the first theorem of this kind
    True
    """
    found = {direction: _points(curve, trials, direction) for direction in DIRECTIONS}
    return PointCurve(found["remove"], found["add"])


def _points(curve: PointCurve, trials: Trials, direction: Direction) -> tuple[Point, ...]:
    other: Direction = "add" if direction == "remove" else "remove"
    sign = 1.0 if direction == "remove" else -1.0
    losses = sign * np.array([atom.loss for atom in curve.atoms])
    first = np.array([atom.under_p for atom in curve.atoms])  # probabilities under P for `remove`, under Q for `add`
    second = np.array([atom.under_q for atom in curve.atoms])
    if direction == "add":
        losses, first, second = losses[::-1], second[::-1], first[::-1]
    lines = _Lines.of(trials, first, second, curve.infinite(other))
    always = trials.mean * (curve.infinite(direction) + _CHOICE)
    sizes = np.exp(losses)

    def delta(epsilon: float) -> float:
        # The payoff is a function of R e^-epsilon alone, times e^epsilon.
        paid = math.exp(epsilon) * lines.highest(sizes * math.exp(-epsilon))
        return (float(second @ paid) + always) * (1 + _MARGIN)

    # Any points are proven. Behind the last one the curve is constant: there hardly more than `always` may be left.
    low, high = 0.0, min(max(float(losses.max(initial=0.0)) + lines.reach, 1e-3), _FURTHEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = delta(middle) <= always * (1 + _NEGLIGIBLE) + _SMALLEST
        low, high = (low, middle) if enough else (middle, high)
    return tuple((epsilon, min(delta(epsilon), 1.0)) for epsilon in np.linspace(0.0, high, _POINTS).tolist())


class _Lines:
    """The upper envelope of the lines w(a_i) u - w(b_i), where a set of probability a_(i+1) has at most b_i under Q.

    Between a_i and a_(i+1), w(a) is at most w(a_i), and w of the other probability at least w(b_i).

    Attributes:
        reach: The logarithm of the least u from which on no line is above 0, with the other sign.
    """

    def __init__(self, slopes: FloatArray, offsets: FloatArray) -> None:
        hull: list[tuple[float, float]] = []
        for point in sorted(zip(slopes.tolist(), offsets.tolist(), strict=True)):
            while hull and hull[-1][0] == point[0] and hull[-1][1] >= point[1]:
                hull.pop()
            if hull and hull[-1][0] == point[0]:
                continue
            while len(hull) > 1 and _is_above(hull[-2], hull[-1], point):
                hull.pop()
            hull.append(point)
        self._slopes, self._offsets = np.array(hull).T
        self._breaks = np.diff(self._offsets) / np.diff(self._slopes)
        with np.errstate(divide="ignore", over="ignore"):
            self.reach = float(np.log((slopes / offsets).max())) if offsets.min() > 0 else math.inf

    @classmethod
    def of(cls, trials: Trials, first: FloatArray, second: FloatArray, zero: float) -> "_Lines":
        """Return the lines for a pair of distributions with increasing losses.

        Args:
            first: The probabilities of the finite losses under the first distribution.
            second: The same under the second one.
            zero: The probability under the second distribution of what cannot happen under the first.
        """
        # The trade-off curve: the likeliest under the second come first.
        reached = np.concatenate([[0.0], np.cumsum(first), [1.0]]).clip(0.0, 1.0)
        most = np.concatenate([[zero], zero + np.cumsum(second), [1.0]]).clip(0.0, 1.0)
        ends = np.geomspace(_SMALLEST_RANK, 1.0, _RANKS)
        ranks = np.unique(np.concatenate([[0.0], ends, 1.0 - ends, reached]))
        # Sums of n probabilities are right to a share of n 2^-53. Weights fall, so their arguments are moved first.
        room = (first.size + 100) * 1e-15
        others = np.minimum(np.interp(ranks, reached, most) * (1 + room), 1.0)
        slopes = trials.weight(ranks[:-1] * (1 - room)) * (1 + _WEIGHTS)
        return cls(slopes, trials.weight(others[1:]) * (1 - _WEIGHTS))

    def highest(self, places: FloatArray) -> FloatArray:
        """Return the height of the envelope at each place, at least 0."""
        which = np.searchsorted(self._breaks, places)
        return np.asarray(np.maximum(self._slopes[which] * places - self._offsets[which], 0.0))


def _is_above(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    """Whether the second of three points lies on or above the line through the others, in exact numbers."""
    left = (second[1] - first[1]) * (third[0] - first[0])
    right = (third[1] - first[1]) * (second[0] - first[0])
    if abs(left - right) > _DOUBT * (abs(left) + abs(right)):
        return left > right
    (x, y), (u, v), (s, t) = ((Fraction(place), Fraction(height)) for place, height in (first, second, third))
    return (v - y) * (s - x) >= (t - y) * (u - x)
