"""Formats of pictures, and checks for optional packages."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from minsep.core.install import install_command


def picture_format(path: str | os.PathLike[str], name: str = "path") -> str:
    """Return the format that a suffix names.

    >>> picture_format("plan.SVG")
    'svg'
    >>> picture_format("plan.gif")
    Traceback (most recent call last):
    ValueError: path is 'plan.gif', but its suffix must be .png or .svg.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".png", ".svg"):
        raise ValueError(f"{name} is {os.fspath(path)!r}, but its suffix must be .png or .svg.")
    return suffix[1:]


def check_package(name: str) -> None:
    """Refuse work for which a package is missing."""
    if find_spec(name) is None:
        raise ValueError(f"Reports and plots need {name}: {install_command('report')}")


@contextmanager
def needing(package: str) -> Iterator[None]:
    """Say what to install if an import inside fails because the package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise ImportError(f"Reports and plots need {package}: {install_command('report')}") from None
