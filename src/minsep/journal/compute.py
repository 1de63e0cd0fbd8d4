"""A compute that writes down what it folds, and takes from the journal what is there."""

import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from minsep.core.plain import from_plain, to_plain
from minsep.engine import LOCAL, Compute, never
from minsep.journal.canonical import rough_digest
from minsep.journal.file import JournalFile
from minsep.journal.lines import Entry

Result = TypeVar("Result")
State = TypeVar("State")
Value = TypeVar("Value")

_SECONDS, _SHARE = 0.5, 0.005  # between two states: at least, and of the time since the fold began


class Log:
    """The entries of a journal after its header, in the order of the program: first read, then written."""

    def __init__(self, file: JournalFile, entries: list[Entry]) -> None:
        self._file, self._ahead = file, deque(entries)

    @property
    def replaying(self) -> bool:
        """Whether the program is still where it was before."""
        return bool(self._ahead)

    def take(self, kind: str, of: str) -> Entry | None:
        """Return the next entry, which must be of this kind and identity; None at the end."""
        if not self._ahead:
            return None
        entry = self._ahead.popleft()
        if entry.get("kind") != kind or entry.get("of") != of:
            raise self._other()
        return entry

    def take_fold(self, of: str) -> Entry | None:
        """Return the last entry of a fold."""
        entry = self.take("fold", of)
        while entry is not None and entry.get("last") is not True and self._ahead:
            entry = self.take("fold", of)
        return entry

    def append(self, kind: str, of: str, *, now: bool = True, **more: Any) -> None:
        """Write an entry."""
        self._file.append({"kind": kind, "of": of, **more}, now=now)

    def finish(self, of: str, outcome: str) -> None:
        """Write the end, or find it."""
        if self.take("end", of) is None:
            self.append("end", of, outcome=outcome)
        if self._ahead:
            raise self._other()

    def _other(self) -> ValueError:
        return self._file.refuse("it does not go on as this call does: continue with the libraries that wrote it")

    def unpacked(self, unpack: Callable[[Any], Value], data: Any) -> Value:
        """Return what plain data stands for."""
        try:
            return unpack(data)
        except (KeyError, TypeError, ValueError, RecursionError):
            raise self._other() from None


def _written(count: int, first: State, entry: Entry) -> tuple[int, State]:
    """Return after how many chunks a state of a fold was written down, and the state."""
    done = from_plain(int, entry["chunks"], "chunks")
    state = from_plain(type(first), entry["state"], "state", finite=False)
    if not 1 <= done <= count or _outline(entry["state"]) != _outline(to_plain(first)):
        raise ValueError(f"there is no such state after {done} chunks")
    return done, state


def _outline(plain: Any) -> Any:
    """Return plain data without their numbers and text: a state has the arrays of another one of the same fold."""
    if isinstance(plain, list):
        return [_outline(item) for item in plain]
    return {key: _outline(item) for key, item in plain.items()} if isinstance(plain, dict) else None


def _identity(of: object) -> str:
    return rough_digest(of)[:32]


@dataclass(frozen=True)
class JournaledCompute(Compute):
    """Where work is done, with a log of it.

    Args:
        inner: Does the work.
        log: Holds what was done.
    """

    inner: Compute = LOCAL
    log: Log | None = None

    def run(self, work: Callable[[int], Result], count: int, start: int = 0) -> Generator[Result, None, None]:
        """Yield `work(start), ..., work(count - 1)` in order; that is not written down."""
        return self.inner.run(work, count, start)

    @property
    def local(self) -> Compute:
        """Threads of this process: what they do is not written down."""
        return self.inner.local

    def fold(
        self,
        work: Callable[[int], Result],
        count: int,
        state: State,
        step: Callable[[State, Result], State],
        finished: Callable[[State], bool] = never,
        name: str = "",
    ) -> State:
        """Return the state after the results in order, from the last one that was written down."""
        assert self.log is not None
        log, of = self.log, _identity([work, count, to_plain(state)])
        done = 0
        known = log.take_fold(of)
        if known is not None:
            done, state = log.unpacked(partial(_written, count, state), known)
            if known.get("last") is True:
                return state

        def write_down(last: bool) -> None:
            log.append("fold", of, name=name, chunks=done, last=last, state=to_plain(state), now=False)

        began = written = time.monotonic()
        with closing(self.inner.run(work, count, done)) as results:
            for result in results:
                state, done = step(state, result), done + 1
                if finished(state):
                    break
                now = time.monotonic()
                if done < count and now - written >= max(_SECONDS, _SHARE * (now - began)):
                    write_down(last=False)
                    written = now
        write_down(last=True)
        return state

    def remember(
        self,
        make: Callable[[Compute], Value],
        pack: Callable[[Value], Any],
        unpack: Callable[[Any], Value],
        name: str = "",
    ) -> Value:
        """Return a value that was written down, or make it and write it down."""
        assert self.log is not None
        of = _identity(make)
        known = self.log.take("value", of)
        if known is not None:
            return self.log.unpacked(unpack, known.get("value"))
        value = make(self.inner)
        self.log.append("value", of, name=name, value=pack(value), now=False)
        return value

    def note(self, sentence: str) -> None:
        """Write down a decision."""
        assert self.log is not None
        of = _identity(sentence)
        if self.log.take("note", of) is None:
            self.log.append("note", of, note=sentence)
