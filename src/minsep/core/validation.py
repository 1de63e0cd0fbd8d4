"""Checks of parameters: each takes one keyword and returns its value, or raises a sentence that says what to change."""

import math
import operator
from collections.abc import Callable, Iterable
from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LONGEST = 1000


def integer(*, at_least: int | None = None, at_most: int | None = None, **parameter: object) -> int:
    """Return the one keyword argument as an `int` within the bounds.

    >>> integer(min_sep=16, at_least=1)
    16
    >>> integer(min_sep=0, at_least=1)
    Traceback (most recent call last):
    ValueError: min_sep is 0, but it must be an integer of at least 1.
    """
    ((name, value),) = parameter.items()
    bounds = _bounds((at_least, "at least"), (at_most, "at most"))
    number = None
    if not isinstance(value, bool | np.bool_):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            number = None
    if number is None or (at_least is not None and number < at_least) or (at_most is not None and number > at_most):
        raise ValueError(f"{name} is {in_short(value)}, but it must be an integer{bounds}.")
    return number


def real(
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    **parameter: object,
) -> float:
    """Return the one keyword argument as a finite `float` within the bounds.

    >>> real(rate=0.25, above=0, at_most=1)
    0.25
    >>> real(rate=-0.1, above=0, at_most=1)
    Traceback (most recent call last):
    ValueError: rate is -0.1, but it must be a finite number above 0 and at most 1.
    """
    ((name, value),) = parameter.items()
    bounds = _bounds((above, "above"), (at_least, "at least"), (at_most, "at most"), (below, "below"))
    try:
        number = math.nan if isinstance(value, bool | np.bool_ | str | bytes) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if (
        not math.isfinite(number)
        or (above is not None and number <= above)
        or (at_least is not None and number < at_least)
        or (at_most is not None and number > at_most)
        or (below is not None and number >= below)
    ):
        raise ValueError(f"{name} is {in_short(value)}, but it must be a finite number{bounds}.")
    return number


def choice(options: Iterable[str], **parameter: object) -> str:
    """Return the one keyword argument if it is among `options`.

    >>> choice(("warm", "cold"), start="tepid")
    Traceback (most recent call last):
    ValueError: start is 'tepid', but it must be one of 'warm', 'cold'.
    """
    ((name, value),) = parameter.items()
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        alike = get_close_matches(value, options, 1) if isinstance(value, str) else []
        meant = f"; did you mean {alike[0]!r}?" if alike else "."
        raise ValueError(f"{name} is {in_short(value)}, but it must be one of {', '.join(map(repr, options))}{meant}")
    return value


def real_array(dimensions: int, **parameter: ArrayLike) -> NDArray[np.float64]:
    """Return the one keyword argument as a new, non-empty, finite float64 array of that many dimensions.

    >>> real_array(1, coefficients=[1.0, float("nan")])
    Traceback (most recent call last):
    ValueError: coefficients has the value nan at [1], but every entry must be a finite number.
    """
    ((name, value),) = parameter.items()
    try:
        given = np.array(value)
    except ValueError:  # rows of unequal length
        given = np.array("")
    if given.dtype.kind not in "iuf" and given.size > 0:
        raise ValueError(f"{name} is {in_short(value)}, but it must be an array of numbers.")
    array = given.astype(np.float64)
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(
            f"{name} has the shape {array.shape}, but it must be a non-empty array of {dimensions} "
            f"dimension{'s' if dimensions > 1 else ''}."
        )
    refuse_entries(~np.isfinite(array), "every entry must be a finite number", **{name: array})
    return array


def refuse_entries(bad: NDArray[np.bool_], rule: str, **parameter: NDArray[np.float64]) -> None:
    """Refuse an array, and name the first entry that breaks a rule."""
    ((name, array),) = parameter.items()
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        index = ", ".join(map(str, where))
        raise ValueError(f"{name} has the value {array[where]:g} at [{index}], but {rule}.")


def all_of(*checks: Callable[[], object]) -> None:
    """Run all checks, and raise one error that holds the messages of all failed checks.

    >>> all_of(lambda: integer(bands=0, at_least=1), lambda: real(delta=2, above=0, at_most=1))
    Traceback (most recent call last):
    ValueError: bands is 0, but it must be an integer of at least 1.
    delta is 2, but it must be a finite number above 0 and at most 1.
    """
    sentences = []
    for check in checks:
        try:
            check()
        except ValueError as error:
            sentences.append(str(error))
    if sentences:
        raise ValueError("\n".join(sentences))


def in_short(value: object) -> str:
    """Return a value as it is written in Python, cut in the middle if that is long.

    >>> in_short("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ... aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    """
    return shortened(repr(value))


def shortened(text: str) -> str:
    """Return the first line of a text as a terminal may show it, cut in the middle if it is long.

    >>> shortened("It failed.\\nBecause of that.")
    'It failed.'
    """
    line = "".join(letter if letter.isprintable() else "?" for letter in text.partition("\n")[0])
    return line if len(line) <= _LONGEST else f"{line[:50]} ... {line[-50:]}"


def _bounds(*limits: tuple[float | None, str]) -> str:
    words = [f"{word} {limit:,}" for limit, word in limits if limit is not None]
    if not words:
        return ""
    return (" of " if words[0].startswith("at") else " ") + " and ".join(words)
