"""Cyclic Poisson sampling."""

from dataclasses import dataclass
from typing import Literal

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.family import Family, Sizes, Style
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import MOST_ITERATIONS, IndependentScheme, check_feasible


@dataclass(frozen=True, eq=False)
class CyclicPoisson(IndependentScheme):
    """Each example belongs to one of `cycle` parts; iteration i samples from part i modulo `cycle`.

    - In its part's turn an example takes part with probability `cycle * rate`.
    - Participations of one example are a multiple of `cycle` apart.

    Args:
        rate: Expected fraction of the iterations in which an example takes part.
        cycle: The number of parts.
        parts: How examples are divided into parts. With "random" an example's part is uniform, and independent of the
            others' parts. With "equal" parts are equal shares of the dataset in the order of the indices, and public.

    Examples:
        >>> CyclicPoisson(rate=0.01, cycle=10).sampling_prob
        0.1
        >>> CyclicPoisson(rate=0.2, cycle=10)
        Traceback (most recent call last):
        ValueError: rate is 0.2, but with cycle 10 it must be at most 1/10 = 0.1.
    """

    kind = "cyclic-poisson"

    rate: float
    cycle: int
    parts: Literal["random", "equal"] = "random"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validate.real(rate=self.rate, above=0, at_most=1))
        object.__setattr__(self, "cycle", validate.integer(cycle=self.cycle, at_least=1, at_most=MOST_ITERATIONS))
        validate.choice(("random", "equal"), parts=self.parts)
        check_feasible(self.rate, cycle=self.cycle)

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """Probability of taking part in the turn of the example's part."""
        return min(1.0, self.rate * self.cycle)

    @property
    def min_sep(self) -> int:  # type: ignore[override]
        """The cycle: an example's part has one turn in each."""
        return self.cycle

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: a phase, and whole cycles between."""
        return RenewalLaw.cyclic(self.sampling_prob, self.cycle, ordered=self.parts == "equal")

    @staticmethod
    def in_words(separation: int) -> str:
        """Return the scheme with a separation, in words.

        Args:
            separation: The number of parts in a cycle.
        """
        return f"cyclic Poisson, cycle {separation}"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep)

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "rate": self.rate, "cycle": self.cycle, "parts": self.parts}


class CyclicPoissonFamily(Family):
    """Cyclic Poisson sampling, in as many parts as there are bands."""

    kind = CyclicPoisson.kind
    words = "cyclic Poisson"
    place = 30
    style = Style("orange", "square")
    is_planned = is_baseline = True

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> CyclicPoisson:
        """Return the scheme; truncated batches need parts of equal size."""
        return CyclicPoisson(sizes.rate, separation, "equal" if sizes.truncated else "random")

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme with its cycle, in words."""
        return CyclicPoisson.in_words(separation)

    @classmethod
    def separations(cls, sizes: Sizes, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the bands."""
        return [bands] if bands > 1 else []
