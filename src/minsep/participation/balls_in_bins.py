"""Balls-in-bins sampling."""

from dataclasses import dataclass

from minsep.participation.family import Family, Sizes, Style
from minsep.participation.once_an_epoch import OnceAnEpoch
from minsep.participation.renewal import RenewalLaw


@dataclass(frozen=True, eq=False)
class BallsInBins(OnceAnEpoch):
    """Each example picks one of the `epoch` iterations of an epoch, uniformly, and takes part there in every epoch.

    Args:
        epoch: The number of iterations in an epoch.

    Examples:
        >>> BallsInBins(epoch=100).rate
        0.01
    """

    kind = "balls-in-bins"

    @property
    def min_sep(self) -> int:  # type: ignore[override]
        """The epoch."""
        return self.epoch

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: a uniform phase, then every epoch."""
        return RenewalLaw.min_sep(1.0, self.epoch, warm=True)

    @staticmethod
    def in_words(separation: int) -> str:
        """Return the scheme with a separation, in words.

        Args:
            separation: The number of iterations in an epoch.
        """
        return f"balls-in-bins, epoch {separation}"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep)


class BallsInBinsFamily(Family):
    """Balls-in-bins sampling, an epoch apart."""

    kind = BallsInBins.kind
    words = "balls-in-bins"
    place = 40
    style = Style("teal", "triangle-up")
    fixed_separation = "always separates participations by an epoch"
    is_planned = is_baseline = an_epoch_apart = takes_dense = True

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> BallsInBins:
        """Return the scheme."""
        return BallsInBins(sizes.epoch)

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme with its epoch, in words."""
        return BallsInBins.in_words(separation)

    @classmethod
    def separations(cls, sizes: Sizes, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the epoch."""
        return [sizes.epoch]
