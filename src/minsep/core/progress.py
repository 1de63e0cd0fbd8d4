"""Progress of long computations: one kind of event for estimates, certificates, plans and comparisons."""

import time
from collections.abc import Callable
from dataclasses import dataclass

_SILENT_SECONDS = 1.0  # seconds before which nothing is said
_LEAST_GROWTH = 0.02  # of the total


@dataclass(frozen=True)
class Progress:
    """The progress of a computation.

    Attributes:
        stage: What is being done, as a verb: "estimating", "testing", "tuning", "certifying", "comparing".
        detail: What it is done to, in words.
        done: How many units of the stage are done.
        total: How many units the stage has. None if that is not known.
        samples: The number of samples drawn so far in this stage.
        replayed: Whether this was done before, and is only read from a journal.
    """

    stage: str
    detail: str
    done: float = 0.0
    total: float | None = None
    samples: int = 0
    replayed: bool = False

    def __str__(self) -> str:
        """Return the event as a line for people.

        >>> print(Progress("testing", "noise multiplier 0.45, remove", samples=4000))
        testing noise multiplier 0.45, remove: 4,000 samples
        """
        drawn = f": {self.samples:,} samples" if self.samples else ""
        return f"{self.stage} {self.detail}{drawn}"


Listener = Callable[[Progress], None]
"""Told each event, in the thread that asked for the work."""


class Pace:
    """Tells from events how long what is under way still takes, by the rate measured since it began.

    What was only read from a journal does not count: it says nothing about the rest.

    >>> clock = iter([0.0, 10.0])
    >>> pace = Pace(lambda: next(clock))
    >>> [pace.left(Progress("testing", "remove", done, 8.0, samples=1000)) for done in (2.0, 4.0)]
    [None, 20.0]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._of: tuple[object, ...] = ()
        self._began = self._first = self._last = 0.0

    def left(self, event: Progress) -> float | None:
        """Return the seconds left of a stage after an event, or None while they cannot be told."""
        # Units of a test are of that test; elsewhere a unit is a candidate or a setting.
        of = event.stage, event.total, event.detail if event.samples else ""
        now = self._clock()
        if event.replayed or of != self._of or event.done < self._last:
            self._of, self._began, self._first = of, now, event.done
        self._last = event.done
        grown, passed = event.done - self._first, now - self._began
        if event.total is None or passed < _SILENT_SECONDS or grown < _LEAST_GROWTH * event.total:
            return None
        return max(event.total - event.done, 0.0) * passed / grown


def left_in_words(seconds: float) -> str:
    """Return how long something still takes, no more exactly than that is known.

    >>> [left_in_words(seconds) for seconds in (3, 38, 100, 5000, 200_000)]
    ['about 3 s left', 'about 40 s left', 'about 2 min left', 'about 83 min left', 'about 56 h left']
    """
    if seconds < 90:
        whole = max(round(seconds), 1)
        return f"about {whole if whole <= 10 else round(whole / 5) * 5} s left"
    return f"about {round(seconds / 60)} min left" if seconds < 7200 else f"about {round(seconds / 3600)} h left"
