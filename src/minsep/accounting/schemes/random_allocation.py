"""Accounting of random allocation: a composition of epochs, each of which is one epoch of balls-in-bins."""

from collections.abc import Callable

from numpy.typing import DTypeLike

from minsep.accounting.pairs import AllocationPair, Pair
from minsep.accounting.schemes.base import SchemeAccounting, Support
from minsep.mechanism import Design, Mechanism
from minsep.participation import Poisson, RandomAllocation, Unamplified


class RandomAllocationAccounting(SchemeAccounting[RandomAllocation]):
    """With one band the iterations of two epochs have nothing in common, so the ratio is a product over epochs."""

    kind = RandomAllocation.kind
    support = (Support("`RandomAllocation(epoch)`", "1 band", sampled="one term for each place in every epoch"),)

    def pair(self, mechanism: Mechanism, scheme: RandomAllocation, dtype: DTypeLike) -> Pair | None:
        """Return the pair of the composed epochs."""
        if mechanism.truncation is not None or mechanism.strategy.bands > 1 or not _has_equal_columns(mechanism):
            return None
        return AllocationPair(mechanism.strategy, mechanism.noise_multiplier, dtype, epoch=scheme.epoch)

    def fallback(self, design: Design, scheme: RandomAllocation, covers: Callable[[Design], bool]) -> Design | None:
        """Return Poisson sampling at the same rate, and else a fixed order with one participation an epoch."""
        poisson = Design(design.strategy, Poisson(scheme.rate), design.truncation)
        if covers(poisson):
            return poisson
        if design.truncation is not None:
            return None
        return Design(design.strategy, Unamplified(scheme.epoch, -(-design.iterations // scheme.epoch)))


def _has_equal_columns(mechanism: Mechanism) -> bool:
    """Whether all places in an epoch are alike, as the tilted law needs."""
    norms = mechanism.strategy.column_norms
    return bool(norms.min() == norms.max())
