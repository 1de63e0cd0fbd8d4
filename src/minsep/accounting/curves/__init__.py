"""Curves from proven points, their composition, and what they say of a run."""

from minsep.accounting.curves.composed import compose_curves, losses_of
from minsep.accounting.curves.curve import Curve, budgets_of, mean_curve
from minsep.accounting.curves.points import Atom, Point, PointCurve
from minsep.accounting.curves.prices import PricedTrials, price_trials
from minsep.accounting.curves.rounded import RoundedRuns
from minsep.accounting.curves.trials import (
    LAWS,
    BinomialTrials,
    NegativeBinomial,
    PoissonTrials,
    Trials,
    trials_of,
    trials_that_find,
)
from minsep.accounting.curves.tuned import tuned_points

__all__ = [
    "LAWS",
    "Atom",
    "BinomialTrials",
    "Curve",
    "NegativeBinomial",
    "Point",
    "PointCurve",
    "PoissonTrials",
    "PricedTrials",
    "RoundedRuns",
    "Trials",
    "budgets_of",
    "compose_curves",
    "losses_of",
    "mean_curve",
    "price_trials",
    "trials_of",
    "trials_that_find",
    "tuned_points",
]
