"""Which loop is audited: an adapter by its name, a function, or a function by the name of its module."""

import sys
from importlib import import_module
from pathlib import Path

from minsep.auditing.canaries import Loop
from minsep.core.install import install_command

ADAPTERS = {
    "torch": ("torch", "TorchLoop", {}),
    "jax": ("jax", "JaxLoop", {}),
    "huggingface": ("huggingface", "HuggingFaceLoop", {}),
    "processes": ("processes", "ProcessesLoop", {}),
    "fsdp2": ("processes", "ProcessesLoop", {"sharded": True}),
}
"""The module, class and options of each adapter of minsep."""

_EXTRAS = {"processes": "torch"}


def loop_of(loop: Loop | str) -> tuple[Loop, str]:
    """Return a loop, and its name.

    Args:
        loop: The name of an adapter of minsep, a function of one run, or the name of one as "module:function".

    >>> from minsep.auditing import plain_loop
    >>> loop_of("minsep.auditing:plain_loop")[0] is plain_loop
    True
    """
    if callable(loop):
        return loop, getattr(loop, "__name__", None) or repr(loop)
    if loop in ADAPTERS:
        name, kind, options = ADAPTERS[loop]
        try:
            module = import_module(f"minsep.auditing.{name}")
        except ModuleNotFoundError as error:
            command = install_command(_EXTRAS.get(name, name))
            raise ValueError(f"loop is {loop!r}, but {error.name} is not installed: {command}") from None
        adapter: Loop = getattr(module, kind)(**options)
        return adapter, repr(adapter)
    module_name, colon, name = str(loop).partition(":")
    if not colon or not module_name or not name:
        names = ", ".join(repr(each) for each in ADAPTERS)
        raise ValueError(f"loop is {loop!r}, but it must be {names} or 'module:function'.")
    try:
        found = getattr(_import_nearby(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"loop is {loop!r}, but it cannot be imported: {error}.") from None
    if not callable(found):
        raise ValueError(f"loop is {loop!r}, but that is {found!r}: it must be a function of one run.")
    return found, loop


def _import_nearby(name: str) -> object:
    """Import a module, also from the folder that a command is called in."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return import_module(name)
    finally:
        sys.path.remove(here)
