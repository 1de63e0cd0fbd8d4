"""One call and its journal: which call it is, its seed and its date."""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np

from minsep.core import validation as validate
from minsep.core.plain import from_plain, to_plain
from minsep.core.progress import Listener, Progress
from minsep.core.versions import library_versions
from minsep.engine import Compute
from minsep.journal.canonical import digest, rough_digest
from minsep.journal.compute import JournaledCompute, Log
from minsep.journal.file import FORMAT, JournalFile

Outcome = TypeVar("Outcome")


def today() -> str:
    """Return the date, in the format of ISO 8601.

    >>> len(today())
    10
    """
    return datetime.now(UTC).date().isoformat()


@dataclass(frozen=True)
class Call:
    """What a call works with: the same whether it was interrupted or not.

    Attributes:
        seed: The seed of its samples.
        date: The day on which the call began.
        compute: Draws its samples.
        progress: Is told how far the call is.
        log: The entries of its journal, if it has one.
    """

    seed: int
    date: str
    compute: Compute
    progress: Listener | None
    log: Log | None = None

    def finish(self, outcome: Outcome, sentence: str) -> Outcome:
        """Return the outcome of the call, once it is written down."""
        if self.log is not None:
            self.log.finish(rough_digest(outcome), sentence)
        return outcome


@dataclass(frozen=True)
class _Header:
    """The first line of a journal: its format, and the call with its seed and date."""

    journal: int
    versions: dict[str, str]
    task: dict[str, Any]
    seed: int
    date: str


@contextmanager
def begin(
    journal: str | os.PathLike[str] | None,
    call: str,
    inputs: Mapping[str, Any],
    seed: int | None,
    compute: Compute,
    progress: Listener | None,
) -> Iterator[Call]:
    """Begin a call, or continue it where its journal ends.

    Args:
        journal: The path of its journal, if it has one. The journal of another call is refused.
        call: The name of the call.
        inputs: The inputs of the call, by name.
        seed: The seed of its samples. None draws one from the system's entropy, and writes it to the journal before
            it is used.
        compute: Where samples are drawn.
        progress: Is told how far the call is.
    """
    if seed is not None:
        seed = validate.integer(seed=seed, at_least=0)
    used, date = secrets.randbits(128) if seed is None else seed, today()
    if journal is None:
        yield Call(used, date, compute, progress)
        return
    task = {"call": call, **{name: _in_words(value) for name, value in inputs.items()}, "seed": seed}
    file = JournalFile(journal)
    try:
        if file.entries:
            header = _checked(file, task)
        else:
            header = _Header(FORMAT, library_versions(), task, used, date)
            file.begin(to_plain(header))
        log = Log(file, file.entries[1:])

        def tell(event: Progress) -> None:
            if progress is not None:
                progress(replace(event, replayed=log.replaying))

        journaled = JournaledCompute(compute.workers, compute.executor, inner=compute, log=log)
        yield Call(header.seed, header.date, journaled, None if progress is None else tell, log)
    finally:
        file.close()


def _checked(file: JournalFile, task: dict[str, Any]) -> _Header:
    """Return the header of a journal if it is that of this task and version."""
    first = file.entries[0]
    if first.get("journal") != FORMAT:
        raise file.refuse(
            f"it has format {validate.in_short(first.get('journal'))}, and this version of minsep writes {FORMAT}"
        )
    try:
        header = from_plain(_Header, first)
    except ValueError:
        raise file.refuse("its first line makes no sense") from None
    recorded = header.task
    for name, version in library_versions().items():
        if header.versions.get(name) != version:
            there = validate.shortened(str(header.versions.get(name)))
            raise file.refuse(f"it was written with {name} {there}, and this is {version}: go on with that version")
    differing = [name for name in {**recorded, **task} if _identity(recorded.get(name)) != _identity(task.get(name))]
    if differing:
        words = ", ".join(
            f"{name} is {_said(task.get(name))} here and {_said(recorded.get(name))} there" for name in differing
        )
        raise file.refuse(f"it is that of another task: {words}; repeat that call, or use another file")
    return header


def _in_words(value: Any) -> Any:
    """Return an input as it is written: as it is, or in words and with its digest."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"is": str(value)[:200], "sha256": digest(value)}


def _identity(value: Any) -> Any:
    """Return what two equal inputs have in common: words for a list and a tuple differ."""
    match value:
        case {"is": str(), "sha256": str() as digits}:
            return {"sha256": digits}
    return value


def _said(value: Any) -> str:
    match value:
        case {"is": str() as words, "sha256": str() as digits}:
            return f"{validate.in_short(words)} ({digits[:8]})"
    return validate.in_short(value)
