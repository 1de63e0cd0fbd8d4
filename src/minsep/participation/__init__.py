"""Who takes part when: sampling schemes as frozen descriptions, and the streams of batches that follow them."""

from minsep.participation.schemes import BallsInBins, CyclicPoisson, MinSep, Poisson, Scheme, Unamplified, scheme_from
from minsep.participation.stream import BatchSampler, BatchStream, PaddedBatch
from minsep.participation.truncation import Truncation

__all__ = [
    "BallsInBins",
    "BatchSampler",
    "BatchStream",
    "CyclicPoisson",
    "MinSep",
    "PaddedBatch",
    "Poisson",
    "Scheme",
    "Truncation",
    "Unamplified",
    "scheme_from",
]
