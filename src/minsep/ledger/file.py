"""The file of a ledger: whoever adds holds its lock, and whatever interrupts a line leaves the others."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from minsep.core.files import check_folder, flush_folder
from minsep.core.validation import in_short
from minsep.ledger.chain import FIRST, Content, DamagedError, linked, unlinked

_MOST_BYTES = 2**31
_BEGINNING = b'{"index": 0, "previous": "", "ledger": '
_SECOND = b'\n{"index": 1, "previous": "'
_ENOUGH = 2**16  # bytes, of which the first line takes some thousand at most


@dataclass(frozen=True)
class Lines:
    """What a file holds.

    Attributes:
        contents: The contents of its lines.
        hashes: The hashes of its lines.
        size: How many bytes they take, without an unfinished line behind them.
        ended: Whether the last line has its end: a crash can cut off just that.
    """

    contents: tuple[Content, ...] = ()
    hashes: tuple[str, ...] = ()
    size: int = 0
    ended: bool = True

    @property
    def last(self) -> str:
        """The hash that the next line refers to."""
        return self.hashes[-1] if self.hashes else FIRST


def is_ledger(path: str | os.PathLike[str]) -> bool:
    """Whether a file is meant to be a ledger, even if its first lines were damaged."""
    try:
        with open(path, "rb") as file:
            beginning = file.read(_ENOUGH)
    except OSError:
        return False
    return beginning.startswith(_BEGINNING) or _SECOND in beginning


class LedgerFile:
    """The file of a ledger.

    Args:
        path: Where it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ValueError(f"ledger is {in_short(path)}, but it must be the path of a file.")
        check_folder(ledger=path)
        self.path = Path(path)

    def refuse(self, why: str) -> ValueError:
        """Return the refusal of this ledger."""
        return ValueError(f"ledger is {str(self.path)!r}, but {why}.")

    def read(self) -> Lines:
        """Return what the file holds now. Another process may be about to add a line, which does not count yet."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            raise self.refuse("there is no such file: create the ledger first") from None
        except OSError as error:
            self._fail("opened", error)
        try:
            return self._lines(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def locked(self, *, create: bool = False) -> Iterator["LockedFile"]:
        """Hold the lock of the file, and wait for it while another process does.

        Args:
            create: Whether to create a file that does not exist.
        """
        try:
            import fcntl
        except ImportError:
            raise self.refuse("this system has no locks for files, which a ledger needs") from None
        try:
            descriptor = os.open(self.path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        except FileNotFoundError:
            raise self.refuse("there is no such file: create the ledger first") from None
        except OSError as error:
            self._fail("opened for writing", error)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                self._fail("locked", error)
            try:
                yield LockedFile(self, descriptor, self._lines(descriptor))
            finally:
                # Not only by closing: a process that was forked meanwhile holds the file open as well.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)

    def _fail(self, how: str, error: OSError) -> NoReturn:
        raise OSError(f"ledger is {str(self.path)!r}, but it cannot be {how}: {error.strerror}.") from None

    def _lines(self, descriptor: int) -> Lines:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise self.refuse("it must be a file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise self.refuse("it is too large for a ledger")
        if not (content.startswith(_BEGINNING) or _BEGINNING.startswith(content)):
            raise self.refuse("that is another kind of file")
        *whole, rest = content.split(b"\n")
        contents: list[Content] = []
        hashes: list[str] = []
        for index, line in enumerate([*whole, rest]):
            try:
                found, digest = unlinked(line, index, hashes[-1] if hashes else FIRST)
            except DamagedError:
                if index == len(whole):  # a crash in the middle of a line: nobody was told that it was written
                    break
                raise self.refuse(
                    f"line {index + 1} of {len(whole)} was edited, or is damaged, missing or out of place: restore "
                    "the file"
                ) from None
            contents.append(found)
            hashes.append(digest)
        size, ended = len(content) - len(rest), True
        if len(hashes) > len(whole):  # all but the end of the line was written
            size, ended = len(content), False
        return Lines(tuple(contents), tuple(hashes), size, ended)


class LockedFile:
    """The file of a ledger while this process holds its lock.

    Args:
        file: The file.
        descriptor: What it is open as.
        lines: What it holds.
    """

    def __init__(self, file: LedgerFile, descriptor: int, lines: Lines) -> None:
        self._file, self._descriptor, self.lines = file, descriptor, lines

    def append(self, content: Content) -> None:
        """Write a line, and force it to disk, before this returns."""
        line, _ = linked(content, len(self.lines.hashes), self.lines.last)
        self._check_place()
        begin = self.lines.size
        try:
            os.ftruncate(self._descriptor, begin)
            os.lseek(self._descriptor, begin, os.SEEK_SET)
            left = (b"" if self.lines.ended else b"\n") + line + b"\n"
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, begin)
            raise OSError(
                f"ledger is {str(self._file.path)!r}, but it could not be written to: {error.strerror}; nothing was "
                "added."
            ) from None
        if begin == 0:
            flush_folder(self._file.path.absolute().parent)

    def _check_place(self) -> None:
        """Refuse to write to a file that is no longer there, where nobody would find it."""
        try:
            here = os.path.samestat(os.stat(self._file.path), os.fstat(self._descriptor))
        except OSError:
            here = False
        if not here:
            raise OSError(f"ledger is {str(self._file.path)!r}, but the file was moved or replaced meanwhile.")
