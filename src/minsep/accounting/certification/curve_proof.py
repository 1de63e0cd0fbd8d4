"""The record of a curve in a certificate, and the points that it proves."""

from dataclasses import dataclass

from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.core.identity import Description

NOTHING = 1.0
"""The level where nothing is proven."""


@dataclass(frozen=True)
class SampledLaw:
    """A distribution from which samples of a curve were drawn.

    Attributes:
        direction: The direction that its samples are about.
        law: The distribution.
        log_constant: The logarithm of the normaliser of the distribution.
        samples: The number of samples.
    """

    direction: Direction
    law: Description
    log_constant: float
    samples: int


@dataclass(frozen=True)
class CurveProof:
    """Levels that were proven at many epsilons together, in both directions.

    The epsilons, the distributions and the chance of each test were fixed before the samples. At each epsilon the level
    is the least one that they prove, or what is known without samples.

    Attributes:
        failure_probability: A bound on the probability that any of the levels is too low.
        attempts: The most curves that are made, of which one is relied on.
        samples: The number of samples that the prover was given, of which each distribution has a multiple.
        seed: The number that the samples come from.
        laws: The distributions.
        epsilons: The epsilons, in increasing order, of the mechanism in exact numbers.
        remove: The levels of the direction `remove`.
        add: The levels of the direction `add`.
    """

    failure_probability: float
    attempts: int
    samples: int
    seed: int
    laws: tuple[SampledLaw, ...]
    epsilons: tuple[float, ...]
    remove: tuple[float, ...]
    add: tuple[float, ...]

    def levels(self, direction: Direction) -> tuple[float, ...]:
        """Return the levels of a direction."""
        return self.remove if direction == "remove" else self.add

    def points(self, direction: Direction) -> tuple[tuple[float, float], ...]:
        """Return the epsilons of a direction at which something is proven, with the levels."""
        pairs = zip(self.epsilons, self.levels(direction), strict=True)
        return tuple((epsilon, level) for epsilon, level in pairs if level < NOTHING)

    @property
    def chance_of_test(self) -> float:
        """The chance of an error of each test."""
        return chance_of_each(self.failure_probability, len(self.laws), len(self.epsilons))

    @property
    def drawn(self) -> int:
        """Number of samples of all distributions."""
        return sum(law.samples for law in self.laws)

    def summary(self) -> str:
        """Return in words what was proven, and how."""
        proven = sum(len(self.points(direction)) for direction in DIRECTIONS)
        samples = f" with {self.drawn:,} samples" if self.drawn else ""
        return f"{proven} points up to epsilon {self.epsilons[-1]:.4g}{samples}"


def chance_of_each(failure_probability: float, laws: int, epsilons: int) -> float:
    """Return the chance of an error that each test has if there is one for each distribution and epsilon."""
    return failure_probability / (max(laws, 1) * epsilons)
