"""The file of a journal: one process at a time appends to it, and whatever interrupts a line leaves the others."""

import contextlib
import os
import stat
import time
import weakref
from pathlib import Path

from minsep.core.files import check_folder, flush_folder
from minsep.journal.lines import FIRST, DamagedError, Entry, sealed, unsealed

_SYNC_SECONDS = 0.5
FORMAT = 2
"""The format of the journals of this version, which their first line names."""

_ANY_OPENING = b'{"journal": '
_OPENING = b'{"journal": %d, "versions": {"minsep": "' % FORMAT


class JournalFile:
    """An open journal, locked for this process.

    Each line is written after all others. A torn last line is cut off before the first one is written.

    Args:
        path: Where the file is.

    Attributes:
        entries: What the journal held when it was opened. A new one holds nothing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = validate_path(path)
        self._seal, self._size, self._torn, self._synced = FIRST, 0, 0, -_SYNC_SECONDS
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except (OSError, ValueError) as error:
            raise OSError(f"{self._is}, but it cannot be opened: {getattr(error, 'strerror', error)}.") from None
        _open_files.add(self)
        try:
            self._lock()
            self.entries = self._read()
        except BaseException:
            self.close()
            raise

    @property
    def _is(self) -> str:
        return f"journal is {str(self.path)!r}"

    def refuse(self, why: str) -> ValueError:
        """Return the refusal of this journal."""
        return ValueError(f"{self._is}, but {why}.")

    def append(self, entry: Entry, *, now: bool = True) -> None:
        """Write a line, and force it to disk: `now`, or if that was not done for a while."""
        line, seal = sealed(entry, self._seal)
        self._check_place()
        try:
            self._write(line)
            if now or time.monotonic() - self._synced >= _SYNC_SECONDS:
                os.fsync(self._descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
                self._torn = 0
            raise OSError(
                f"{self._is}, but it could not be written to: {error.strerror}; it holds what was done before, so "
                "solve that and repeat the call."
            ) from None
        self._seal, self._size = seal, self._size + len(line)

    def begin(self, header: Entry) -> None:
        """Write the first line, and force it and the name of the file to disk; where that fails, leave no empty one."""
        try:
            self.append(header)
        except OSError:
            self._remove_if_empty()
            raise
        flush_folder(self.path.absolute().parent)

    def _remove_if_empty(self) -> None:
        """Delete the file, unless it is another one by now or something was written to it."""
        with contextlib.suppress(OSError):
            if self._is_in_place() and os.fstat(self._descriptor).st_size == 0:
                os.unlink(self.path)

    def close(self) -> None:
        """Close the file, which releases its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            raise self.refuse("this system has no locks for files, which a journal needs") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self.refuse("another call is writing to it: wait until that has ended, or use another file") from None
        except OSError as error:
            raise OSError(f"{self._is}, but it cannot be locked: {error.strerror}.") from None

    def _read(self) -> list[Entry]:
        """Return the entries, which end before a torn last line."""
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise self.refuse("it must be a file")
        with open(self._descriptor, "rb", closefd=False) as file:
            content = file.read()
        *lines, torn = content.split(b"\n")
        # A torn first line is written over, so it must be one of a journal without a doubt.
        begun = content.startswith(_ANY_OPENING if lines else _OPENING) or _OPENING.startswith(content)
        if not begun:
            raise self.refuse("that is another kind of file")
        entries = []
        for number, line in enumerate(lines, 1):
            try:
                entry, self._seal = unsealed(line + b"\n", self._seal)
            except DamagedError:
                raise self.refuse(
                    f"line {number} of {len(lines)} is damaged, missing or out of place: restore the file"
                ) from None
            entries.append(entry)
            self._size += len(line) + 1
        self._torn = len(torn)
        return entries

    def _write(self, line: bytes) -> None:
        if self._torn:
            os.ftruncate(self._descriptor, self._size)
            self._torn = 0
        os.lseek(self._descriptor, self._size, os.SEEK_SET)
        while line:
            line = line[os.write(self._descriptor, line) :]

    def _check_place(self) -> None:
        """Refuse to write to a file that is no longer there, where nobody would find it."""
        if self._descriptor < 0:
            raise OSError(f"{self._is}, but this process is a copy of the one that opened it: only that may write.")
        if not self._is_in_place():
            raise OSError(f"{self._is}, but the file was moved or deleted while the call was running.")
        if os.fstat(self._descriptor).st_size != self._size + self._torn:
            raise OSError(f"{self._is}, but something else changed the file while the call was running.")

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except OSError:
            return False


def validate_path(path: object) -> Path:
    """Return the path of a journal."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"journal is {path!r}, but it must be the path of a file, or None.")
    check_folder(journal=path)
    return Path(path)


_open_files: "weakref.WeakSet[JournalFile]" = weakref.WeakSet()


def _close_all() -> None:
    for file in list(_open_files):
        file.close()


# The lock is that of the open file: a forked worker that kept it open would hold it after its parent was killed.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
