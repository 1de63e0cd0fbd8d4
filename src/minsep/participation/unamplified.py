"""A fixed order: no sampling."""

from dataclasses import dataclass

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.family import Family, Sizes
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import MOST_ITERATIONS, IndependentScheme


@dataclass(frozen=True, eq=False)
class Unamplified(IndependentScheme):
    """A fixed order: each example takes part every `min_sep` iterations, at most `participations` times.

    Nothing is random, so nothing is amplified: privacy comes from the noise alone. A pass of `min_sep` batches goes
    through the examples in the order of their indices, in equal shares.

    Args:
        min_sep: The number of iterations from one participation of an example to the next.
        participations: The number of participations of an example, at most.

    Examples:
        >>> Unamplified(min_sep=300, participations=5).expected_batch_size(60_000)
        200.0
    """

    kind = "unamplified"

    min_sep: int
    participations: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "min_sep", validate.integer(min_sep=self.min_sep, at_least=1, at_most=MOST_ITERATIONS))
        participations = validate.integer(participations=self.participations, at_least=1, at_most=MOST_ITERATIONS)
        object.__setattr__(self, "participations", participations)

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Once every `min_sep` iterations."""
        return 1 / self.min_sep

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """1: nothing is random."""
        return 1.0

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: a phase that follows from its index, then every pass."""
        return RenewalLaw(prob=1.0, rest=self.min_sep - 1, phases=self.min_sep, ordered=True)

    def check_iterations(self, iterations: int) -> None:
        """Refuse more iterations than the participations allow.

        Args:
            iterations: The number of iterations of the run.
        """
        if iterations > self.min_sep * self.participations:
            raise ValueError(
                f"participations is {self.participations}, but {iterations} iterations in passes of {self.min_sep} "
                f"need at least {-(-iterations // self.min_sep)}."
            )

    def prefix(self, iterations: int) -> "Unamplified":
        """Return the fixed order with no more participations than the prefix has room for.

        Args:
            iterations: The number of iterations of the prefix.

        Examples:
            >>> Unamplified(min_sep=300, participations=5).prefix(400)
            Unamplified(min_sep=300, participations=2)
        """
        return Unamplified(self.min_sep, min(self.participations, -(-iterations // self.min_sep)))

    @staticmethod
    def in_words(separation: int) -> str:
        """Return the scheme with a separation, in words.

        Args:
            separation: The number of iterations from one participation to the next.
        """
        return f"a fixed order, {separation} apart"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep)

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "min_sep": self.min_sep, "participations": self.participations}


class UnamplifiedFamily(Family):
    """A fixed order, an epoch apart."""

    kind = Unamplified.kind
    words = "a fixed order"
    place = 70
    fixed_separation = "always separates participations by an epoch"
    an_epoch_apart = True

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> Unamplified:
        """Return the scheme, with as many participations as the run has epochs."""
        return Unamplified(sizes.epoch, -(-sizes.iterations // sizes.epoch))

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme with its separation, in words."""
        return Unamplified.in_words(separation)
