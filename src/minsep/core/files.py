"""Files that are written whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import BinaryIO

_OWNER_ONLY, _AS_THE_UMASK_SAYS = 0o600, 0o666


def write_whole(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object], *, private: bool = False
) -> None:
    """Write a file atomically: whatever interrupts it, either the old or the new file exists.

    Args:
        path: Where the file is written. If it is a link, the file that it points to is replaced.
        content: The bytes of the file, or a function that writes them to an open file.
        private: Whether only its owner can read the file, from the first byte on.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_whole(path, b"whole")
    >>> path.read_text()
    'whole'
    """
    path = Path(os.path.realpath(path))
    _refuse_special(path, path=path)
    temporary = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY if private else _AS_THE_UMASK_SAYS
        )
    except OSError as error:  # in the name of the file that was asked for
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # its folder may be gone
            os.unlink(temporary)
        raise
    flush_folder(path.parent)


def next_free(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, ... that is free.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> path.touch()
    >>> next_free(path).name
    'note-2.txt'
    """
    names = (path if number == 1 else path.with_stem(f"{path.stem}-{number}") for number in count(1))
    return next(free for free in names if not os.path.lexists(free))


def flush_folder(folder: Path) -> None:
    """Let the new name of a file survive a loss of power, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_folder(**parameter: str | os.PathLike[str]) -> None:
    """Refuse a path whose folder does not exist, or that is not a file.

    >>> check_folder(output="/no/such/folder/plan.html")
    Traceback (most recent call last):
    ValueError: output is '/no/such/folder/plan.html', but the folder '/no/such/folder' does not exist.
    """
    ((name, path),) = parameter.items()
    if "\0" in str(path):
        raise ValueError(f"{name} is {os.fspath(path)!r}, but a path has no null characters.")
    target = Path(os.path.realpath(path))
    folder = target.parent
    if not folder.is_dir():
        raise ValueError(f"{name} is {os.fspath(path)!r}, but the folder {str(folder)!r} does not exist.")
    if target.is_dir():
        raise ValueError(f"{name} is {os.fspath(path)!r}, but it is a folder: it must be a file.")
    if target.is_symlink():
        raise ValueError(f"{name} is {os.fspath(path)!r}, but it is a link that leads back to itself.")
    _refuse_special(target, **{name: path})


def _refuse_special(target: Path, **parameter: str | os.PathLike[str]) -> None:
    """Refuse to replace a device or a pipe, such as /dev/null, by a file."""
    ((name, path),) = parameter.items()
    if target.exists() and not target.is_file() and not target.is_dir():
        raise ValueError(f"{name} is {os.fspath(path)!r}, but it is a device or a pipe: it must be a file.")
