"""The ledger that the page shows: read again when it changes, and never written."""

import asyncio
import os
from pathlib import Path
from typing import Any

from minsep.serve.workers import Message, Send, messages
from minsep.show.statements.content import rounded_up

_NOT_READ = "The process ended before the ledger was read."


def read(send: Send, path: Path) -> None:
    """Send what a ledger holds, in numbers none of which promises too much."""
    from minsep.ledger import Ledger
    from minsep.ledger.accounts import rounded_down

    balance = Ledger.open(path).balance()
    data, left = balance.as_data(), balance.left
    for entry in data["entries"]:
        entry["alone"] = [_up(number) for number in entry["alone"]]
    if balance.spent is not None:
        data["spent"] = {"epsilon": _up(balance.spent.epsilon), "delta": _up(balance.spent.delta)}
    any_run = None if left.any_run is None else rounded_down(left.any_run)
    data["left"] = {"statement": left.statement, "any_run": None if any_run is None else vars(any_run)}
    send({"kind": "ledger", "promise": balance.promise, "path": str(path), **data})


class Book:
    """The ledger beside the plans of a page.

    Args:
        path: Its file. One that is no ledger is refused.
    """

    def __init__(self, path: Path) -> None:
        from minsep.ledger import Ledger

        Ledger.open(path)
        self._path = path
        self._read: tuple[tuple[int, ...], Message] | None = None
        self._turn = asyncio.Lock()

    async def answer(self) -> dict[str, Any]:
        """Return what the ledger holds now, or the sentence that refuses it under "problem"."""
        async with self._turn:
            version = self._version()
            if self._read is None or self._read[0] != version:
                answer: Message = {"kind": "problem", "problem": _NOT_READ}
                async for message in messages(read, self._path):
                    answer = message
                self._read = version, answer
            return self._read[1]

    def _version(self) -> tuple[int, ...]:
        """Return what changes whenever the file does."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns


def _up(value: float) -> float:
    return float(rounded_up(value))
