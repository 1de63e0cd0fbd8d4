"""Functions that a lower layer calls and a higher layer provides, without an import upwards."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

Function = TypeVar("Function")

_FINDERS: dict[str, Callable[[], Any]] = {}


def provide(name: str, find: Callable[[], Any]) -> None:
    """Say how the function of this name is found; `find` is called only when the function is needed."""
    _FINDERS[name] = find


class Provided(Generic[Function]):
    """A function that a lower layer knows by its name and type, and somebody above provides.

    >>> greeting: Provided[Callable[[], str]] = Provided("greeting")
    >>> provide("greeting", lambda: lambda: "Good morning")
    >>> greeting()()
    'Good morning'
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self) -> Function:
        """Return the function."""
        if self._name not in _FINDERS:
            raise RuntimeError(f"Nobody provides {self._name}: import minsep first.")
        return cast(Function, _FINDERS[self._name]())
