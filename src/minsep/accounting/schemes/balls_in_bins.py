"""Accounting of balls-in-bins sampling: b-min-sep with b an epoch."""

from numpy.typing import DTypeLike

from minsep.accounting.pairs import BallsInBinsPair, Pair
from minsep.accounting.schemes.base import Support
from minsep.accounting.schemes.min_sep import MinSepForm
from minsep.mechanism import Mechanism
from minsep.participation import BallsInBins, MinSep


class BallsInBinsAccounting(MinSepForm[BallsInBins]):
    """The recursion of b-min-sep where columns do not overlap; else a mean over the places in the epoch."""

    kind = BallsInBins.kind
    support = (
        Support("`BallsInBins(epoch)`", "any strategy", sampled="one term for each place in the epoch"),
        Support(
            "`BallsInBins(epoch)`",
            "`bands <= epoch`",
            sampled="as `MinSep(1 / epoch, epoch)`",
            truncated="closed form, or recursion",
        ),
    )

    def min_sep_form(self, scheme: BallsInBins) -> MinSep:
        """Return a warm start of b-min-sep with b the epoch."""
        return MinSep(rate=1 / scheme.epoch, min_sep=scheme.epoch)

    def pair(self, mechanism: Mechanism, scheme: BallsInBins, dtype: DTypeLike) -> Pair | None:
        """Return the pair, exact with any strategy."""
        if mechanism.truncation is None and mechanism.strategy.bands > scheme.epoch:
            return BallsInBinsPair(mechanism.strategy, mechanism.noise_multiplier, dtype, cycle=scheme.epoch)
        return super().pair(mechanism, scheme, dtype)
