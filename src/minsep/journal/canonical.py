"""What makes two computations the same: their functions and arguments in canonical form, and its digest."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from minsep.core.identity import to_digits
from minsep.core.plain import to_plain

_DIGITS = 6


def digest(value: object) -> str:
    """Return the SHA-256 of a value in canonical form: the same in every process.

    >>> digest(partial(max, 1.0)) == digest(partial(max, 1.0))
    True
    >>> digest(partial(max, 1.0)) == digest(partial(max, 2.0))
    False
    """
    return _digest(value, _number)


def rough_digest(value: object) -> str:
    """Return the SHA-256 of a value whose numbers are rounded to six digits: the same on every processor.

    What was computed differs in its last bits from processor to processor. A journal says by it whether a call goes on
    as it began, on the same inputs.

    >>> rough_digest(partial(max, 0.1 + 0.2)) == rough_digest(partial(max, 0.3))
    True
    """
    return _digest(value, _rough_number)


def _digest(value: object, number: Callable[[float], int | str]) -> str:
    plain = to_plain(value, partial(_canonical, number))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _canonical(number: Callable[[float], int | str], value: Any) -> Any:
    """Return what stands for a value: something else for each other one, up to what `number` makes of numbers."""
    if value is None or isinstance(value, bool | str | tuple | list | dict):
        return value
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return number(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, type):
        return _name(value)
    if hasattr(value, "fingerprint"):
        return _name(type(value)), value.fingerprint
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.dtype.str, value.shape, _digest(value.ravel().tolist(), number)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    if is_dataclass(value):
        return _name(type(value)), {field.name: getattr(value, field.name) for field in fields(value)}
    if callable(value):
        return _name(value)
    raise TypeError(f"A {type(value).__name__} has no canonical form.")


def _number(value: float) -> int | str:
    """Return a number so that it reads as the same; 4 and 4.0 are one."""
    return int(value) if math.isfinite(value) and value == int(value) else repr(value)


def _rough_number(value: float) -> int | str:
    return _number(to_digits(value, _DIGITS) if isinstance(value, float) and math.isfinite(value) else value)


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
