"""A hook of mkdocs: warns about every public name that the API reference leaves out."""

import ast
import logging
import re
from pathlib import Path
from typing import Any

import minsep

ROOT = Path(__file__).parents[2]
EXTRAS = ("paper", "reading", "show.report", "training.torch", "training.jax", "training.huggingface")
"""Packages whose names are public as well; some need a framework, so they are read and not imported."""

SHADOWED = {
    "minsep.accounting.certification.certify.certify": "minsep.certify",
    "minsep.accounting.composition.compose.compose": "minsep.compose",
}
"""Entries by their full path, because a module on the way has the name of its function."""

_log = logging.getLogger("mkdocs.hooks.reference")


def public_names() -> set[str]:
    """Return the full names of everything public.

    >>> {"minsep.MinSep", "minsep.training.jax.privatize"} <= public_names()
    True
    """
    names = {f"minsep.{name}" for name in minsep.__all__ if name != "__version__"}
    for package in EXTRAS:
        source = ROOT.joinpath("src", "minsep", *package.split("."), "__init__.py").read_text()
        exported = re.search(r"^__all__ = (\[.*?\])", source, re.DOTALL | re.MULTILINE)
        assert exported is not None, f"minsep.{package} has no __all__."
        names |= {f"minsep.{package}.{name}" for name in ast.literal_eval(exported.group(1))}
    return names


def documented_names() -> set[str]:
    """Return the names that have an entry in the API reference.

    >>> "minsep.plan" in documented_names()
    True
    """
    pages = (ROOT / "docs" / "api").glob("*.md")
    names = (name for page in pages for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE))
    return {SHADOWED.get(name, name) for name in names}


def on_config(config: Any) -> Any:
    """Compare the two when a build begins."""
    for name in sorted(public_names() - documented_names()):
        _log.warning("The public name %s is missing from docs/api.", name)
    return config
