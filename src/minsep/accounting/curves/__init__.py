"""Curves from proven points, their composition, and what they say of a run."""

from minsep.accounting.curves.composed import compose_curves, losses_of
from minsep.accounting.curves.curve import Curve
from minsep.accounting.curves.points import Atom, Point, PointCurve
from minsep.accounting.curves.rounded import RoundedRuns

__all__ = ["Atom", "Curve", "Point", "PointCurve", "RoundedRuns", "compose_curves", "losses_of"]
