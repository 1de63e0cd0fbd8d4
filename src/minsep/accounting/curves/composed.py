"""The curve of several mechanisms on the same data, from their privacy losses.

Each mechanism may depend on what those before it released: the losses of the pairs that dominate them add up all the
same. They lie on one grid, to which each loss is rounded up, so that a composition is never too small.
"""

import math
from collections.abc import Sequence

import numpy as np

from minsep.accounting.curves.points import PointCurve
from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.exact import (
    DeltaCurve,
    ExactCurve,
    GaussianCurve,
    Masses,
    PldCurve,
    connected_losses,
    gaussian_on_grid,
    losses_on_grid,
    on_coarser_grid,
    sum_of_losses,
)

_FINE = 1e-4  # the spacing of losses
_MOST_PLACES = 2_000_000  # of one mechanism on the grid
_NEGLIGIBLE = 1e-14
_LARGEST_LOSS = 256.0


def compose_curves(counted: Sequence[tuple[DeltaCurve, int]]) -> DeltaCurve:
    """Return the curve of mechanisms one after the other, each of which may depend on what the others released.

    Args:
        counted: Curves, and how many mechanisms have each. The curve of a single mechanism is returned as it is.

    >>> compose_curves([(GaussianCurve(1.0), 1), (GaussianCurve(2.0), 2)])
    GaussianCurve(shift=3.0, upper_bound=False)
    """
    curves = [curve for curve, _ in counted]
    if len(counted) == 1 and counted[0][1] == 1:
        return curves[0]
    if all(isinstance(curve, GaussianCurve) for curve in curves):
        squares = math.fsum(count * curve.shift**2 for curve, count in counted if isinstance(curve, GaussianCurve))
        return GaussianCurve(math.sqrt(squares), any(is_upper_bound(curve) for curve in curves))
    width = max(map(_width, curves))
    parts = [(losses_of(curve, width), count) for curve, count in counted]
    return sum_of_losses(parts, upper_bound=any(map(is_upper_bound, curves)))


def is_upper_bound(curve: DeltaCurve) -> bool:
    """Whether a curve may lie above that of its mechanism by more than rounding."""
    return not isinstance(curve, ExactCurve) or curve.upper_bound


def losses_of(curve: DeltaCurve, width: float | None = None) -> PldCurve:
    """Return a curve as one of privacy losses on a grid.

    Args:
        width: The spacing of the grid, at least that of the curve's own losses, which is the default.
    """
    width = width or _width(curve)
    match curve:
        case PldCurve():
            return on_coarser_grid(curve, width)
        case GaussianCurve():
            return gaussian_on_grid(curve, width)
        case PointCurve(atoms=atoms):
            losses = np.array([atom.loss for atom in atoms])
            remove = Masses(losses, np.array([atom.under_p for atom in atoms]), curve.infinite("remove"))
            add = Masses(-losses, np.array([atom.under_q for atom in atoms]), curve.infinite("add"))
            return losses_on_grid(remove, add, width)
    last = math.ceil(_reach(curve) / width)
    epsilons = width * np.arange(-last, last + 1)
    return connected_losses(-last, curve.delta(epsilons, "remove"), curve.delta(epsilons, "add"), width)


def _width(curve: DeltaCurve) -> float:
    """Return a spacing that is fine, but leaves few enough losses."""
    if isinstance(curve, PldCurve):
        return curve.width
    return max(_FINE, 2 * _reach(curve) / _MOST_PLACES)


def _reach(curve: DeltaCurve) -> float:
    """Return an epsilon beyond which hardly anything is left."""
    if isinstance(curve, PointCurve):
        return float(curve.epsilons.max(initial=1.0))
    reach = 1.0
    while reach < _LARGEST_LOSS and max(float(curve.delta(reach, way)) for way in DIRECTIONS) > _NEGLIGIBLE:
        reach *= 2
    return reach
