"""Balls-in-bins sampling."""

from dataclasses import dataclass

from minsep import _validation as validate
from minsep.identity import Description
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import MOST_ITERATIONS, IndependentScheme


@dataclass(frozen=True, eq=False)
class BallsInBins(IndependentScheme):
    """Each example picks one of the `epoch` iterations of an epoch, uniformly, and takes part there in every epoch.

    >>> BallsInBins(epoch=100).rate
    0.01
    """

    kind = "balls-in-bins"

    epoch: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch", validate.integer(epoch=self.epoch, at_least=1, at_most=MOST_ITERATIONS))

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Once an epoch."""
        return 1 / self.epoch

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """1: only the place in the epoch is random."""
        return 1.0

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
        """Return the scheme with a separation, in words."""
        return f"balls-in-bins, epoch {separation}"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep)

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "epoch": self.epoch}
