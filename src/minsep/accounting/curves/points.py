"""The pair of distributions that proven points of a curve dominate with.

With alpha = e^epsilon, H_alpha(P, Q) is a convex and decreasing function of alpha, with H_0 = 1. A bound on `add` is
one of the same function: H_alpha(P, Q) = 1 - alpha + alpha H_(1/alpha)(Q, P). So the lower convex hull of all proven
points, constant behind the last, is an upper bound. It is the curve of a discrete pair: docs/curves.md, section 2.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from minsep.accounting.directions import Direction
from minsep.accounting.exact import DeltaCurve
from minsep.core.arrays import FloatArray

Point = tuple[float, float]
"""An epsilon, and a delta that is proven at it."""

Vertex = tuple[Fraction, Fraction]  # alpha = e^epsilon, and H there

_MARGIN = 1e-12  # share of a delta that is added to it, for the rounding of an interpolation
_LARGEST_EPSILON = 700.0


@dataclass(frozen=True)
class Atom:
    """A privacy loss that the pair has with positive probability.

    Attributes:
        loss: The logarithm of P/Q.
        under_p: Its probability under P.
        under_q: Its probability under Q.
    """

    loss: float
    under_p: float
    under_q: float


@dataclass(frozen=True)
class PointCurve(DeltaCurve):
    """The upper bound that points of both directions prove together.

    Args:
        remove: Points of the direction `remove`. An epsilon may be negative.
        add: Points of the direction `add`.

    >>> curve = PointCurve(remove=((1.0, 0.1),), add=((1.0, 0.1),))
    >>> round(float(curve.delta(1.0, "remove")), 6), round(float(curve.delta(5.0, "add")), 6)
    (0.1, 0.1)
    >>> round(float(curve.delta(0.0, "remove")), 6)  # that of a randomised response
    0.515905
    """

    remove: tuple[Point, ...]
    add: tuple[Point, ...]

    @cached_property
    def hull(self) -> tuple[Vertex, ...]:
        """The vertices (alpha, H) of the lower convex hull, in exact numbers, from (0, 1) to the lowest."""
        lowest: dict[Fraction, Fraction] = {Fraction(0): Fraction(1)}
        for alpha, height in self._heights():
            lowest[alpha] = min(height, lowest.get(alpha, height))
        hull: list[Vertex] = []
        for point in sorted(lowest.items()):
            while len(hull) > 1 and not _turns_up(hull[-2], hull[-1], point):
                hull.pop()
            hull.append(point)
        last = min(range(len(hull)), key=lambda place: (hull[place][1], place))
        return tuple(hull[: last + 1])

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return the bound at each epsilon, rounded up."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        absolute = np.minimum(np.abs(epsilon), _LARGEST_EPSILON)
        size = np.exp(absolute) * (1 - 2.0**-51)  # at most e^|epsilon|
        other: Direction = "add" if direction == "remove" else "remove"
        beyond, before = _height(size, *self._tables[direction]), _height(size, *self._tables[other])
        # At a negative epsilon it follows from the other direction.
        found = np.where(epsilon >= 0, beyond, before * np.exp(-absolute) - np.expm1(-absolute))
        return np.asarray(np.minimum(found * (1 + _MARGIN), 1.0))

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The finite losses of the pair, in increasing order."""
        slopes = [(right[1] - left[1]) / (right[0] - left[0]) for left, right in pairwise(self.hull)]
        changes = [after - before for before, after in pairwise([*slopes, Fraction(0)])]
        return tuple(
            Atom(math.log(float(alpha)), float(alpha * change), float(change))
            for (alpha, _), change in zip(self.hull[1:], changes, strict=True)
        )

    def infinite(self, direction: Direction) -> float:
        """Return the probability of an infinite loss."""
        if direction == "remove":
            return float(self.hull[-1][1])
        if len(self.hull) == 1:
            return 1.0
        (_, _), (alpha, height) = self.hull[:2]
        return float((height - 1 + alpha) / alpha)

    @property
    def epsilons(self) -> FloatArray:
        """The absolute values of the losses, in increasing order."""
        return np.unique([abs(atom.loss) for atom in self.atoms])

    def _heights(self) -> Iterable[Vertex]:
        """Yield the points as (alpha, H), with alpha rounded to the side on which they hold."""
        for epsilon, delta in self.remove:
            yield _exponential(epsilon), Fraction(delta)
        for epsilon, delta in self.add:
            alpha = 1 / _exponential(epsilon)
            yield alpha, 1 - alpha + alpha * Fraction(delta)

    @cached_property
    def _tables(self) -> dict[Direction, tuple[FloatArray, FloatArray]]:
        """e^epsilon and delta at the vertices of each direction, from (0, 1) on."""
        first, *others = self.hull
        # Behind the last vertex of `add` lies what has no P at all.
        mirrored = [(1 / alpha, (height - 1 + alpha) / alpha) for alpha, height in reversed(others)]
        return {"remove": _table([first, *others]), "add": _table([first, *mirrored])}


def _table(vertices: list[Vertex]) -> tuple[FloatArray, FloatArray]:
    """Return vertices as numbers, both rounded up: a vertex above and to the right of a decreasing curve is proven."""
    numbers = np.array([(float(alpha), float(height)) for alpha, height in vertices])
    numbers[1:] = np.nextafter(numbers[1:], math.inf)
    numbers = numbers[np.append(np.diff(numbers[:, 0]) > 0, True)]  # of equal sizes the last one, which is the lowest
    return numbers[:, 0], numbers[:, 1]


def _height(size: FloatArray, sizes: FloatArray, heights: FloatArray) -> FloatArray:
    """Return the height of a curve between its vertices, and behind the last, as a sum of terms that are not negative.

    A term is right up to some units in its last place, however steep the curve is.
    """
    if sizes.size == 1:
        return np.full(size.shape, heights[0])
    right = np.clip(np.searchsorted(sizes, size, side="right"), 1, sizes.size - 1)
    share = np.clip((sizes[right] - size) / (sizes[right] - sizes[right - 1]), 0.0, 1.0)
    found: FloatArray = share * heights[right - 1] + (1 - share) * heights[right]
    return found


def _turns_up(first: Vertex, second: Vertex, third: Vertex) -> bool:
    """Whether the second of three points lies below the line through the others."""
    return (second[1] - first[1]) * (third[0] - first[0]) < (third[1] - first[1]) * (second[0] - first[0])


def _exponential(epsilon: float) -> Fraction:
    """Return a number that is at least e^epsilon, and hardly more."""
    return Fraction(math.nextafter(math.exp(epsilon) * (1 + 2.0**-51), math.inf))
