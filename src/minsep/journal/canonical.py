"""What makes two computations the same: their functions and arguments as plain data, and its digest."""

import hashlib
import json
import math
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np


def digest(value: object) -> str:
    """Return the SHA-256 of a value in canonical form: the same in every process.

    >>> digest(partial(max, 1.0)) == digest(partial(max, 1.0))
    True
    >>> digest(partial(max, 1.0)) == digest(partial(max, 2.0))
    False
    """
    return hashlib.sha256(json.dumps(canonical(value), sort_keys=True).encode()).hexdigest()


def canonical(value: Any) -> Any:
    """Return a value as plain data that is equal exactly when the values are."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return _number(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, type):
        return _name(value)
    if hasattr(value, "fingerprint"):
        return [_name(type(value)), value.fingerprint]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, np.ndarray):
        return [value.dtype.str, list(value.shape), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, partial):
        return [canonical(value.func), canonical(value.args), canonical(value.keywords)]
    if is_dataclass(value) and not isinstance(value, type):
        return [_name(type(value)), {field.name: canonical(getattr(value, field.name)) for field in fields(value)}]
    if isinstance(value, tuple | list):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if callable(value):
        return _name(value)
    raise TypeError(f"A {type(value).__name__} has no canonical form.")


def _number(value: float) -> int | str:
    """Return a number so that it reads as the same; 4 and 4.0 are one."""
    return int(value) if math.isfinite(value) and value == int(value) else repr(value)


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
