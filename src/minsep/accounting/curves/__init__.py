"""Curves from proven points, their composition, and what they say of a run."""

from minsep.accounting.curves.composed import compose_curves, losses_of
from minsep.accounting.curves.curve import Curve, budgets_of, mean_curve
from minsep.accounting.curves.points import Atom, Point, PointCurve
from minsep.accounting.curves.rounded import RoundedRuns
from minsep.accounting.curves.trials import BinomialTrials, NegativeBinomial, PoissonTrials, Trials, trials_of
from minsep.accounting.curves.tuned import tuned_points

__all__ = [
    "Atom",
    "BinomialTrials",
    "Curve",
    "NegativeBinomial",
    "Point",
    "PointCurve",
    "PoissonTrials",
    "RoundedRuns",
    "Trials",
    "budgets_of",
    "compose_curves",
    "losses_of",
    "mean_curve",
    "trials_of",
    "tuned_points",
]
