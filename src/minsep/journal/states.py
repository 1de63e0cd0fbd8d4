"""States of folds as plain data and back, to the last bit."""

import math
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

State = TypeVar("State")


def to_plain(state: Any) -> Any:
    """Return a state as plain data: numbers, words, arrays of float64, and records of them.

    >>> to_plain((1, 0.1, -math.inf, np.array([0.5])))
    [1, 0.1, '-inf', [0.5]]
    """
    if is_dataclass(state):
        return [to_plain(getattr(state, field.name)) for field in fields(state)]
    if isinstance(state, tuple):
        return [to_plain(item) for item in state]
    if isinstance(state, np.ndarray) and state.dtype == np.float64:
        return [to_plain(float(item)) for item in state.ravel()]
    if isinstance(state, float):
        # JSON writes a finite number so that it reads as the same, and knows no other.
        return float(state) if math.isfinite(state) else repr(float(state))
    if isinstance(state, int | str):
        return state
    raise TypeError(f"A {type(state).__name__} is no state of a fold.")


def from_plain(like: State, data: Any) -> State:
    """Return the state that gave plain data, and is made like another one.

    >>> from_plain((0, 0.0, 0.0, np.zeros(1)), [1, 0.1, '-inf', [0.5]])
    (1, 0.1, -inf, array([0.5]))
    """
    read: Any = _read(like, data)
    return read  # type: ignore[no-any-return]


def _read(like: Any, data: Any) -> Any:
    kind: Any = type(like)
    if is_dataclass(like) and isinstance(data, list):
        return kind(*_items([getattr(like, field.name) for field in fields(like)], data))
    if isinstance(like, tuple) and isinstance(data, list):
        items = _items(list(like), data)
        return kind(*items) if hasattr(like, "_fields") else tuple(items)
    if isinstance(like, np.ndarray) and isinstance(data, list) and len(data) == like.size:
        return np.array([_read(0.0, item) for item in data]).reshape(like.shape)
    if isinstance(like, float) and (type(data) is float or data in ("inf", "-inf", "nan")):
        return float(data)
    if isinstance(like, int | str) and type(data) is kind:
        return data
    raise ValueError(f"{data!r} is not made like {like!r}")


def _items(like: list[Any], data: list[Any]) -> list[Any]:
    return [_read(one, item) for one, item in zip(like, data, strict=True)]
