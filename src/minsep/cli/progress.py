"""Progress on standard error: a bar in a terminal, and elsewhere a line every ten seconds."""

import sys
import threading
import time
from typing import Any

from minsep.core.progress import Pace, Progress, left_in_words

_SECONDS_BETWEEN_LINES = 10.0


class Bar:
    """One line that shows what is being done, and how long that still takes."""

    def __init__(self, under_way: str = "starting") -> None:
        self._under_way = under_way
        self._pace = Pace()
        self._ends: float | None = None

    def __enter__(self) -> "Bar":
        from rich import progress
        from rich.console import Console

        in_terminal = sys.stderr.isatty()
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            disable=not in_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(self._under_way, total=None, left="")
        self._ended = threading.Event()
        if in_terminal:
            self._progress.start()
        else:
            threading.Thread(target=self._say_at_times, daemon=True).start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *_: object) -> None:
        self._ended.set()
        if not self._progress.disable:  # some versions of rich end with an empty line where they showed nothing
            self._progress.stop()
        if error is not None:
            error.add_note(self._under_way)

    def _say_at_times(self) -> None:
        start = time.monotonic()
        while not self._ended.wait(_SECONDS_BETWEEN_LINES):
            words = ", ".join(filter(None, (self._under_way, self._left())))
            print(f"[{time.monotonic() - start:.0f} s] {words}", file=sys.stderr, flush=True)

    def _left(self) -> str:
        left = None if self._ends is None else self._ends - time.monotonic()
        return "" if left is None or left <= 0 else left_in_words(left)

    def tell(self, event: Progress) -> None:
        """Show a progress event."""
        self.show(str(event), event.done, event.total, self._pace.left(event))

    def show(
        self, description: str, completed: float = 0.0, total: float | None = None, left: float | None = None
    ) -> None:
        """Show what is being done, how much of it, and how many seconds are left."""
        self._under_way = description
        self._ends = None if left is None else time.monotonic() + left
        self._progress.update(self._task, description=description, completed=completed, total=total, left=self._left())
