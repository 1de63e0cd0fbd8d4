"""Progress of long computations: one kind of event for estimates, certificates, plans and comparisons."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The progress of a computation.

    - `stage` is what is being done, as a verb: "estimating", "testing", "tuning", "certifying", "comparing".
    - `detail` says what it is done to, in words.
    - `done` of `total` units of the stage are done; `total` is None if it is not known.
    - `samples` is the number of samples drawn so far in this stage.
    """

    stage: str
    detail: str
    done: float = 0.0
    total: float | None = None
    samples: int = 0

    def __str__(self) -> str:
        """Return the event as a line for people.

        >>> print(Progress("testing", "noise multiplier 0.45, remove", samples=4000))
        testing noise multiplier 0.45, remove: 4,000 samples
        """
        drawn = f": {self.samples:,} samples" if self.samples else ""
        return f"{self.stage} {self.detail}{drawn}"


Report = Callable[[Progress], None]
"""Told each event, in the thread that asked for the work."""
