"""Likelihood ratios: one file for each kind of participation."""

from minsep.accounting.pairs.allocation import AllocationPair
from minsep.accounting.pairs.base import Pair, ParticipationPair, TiltablePair
from minsep.accounting.pairs.cyclic import BallsInBinsPair, CyclicPair
from minsep.accounting.pairs.min_sep import MinSepPair
from minsep.accounting.pairs.negative_moments import NegativeMoments
from minsep.accounting.pairs.tangents import Tangent
from minsep.accounting.pairs.truncated import TruncatedPair
from minsep.accounting.pairs.users import UserPair

__all__ = [
    "AllocationPair",
    "BallsInBinsPair",
    "CyclicPair",
    "MinSepPair",
    "NegativeMoments",
    "Pair",
    "ParticipationPair",
    "Tangent",
    "TiltablePair",
    "TruncatedPair",
    "UserPair",
]
