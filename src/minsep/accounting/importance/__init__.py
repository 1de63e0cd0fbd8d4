"""Sampling laws with their densities, and bounds for those that certificates use."""

from minsep.accounting.importance.adapted import AdaptedLaw, may_spread
from minsep.accounting.importance.allocated import AllocatedLaw, best_allocated
from minsep.accounting.importance.base import BoundedLaw, Law, ScoredLaw, shared, upward_values
from minsep.accounting.importance.choice import best_law, law_from, law_in_words
from minsep.accounting.importance.mixed import MixedLaw
from minsep.accounting.importance.negative_moments import best_moment, moment_bound
from minsep.accounting.importance.plain import PlainLaw
from minsep.accounting.importance.shifted import ShiftedLaw, shifted_laws
from minsep.accounting.importance.tangents import Tangent, add_bound, best_tangent, tangent_at, tangents
from minsep.accounting.importance.tilted import TiltedLaw
from minsep.accounting.importance.tuple_law import DEFAULT_MEMORY, TupleLaw, affordable

__all__ = [
    "DEFAULT_MEMORY",
    "AdaptedLaw",
    "AllocatedLaw",
    "BoundedLaw",
    "Law",
    "MixedLaw",
    "PlainLaw",
    "ScoredLaw",
    "ShiftedLaw",
    "Tangent",
    "TiltedLaw",
    "TupleLaw",
    "add_bound",
    "affordable",
    "best_allocated",
    "best_law",
    "best_moment",
    "best_tangent",
    "law_from",
    "law_in_words",
    "may_spread",
    "moment_bound",
    "shared",
    "shifted_laws",
    "tangent_at",
    "tangents",
    "upward_values",
]
