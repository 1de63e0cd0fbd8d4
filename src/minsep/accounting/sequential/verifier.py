"""What is tested, with which chance of an error: all of it fixed before the first sample."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Verifier(ABC):
    """A test of single directions, each against the same level.

    - `level` is the delta that a direction is tested against.
    - `failure_probability` is the chance that any of the `attempts` tests passes although it should not.
    - `attempts` is how many mechanisms are tested at most, of which one that passes is run.

    What is run only if it passed has delta at most `level + failure_probability (1 - level)`.
    """

    level: float
    failure_probability: float
    attempts: int
    kind: ClassVar[str]

    @property
    def false_pass_probability(self) -> float:
        """The chance that one test passes although it should not."""
        return self.failure_probability / self.attempts

    @property
    def max_samples(self) -> int | None:
        """Most samples of a direction, where the caller said so."""
        return None
