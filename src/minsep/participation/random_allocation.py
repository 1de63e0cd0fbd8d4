"""Random allocation."""

from dataclasses import dataclass

from minsep.participation.family import Family, Sizes, Style
from minsep.participation.once_an_epoch import OnceAnEpoch
from minsep.participation.renewal import RenewalLaw


@dataclass(frozen=True, eq=False)
class RandomAllocation(OnceAnEpoch):
    """Each example takes part once in every epoch of `epoch` iterations, at an iteration drawn anew in every epoch.

    - The iteration is uniform on the epoch, and independent of other epochs and of other examples.
    - In a last epoch that the run truncates to r iterations, an example takes part with probability r / `epoch`.

    Args:
        epoch: The number of iterations in an epoch.

    Examples:
        >>> RandomAllocation(epoch=100).rate
        0.01
    """

    kind = "random-allocation"

    @property
    def min_sep(self) -> int:  # type: ignore[override]
        """1: the end of an epoch and the beginning of the next are neighbours."""
        return 1

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: a uniform phase of every epoch."""
        return RenewalLaw.allocation(self.epoch)

    @staticmethod
    def in_words(separation: int) -> str:
        """Return the scheme with a separation, in words.

        Args:
            separation: The separation. The words are the same for all.
        """
        return "random allocation"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep)


class RandomAllocationFamily(Family):
    """DP-SGD with exactly one participation an epoch."""

    kind = RandomAllocation.kind
    words = "DP-SGD, random allocation"
    place = 20
    style = Style("violet", "x")
    fixed_separation = "has no separation"
    is_planned = is_baseline = True

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> RandomAllocation:
        """Return the scheme."""
        return RandomAllocation(sizes.epoch)

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme in words."""
        return RandomAllocation.in_words(separation)

    @classmethod
    def bands(cls, max_bands: int) -> list[int]:
        """Return 1: more bands need a separation."""
        return [1]
