"""Who takes part when: sampling schemes as frozen descriptions, one file each, and their streams of batches."""

from minsep.core.registry import load_variants
from minsep.participation.assumptions import Assumption
from minsep.participation.balls_in_bins import BallsInBins
from minsep.participation.cyclic_poisson import CyclicPoisson
from minsep.participation.family import Family, Sizes, Style, families, offered, planned
from minsep.participation.min_sep import MinSep
from minsep.participation.multi_attribution import MultiAttributionMinSep
from minsep.participation.poisson import Poisson
from minsep.participation.random_allocation import RandomAllocation
from minsep.participation.scheme import IndependentScheme, Scheme, scheme_from
from minsep.participation.stream import BatchSampler, BatchStream, PaddedBatch
from minsep.participation.truncation import Truncation
from minsep.participation.unamplified import Unamplified
from minsep.participation.user_min_sep import UserMinSep

__all__ = [
    "Assumption",
    "BallsInBins",
    "BatchSampler",
    "BatchStream",
    "CyclicPoisson",
    "Family",
    "IndependentScheme",
    "MinSep",
    "MultiAttributionMinSep",
    "PaddedBatch",
    "Poisson",
    "RandomAllocation",
    "Scheme",
    "Sizes",
    "Style",
    "Truncation",
    "Unamplified",
    "UserMinSep",
    "families",
    "offered",
    "planned",
    "scheme_from",
]

load_variants(__name__)
