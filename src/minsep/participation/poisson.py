"""Poisson sampling."""

from dataclasses import dataclass

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.family import Family, Sizes, Style
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import IndependentScheme


@dataclass(frozen=True, eq=False)
class Poisson(IndependentScheme):
    """Every example takes part in every iteration with probability `rate`, independently: DP-SGD.

    Args:
        rate: The probability that an example takes part in an iteration.

    Examples:
        >>> Poisson(rate=0.01).sampling_prob
        0.01
    """

    kind = "poisson"

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validate.real(rate=self.rate, above=0, at_most=1))

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """Equal to the rate: every example is always available."""
        return self.rate

    @property
    def min_sep(self) -> int:  # type: ignore[override]
        """1: an example may take part in consecutive iterations."""
        return 1

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: gaps are geometric."""
        return RenewalLaw(prob=self.rate)

    @staticmethod
    def in_words(separation: int) -> str:
        """Return the scheme with a separation, in words.

        Args:
            separation: The separation. Poisson sampling has none, so it is not used.
        """
        return "Poisson sampling"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep)

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "rate": self.rate}


class PoissonFamily(Family):
    """DP-SGD."""

    kind = Poisson.kind
    words = "DP-SGD, Poisson sampling"
    place = 10
    style = Style("grey", "diamond")
    fixed_separation = "has no separation"
    is_planned = is_baseline = covers_users = True

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> Poisson:
        """Return the scheme for single examples."""
        return Poisson(sizes.rate)

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme in words."""
        return Poisson.in_words(separation)

    @classmethod
    def bands(cls, max_bands: int) -> list[int]:
        """Return 1: more bands need a separation."""
        return [1]
