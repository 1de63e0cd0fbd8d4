"""How to install what is missing, and how to call what is installed: commands that run as they are printed."""

import os
import shlex
import shutil
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]  # of a clone


def install_command(extra: str) -> str:
    """Return the command that adds the packages of an extra to this environment, from a clone or an installed wheel.

    Args:
        extra: One of the optional dependencies of minsep, such as "torch".
    """
    return f"{_pip()} install {_source(extra)}"


def _source(extra: str) -> str:
    if not (_ROOT / "pyproject.toml").is_file():
        return f"'minsep[{extra}]'"
    place = "." if Path.cwd() == _ROOT else str(_ROOT)
    return f"-e {shlex.quote(f'{place}[{extra}]')}"


def _pip() -> str:
    """Return how pip of this environment is called: by its name alone where the shell would find it."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    python = os.path.relpath(sys.executable) if Path(sys.executable).is_relative_to(Path.cwd()) else sys.executable
    return f"{shlex.quote(python)} -m pip"
