"""Random allocation: epochs are independent, and each is a mean over the places of an example."""

import math
from dataclasses import dataclass

from minsep.accounting.pairs.base import ParticipationPair
from minsep.accounting.pairs.kernels import allocation_log_ratios
from minsep.accounting.pairs.negative_moments import NegativeMoments
from minsep.core.arrays import FloatArray, Rows
from minsep.participation.renewal import RenewalLaw


@dataclass(frozen=True)
class AllocationPair(ParticipationPair):
    """Once in every epoch, at a place drawn anew; the strategy has one band, so columns never overlap."""

    epoch: int = 1

    def __post_init__(self) -> None:
        if self.strategy.bands > 1:
            raise ValueError(f"bands is {self.strategy.bands}, but random allocation is accounted for with 1 band.")

    @property
    def law(self) -> RenewalLaw:
        """Law of the participation times: a uniform phase of every epoch."""
        return RenewalLaw.allocation(self.epoch)

    @property
    def no_participation(self) -> float:
        """Probability that the example never takes part: 0 unless the run is shorter than an epoch."""
        return max(1 - self.strategy.iterations / self.epoch, 0.0)

    @property
    def allocation(self) -> "AllocationPair":
        """The pair itself."""
        return self

    @property
    def moments(self) -> NegativeMoments:
        """Bounds on the moments of Q/P under Q, epoch by epoch."""
        return NegativeMoments(math.sqrt(2 * float(self.half_norms[0])), self.epoch, self.strategy.iterations)

    def log_ratios_of_scores(self, scores: Rows) -> FloatArray:
        """Return log P/Q of samples by their scores."""
        return allocation_log_ratios(scores, -self.half_norms, self.epoch)
