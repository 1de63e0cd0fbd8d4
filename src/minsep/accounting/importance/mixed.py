"""Several laws in turn, for estimates at epsilons that are far apart."""

import math
from dataclasses import dataclass

from scipy.special import logsumexp

from minsep.accounting.directions import Direction
from minsep.accounting.importance.adapted import AdaptedLaw
from minsep.accounting.importance.allocated import AllocatedLaw
from minsep.accounting.importance.base import Law
from minsep.accounting.importance.leaping import LeapingLaw
from minsep.accounting.importance.placed import PlacedLaw
from minsep.accounting.importance.tilted import TiltedLaw
from minsep.accounting.pairs import ParticipationPair
from minsep.core.arrays import FloatArray
from minsep.randomness import Key


@dataclass(frozen=True)
class MixedLaw(Law):
    """Several laws in turn, chunk by chunk: for estimates at epsilons that are far apart.

    The density is that of the mixture with equal shares, so the number of chunks must be a multiple of `len(parts)`.
    """

    parts: tuple[AdaptedLaw | AllocatedLaw | LeapingLaw | PlacedLaw | TiltedLaw, ...]

    @property
    def pair(self) -> ParticipationPair:  # type: ignore[override]
        """Pair of all parts."""
        return self.parts[0].pair

    @property
    def direction(self) -> Direction:  # type: ignore[override]
        """Direction of all parts."""
        return self.parts[0].direction

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        scores = self.parts[chunk % len(self.parts)].draw_scores(key, chunk)
        log_ratio = self.pair.log_ratios_of_scores(scores)
        densities = [part.log_density(scores, log_ratio) for part in self.parts]
        return log_ratio, logsumexp(densities, axis=0) - math.log(len(densities))
