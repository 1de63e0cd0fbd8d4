"""What makes two computations the same: their functions and arguments as plain data, and its digest."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from minsep.core.identity import to_digits

_DIGITS = 6


def digest(value: object) -> str:
    """Return the SHA-256 of a value in canonical form: the same in every process.

    >>> digest(partial(max, 1.0)) == digest(partial(max, 1.0))
    True
    >>> digest(partial(max, 1.0)) == digest(partial(max, 2.0))
    False
    """
    return _digest(canonical(value, _number))


def rough_digest(value: object) -> str:
    """Return the SHA-256 of a value whose numbers are rounded to six digits: the same on every processor.

    What was computed differs in its last bits from processor to processor. A journal says by it whether a call goes on
    as it began, on the same inputs.

    >>> rough_digest(partial(max, 0.1 + 0.2)) == rough_digest(partial(max, 0.3))
    True
    """
    return _digest(canonical(value, _rough_number))


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def canonical(value: Any, number: Callable[[float], int | str]) -> Any:
    """Return a value as plain data that is equal exactly when the values are, by what `number` makes of numbers."""
    each = partial(canonical, number=number)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return number(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, type):
        return _name(value)
    if hasattr(value, "fingerprint"):
        return [_name(type(value)), value.fingerprint]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return [value.dtype.str, list(value.shape), _digest([number(item) for item in value.ravel().tolist()])]
    if isinstance(value, np.ndarray):
        return [value.dtype.str, list(value.shape), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, partial):
        return [each(value.func), each(value.args), each(value.keywords)]
    if is_dataclass(value) and not isinstance(value, type):
        return [_name(type(value)), {field.name: each(getattr(value, field.name)) for field in fields(value)}]
    if isinstance(value, tuple | list):
        return [each(item) for item in value]
    if isinstance(value, dict):
        return {str(key): each(item) for key, item in value.items()}
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
