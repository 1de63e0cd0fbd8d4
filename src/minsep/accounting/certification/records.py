"""Frozen values as plain data and back, refusing whatever is not as it must be."""

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from minsep.core.validation import in_short

Record = TypeVar("Record")


def to_plain(record: Any) -> Any:
    """Return a frozen dataclass as plain data; variants name their `kind` first."""
    if is_dataclass(record) and not isinstance(record, type):
        kind = {"kind": record.kind} if hasattr(record, "kind") else {}
        return kind | {field.name: to_plain(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, tuple):
        return [to_plain(item) for item in record]
    return record


def from_plain(record: type[Record], data: object, name: str = "The record") -> Record:
    """Return the frozen dataclass that gave plain data: every field there, of its type, finite, and no other."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{name} is {in_short(data)}, but it must be an object.")
    hints = {key: hint for key, hint in get_type_hints(record).items() if get_origin(hint) is not ClassVar}
    given = {key: value for key, value in data.items() if key != "kind" or "kind" in hints}
    if given.keys() != hints.keys():
        wrong = ", ".join(sorted(map(str, given.keys() ^ hints.keys())))
        raise ValueError(f"{name} lacks or has too much: {in_short(wrong)}.")
    return record(**{key: _read(hint, given[key], f"{name}'s {key}") for key, hint in hints.items()})


def variant_from(variants: tuple[type[Record], ...], data: object, name: str) -> Record:
    """Return the variant whose kind the data names."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    for variant in variants:
        if kind is not None and variant.kind == kind:  # type: ignore[attr-defined]
            return from_plain(variant, data, name)
    raise ValueError(f"{name} is of kind {in_short(kind)}, but known are {', '.join(v.kind for v in variants)}.")  # type: ignore[attr-defined]


def _read(hint: Any, value: Any, name: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        options = tuple(option for option in arguments if option is not type(None))
        return _read(options[0], value, name) if len(options) == 1 else variant_from(options, value, name)
    if origin is Literal and isinstance(value, str) and value in arguments:
        return value
    if origin is tuple and isinstance(value, list):
        count = len(value) if arguments[-1] is Ellipsis else len(arguments)
        if len(value) == count:
            return tuple(_read(arguments[0], item, f"{name} {place}") for place, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return value
    if is_dataclass(hint):
        return from_plain(hint, value, name)  # type: ignore[arg-type]
    if hint is float and isinstance(value, float | int) and not isinstance(value, bool) and _is_finite(value):
        return float(value)
    if hint in (int, bool) and type(value) is hint:
        return value
    if hint is str and isinstance(value, str) and value.isprintable():  # what a terminal would obey is not text
        return value
    raise ValueError(f"{name} is {in_short(value)}, which it cannot be.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False
