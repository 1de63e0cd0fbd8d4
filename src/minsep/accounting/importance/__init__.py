"""Sampling laws with their densities, and bounds for those that certificates use."""

from minsep.accounting.importance.adapted import AdaptedLaw, may_spread
from minsep.accounting.importance.allocated import AllocatedLaw, best_allocated
from minsep.accounting.importance.base import (
    BoundedLaw,
    Law,
    ScoredLaw,
    law_from,
    law_in_words,
    shared,
    upward_values,
)
from minsep.accounting.importance.choice import best_law
from minsep.accounting.importance.clustered import ClusteredLaw, best_clustered
from minsep.accounting.importance.leaping import LeapingLaw, leaping_law
from minsep.accounting.importance.mixed import MixedLaw
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.importance.placed import FEW_TUPLES, PlacedLaw, best_placed, countable
from minsep.accounting.importance.plain import PlainLaw
from minsep.accounting.importance.shifted import ShiftedLaw, shifted_laws
from minsep.accounting.importance.tangents import add_bound, best_tangent, tangents
from minsep.accounting.importance.tilted import TiltedLaw
from minsep.accounting.importance.tuple_law import DEFAULT_MEMORY, TupleLaw, affordable
from minsep.core.registry import load_variants

__all__ = [
    "ALONE",
    "DEFAULT_MEMORY",
    "FEW_TUPLES",
    "AdaptedLaw",
    "AllocatedLaw",
    "BoundedLaw",
    "ClusteredLaw",
    "Law",
    "LeapingLaw",
    "MixedLaw",
    "Payoff",
    "PlacedLaw",
    "PlainLaw",
    "ScoredLaw",
    "ShiftedLaw",
    "TiltedLaw",
    "TupleLaw",
    "add_bound",
    "affordable",
    "best_allocated",
    "best_clustered",
    "best_law",
    "best_placed",
    "best_tangent",
    "countable",
    "law_from",
    "law_in_words",
    "leaping_law",
    "may_spread",
    "shared",
    "shifted_laws",
    "tangents",
    "upward_values",
]

load_variants(__name__)
