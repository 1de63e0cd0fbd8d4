"""Where compiled code is cached between runs."""

import os
import stat
import sys
import tempfile
from pathlib import Path


def find_cache() -> None:
    """Give numba a folder for compiled code if it would not find one itself.

    It looks next to the sources, and then in the user's cache. If neither is writable, as in a read-only installation
    without a home directory, importing compiled functions would fail. A temporary folder owned by this user is used
    instead; a folder that someone else could have written to is not used.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    if any(map(_is_writable, (Path(__file__).parent / "__pycache__", _user_cache()))):
        return
    os.environ["NUMBA_CACHE_DIR"] = str(_own_temporary_folder())


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Caches/numba").expanduser()
    return Path(os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "numba"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _own_temporary_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"minsep-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077:
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="minsep-"))
