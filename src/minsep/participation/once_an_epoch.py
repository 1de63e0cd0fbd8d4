"""Schemes in which each example takes part once in every epoch."""

from dataclasses import dataclass

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.scheme import MOST_ITERATIONS, IndependentScheme


@dataclass(frozen=True, eq=False)
class OnceAnEpoch(IndependentScheme):
    """A scheme with one participation in each `epoch` iterations, at a random place.

    Args:
        epoch: The number of iterations in an epoch.
    """

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

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "epoch": self.epoch}
