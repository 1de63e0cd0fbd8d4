"""Closed forms that cover a part of delta before anything is tested: truncation, and separations beyond the run."""

from minsep.accounting.reduction.alongside import Alongside
from minsep.accounting.reduction.base import Reduction, Shift
from minsep.accounting.reduction.long_separations import shift_of
from minsep.accounting.reduction.reduce import best_reduction, cost_of_cutting, reduction_for, unreduced

__all__ = [
    "Alongside",
    "Reduction",
    "Shift",
    "best_reduction",
    "cost_of_cutting",
    "reduction_for",
    "shift_of",
    "unreduced",
]
