"""What is tested, and with which error probability: all of it is fixed before the first sample."""

from abc import ABC
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class Verifier(ABC):
    """A test of single directions, each against the same level.

    A mechanism that is run only if it passed has delta at most `level + failure_probability (1 - level)`.

    Attributes:
        level: The delta that a direction is tested against.
        failure_probability: A bound on the probability that any of the tests passes although it should not.
        attempts: The most mechanisms that are tested, of which one that passes is run.
        share_of_curve: The share of `failure_probability` that is kept for a curve beside the tests.
    """

    level: float
    failure_probability: float
    attempts: int
    share_of_curve: float = field(default=0.0, kw_only=True)
    kind: ClassVar[str]

    @property
    def false_pass_probability(self) -> float:
        """A bound on the probability that one test passes although it should not."""
        return self.failure_probability * (1 - self.share_of_curve) / self.attempts

    @property
    def failure_probability_of_curve(self) -> float:
        """A bound on the probability that any point of a curve beside the tests is wrong."""
        return self.failure_probability * self.share_of_curve

    @property
    def max_samples(self) -> int | None:
        """Maximum number of samples per direction, if the caller set one."""
        return None
