"""The folder of runs: one folder a run, with its inputs, its state and the files it has made."""

import contextlib
import json
import re
import secrets
import shutil
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from minsep.core.files import write_whole
from minsep.planning import Request
from minsep.serve.inputs import InputError, read, texts_of

QUEUED, RUNNING, CERTIFIED, REFUSED, CANCELLED, FAILED = (
    "queued",
    "running",
    "certified",
    "not certified",
    "cancelled",
    "failed",
)
UNFINISHED = (QUEUED, RUNNING)
FILES = {
    "certificate.json": "application/json",
    "report.html": "text/html; charset=utf-8",
    "statement.md": "text/markdown; charset=utf-8",
    "statement.html": "text/html; charset=utf-8",
    "plan.py": "text/x-python; charset=utf-8",
    "plan.sh": "text/x-shellscript; charset=utf-8",
}
"""What can be downloaded of a run."""
JOURNAL = "journal"
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
_RECORD = "run.json"
_LOCK = ".lock"


@dataclass(frozen=True)
class Run:
    """One certification: what was asked for, how far it is, and what came of it.

    Args:
        id: The name of its folder.
        created: When it was asked for.
        seed: The seed that repeats it.
        texts: Its inputs as they were typed.
        state: One of queued, running, certified, not certified, cancelled and failed.
        problem: Why it failed, if it did.
        result: The plan, once there is one.
        seconds: How long it took.
    """

    id: str
    created: str
    seed: int
    texts: dict[str, str]
    state: str = QUEUED
    problem: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def request(self) -> Request:
        """What was asked for."""
        return read(self.texts)


class Store:
    """The runs in a folder, which one server uses at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self._folder)
        except OSError as error:
            raise ValueError(
                f"folder is {str(folder)!r}, but runs cannot be kept there: {error.strerror}. Choose another folder."
            ) from None
        loaded = (run for path in self._folder.iterdir() if (run := _load(path)) is not None)
        self._runs = {run.id: run for run in sorted(loaded, key=lambda run: (run.created, run.id))}

    def close(self) -> None:
        """Let another server use the folder."""
        self._lock.close()

    def runs(self) -> list[Run]:
        """Return all runs, the oldest first."""
        return list(self._runs.values())

    def get(self, name: str) -> Run | None:
        """Return a run by its name."""
        return self._runs.get(name)

    def create(self, request: Request) -> Run:
        """Make a new run, which is queued."""
        now = datetime.now(UTC)
        run = Run(
            f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
            now.isoformat(timespec="microseconds"),
            secrets.randbits(128),
            texts_of(request),
        )
        (self._folder / run.id).mkdir()
        return self.save(run)

    def save(self, run: Run, **changes: Any) -> Run:
        """Write a run with some changes."""
        run = replace(run, **changes)
        write_whole(self._folder / run.id / _RECORD, json.dumps(asdict(run), indent=1).encode())
        self._runs[run.id] = run
        return run

    def folder(self, run: Run) -> Path:
        """Return the folder of a run."""
        return self._folder / run.id

    def files(self, run: Run) -> list[str]:
        """Return the files that can be downloaded."""
        return [name for name in FILES if self.file(run, name) is not None]

    def file(self, run: Run, name: str) -> Path | None:
        """Return the path of one of the files of a run, if there is one: a real file in its own folder."""
        path = self._folder / run.id / name
        return path if name in FILES and path.is_file() and not path.is_symlink() else None

    def remove(self, run: Run) -> None:
        """Delete a run and its files."""
        with contextlib.suppress(FileNotFoundError):  # somebody has deleted it before
            shutil.rmtree(self._folder / run.id)
        self._runs.pop(run.id, None)


def _load(folder: Path) -> Run | None:
    """Read a run; a folder that holds none, or one of other inputs than are known here, is left alone."""
    if not _ID.fullmatch(folder.name) or folder.is_symlink():
        return None
    try:
        run = Run(**json.loads((folder / _RECORD).read_bytes()))
        read(run.texts)
    except (OSError, ValueError, TypeError, InputError):
        return None
    return run if run.id == folder.name else None


def _locked(folder: Path) -> BinaryIO:
    """Take the folder for this process, where the system has such locks."""
    file = (folder / _LOCK).open("ab")
    try:
        import fcntl
    except ImportError:
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ValueError(
            f"folder is {str(folder)!r}, but another `minsep serve` uses it: stop that one, or take another folder."
        ) from None
    return file
