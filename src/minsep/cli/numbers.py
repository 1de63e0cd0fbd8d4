"""Numbers on the command line."""

from collections.abc import Callable
from typing import TypeVar

import typer

from minsep.core import numbers

Number = TypeVar("Number", int, float)


def number(text: str | float) -> float:
    """Read a number, with or without commas."""
    return _read(numbers.number, text)


def count(text: str | int) -> int:
    """Read a whole number, with or without commas, or as a power of ten."""
    return _read(numbers.count, text)


def _read(how: Callable[[str | Number], Number], text: str | Number) -> Number:
    try:
        return how(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
