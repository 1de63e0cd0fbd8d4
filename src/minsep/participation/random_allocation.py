"""Random allocation."""

from dataclasses import dataclass

from minsep import _validation as validate
from minsep.identity import Description
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import MOST_ITERATIONS, IndependentScheme


@dataclass(frozen=True, eq=False)
class RandomAllocation(IndependentScheme):
    """Each example takes part once in every epoch of `epoch` iterations, at an iteration drawn anew in every epoch.

    - The iteration is uniform on the epoch, and independent of other epochs and of other examples.
    - In a last epoch that the run cuts to r iterations, an example takes part with probability r / `epoch`.

    >>> RandomAllocation(epoch=100).rate
    0.01
    """

    kind = "random-allocation"

    epoch: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch", validate.integer(epoch=self.epoch, at_least=1, at_most=MOST_ITERATIONS))

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Once an epoch."""
        return 1 / self.epoch

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """1: only the place in each epoch is random."""
        return 1.0

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
        """Return the scheme with a separation, in words."""
        return "random allocation"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep)

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "epoch": self.epoch}
