"""Frozen values as plain data, which JSON can hold, and back."""

import math
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from minsep.core.registry import Registered
from minsep.core.validation import in_short

Value = TypeVar("Value")


def to_plain(value: Any, special: Callable[[Any], Any] | None = None) -> Any:
    """Return a value as plain data: numbers, text and None, and lists and dicts of them.

    A dataclass becomes a dict of its fields, and a registered variant names its `kind` first.

    Args:
        value: The value.
        special: Is asked about every value before it is looked at, and returns the value itself or what to write in its
            place.

    >>> to_plain((1, 0.1, {"sums": np.array([0.5])}))
    [1, 0.1, {'sums': [0.5]}]
    >>> to_plain([1, [2]], lambda value: "two" if value == 2 else value)
    [1, ['two']]
    """
    if special is not None:
        value = special(value)
    each = partial(to_plain, special=special)
    if isinstance(value, float):
        return float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple | list):
        return [each(item) for item in value]
    if isinstance(value, dict):
        return {_text(key): each(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return each(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        kind = {"kind": value.kind} if isinstance(value, Registered) else {}
        return kind | {field.name: each(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"A {type(value).__name__} cannot be written as plain data.")


def from_plain(
    kind: type[Value],
    data: object,
    name: str = "The record",
    *,
    finite: bool = True,
    known: Mapping[Any, Any] = MappingProxyType({}),
) -> Value:
    """Return the value of a type that gave plain data. Data that are not exactly as they must be are refused by name.

    Args:
        kind: The type: a number, text, a tuple, an array of float64, or a dataclass. Its type hints say how to read it:
            every field must be there, and no other. For the base of registered variants, the data name the kind.
        finite: Whether infinity and not-a-number are refused.
        known: Values by their types, for hints that are not read from data.

    >>> from_plain(tuple[int, float], [1, 0.1])
    (1, 0.1)
    >>> from_plain(int, True, "seed")
    Traceback (most recent call last):
    ValueError: seed is True, which is invalid.
    """
    value: Value = _Reader(finite, known).read(kind, data, name)
    return value


@dataclass(frozen=True)
class _Reader:
    """Reads plain data as type hints say."""

    finite: bool
    known: Mapping[Any, Any]

    def read(self, hint: Any, data: Any, name: str) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in self.known:
            return self.known[hint]
        if origin in (Union, types.UnionType):
            (needed,) = (option for option in arguments if option is not type(None))  # others are registered variants
            return None if data is None else self.read(needed, data, name)
        if origin is Literal and isinstance(data, str) and data in arguments:
            return data
        if origin is tuple and isinstance(data, list):
            hints = arguments[:1] * len(data) if arguments[-1] is Ellipsis else arguments
            if len(data) == len(hints):
                items = zip(hints, data, strict=True)
                return tuple(self.read(item, part, f"{name} {place}") for place, (item, part) in enumerate(items))
        if origin is np.ndarray and isinstance(data, list):
            return np.array(self._numbers(data, name), dtype=np.float64)
        if origin is dict and isinstance(data, dict):
            return data
        if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Registered)):
            return self._record(hint, data, name)
        if hint is float and self._is_number(data):
            return float(data)
        if hint in (int, bool) and type(data) is hint:
            return data
        if hint is str and isinstance(data, str) and data.isprintable():  # what a terminal would obey is not text
            return data
        raise ValueError(f"{name} is {in_short(data)}, which is invalid.")

    def _record(self, record: Any, data: Any, name: str) -> Any:
        if not isinstance(data, Mapping):
            raise ValueError(f"{name} is {in_short(data)}, but it must be an object.")
        if issubclass(record, Registered):
            record, data = (
                record.of_kind(data.get("kind")),
                {key: value for key, value in data.items() if key != "kind"},
            )
        every = get_type_hints(record)
        hints = {field.name: every[field.name] for field in fields(record)}
        if data.keys() != hints.keys():
            wrong = ", ".join(sorted(map(str, data.keys() ^ hints.keys())))
            raise ValueError(f"{name} has missing or unexpected fields: {in_short(wrong)}.")
        return record(**{key: self.read(hint, data[key], f"{name}'s {key}") for key, hint in hints.items()})

    def _is_number(self, data: Any) -> bool:
        if isinstance(data, int) and not isinstance(data, bool):
            return abs(data) <= sys.float_info.max
        return isinstance(data, float) and (math.isfinite(data) or not self.finite)

    def _numbers(self, data: list[Any], name: str) -> list[Any]:
        return [
            self._numbers(item, name) if isinstance(item, list) else self.read(float, item, f"{name} {place}")
            for place, item in enumerate(data)
        ]


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{key!r} names an item, but plain data are named by text.")
    return key
