"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_OWNER_ONLY, _AS_THE_UMASK_SAYS = 0o600, 0o666


def write_whole(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object], *, private: bool = False
) -> None:
    """Write a file atomically: whatever interrupts it, either the old or the new file exists.

    - `path` is where the file is written.
    - `content` is its bytes, or a function that writes them to an open file.
    - `private` makes the file readable only by its owner, from the first byte on.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_whole(path, b"whole")
    >>> path.read_text()
    'whole'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY if private else _AS_THE_UMASK_SAYS
    )
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
        os.unlink(temporary)
        raise


def check_folder(**parameter: str | os.PathLike[str]) -> None:
    """Refuse a path whose folder does not exist, or that is a folder itself.

    >>> check_folder(output="/no/such/folder/plan.html")
    Traceback (most recent call last):
    ValueError: output is '/no/such/folder/plan.html', but the folder '/no/such/folder' does not exist.
    """
    ((name, path),) = parameter.items()
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{name} is {os.fspath(path)!r}, but the folder {str(folder)!r} does not exist.")
    if Path(path).is_dir():
        raise ValueError(f"{name} is {os.fspath(path)!r}, but it is a folder: it must be a file.")
