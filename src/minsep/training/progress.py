"""How far a training run is, on standard error: one line in a terminal, and elsewhere a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterator

from minsep.core.progress import Pace, Progress, left_in_words
from minsep.training.run import Indices

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_IN_A_TERMINAL = 0.2
_CLEAR = "\r\x1b[K"


def with_progress(
    batches: Iterator[Indices], done: int, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Indices]:
    """Yield batches, and tell on standard error how many steps are taken and how long the others still take.

    Args:
        batches: The batches of the remaining steps.
        done: Number of steps that were taken before.
        total: Number of all steps.
        clock: What tells the time in seconds.
    """
    in_terminal = sys.stderr.isatty()
    pause = _SECONDS_IN_A_TERMINAL if in_terminal else _SECONDS_BETWEEN_LINES
    pace, began = Pace(clock), clock()
    said = began
    try:
        for steps, indices in enumerate(batches, done):
            event = Progress("training", f"step {steps + 1:,} of {total:,}", steps, total)
            left, now = pace.left(event), clock()
            if now - said >= pause:
                said = now
                words = str(event) if left is None else f"{event}, {left_in_words(left)}"
                _say(f"{_CLEAR}{words}" if in_terminal else f"[{now - began:.0f} s] {words}\n")
            yield indices
    finally:
        if in_terminal:
            _say(_CLEAR)
    _say(f"trained {total - done:,} steps in {clock() - began:,.0f} s\n")


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
