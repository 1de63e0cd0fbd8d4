"""Events of dp_accounting as plain data, which JSON can hold, and back."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Union, get_args, get_origin, get_type_hints

from dp_accounting import DpEvent, dp_event

from minsep.core import validation as validate
from minsep.core.validation import in_short

_CLASS, _MODULE = "class_name", "module_name"
_HERE = dp_event.__name__
_TYPES: Mapping[str, type[DpEvent]] = {
    name: value
    for name, value in vars(dp_event).items()
    if isinstance(value, type) and issubclass(value, DpEvent) and value is not DpEvent
}
_MOST_DEEP, _MOST_ITEMS, _MOST_COUNT = 50, 10_000, 2**53

_LIMITS: Mapping[str, Mapping[str, float]] = {
    "mean": {"above": 0},
    "noise_multiplier": {"at_least": 0},
    "noise_parameter": {"at_least": 0},
    "rho": {"at_least": 0},
    "sampling_probability": {"at_least": 0, "at_most": 1},
    "sampling_probs": {"at_least": 0, "at_most": 1},
    "sensitivities": {"at_least": 0},
    "shape": {"at_least": 0},
    "standard_deviation": {"at_least": 0},
    "xi": {"at_least": 0},
}
"""What real numbers may be, by the names of their fields. Whole numbers are at least 1."""


def plain_event(value: Any) -> Any:
    """Return an event, or the value of one of its fields, as plain data. An event of an unknown class is refused.

    >>> plain_event(dp_event.GaussianDpEvent(2.0))
    {'class_name': 'GaussianDpEvent', 'noise_multiplier': 2.0}
    """
    if isinstance(value, DpEvent):
        name = type(value).__name__
        if type(value) is not _TYPES.get(name):
            raise ValueError(f"event is {in_short(value)}, but it must be of a class of {_HERE}.")
        return {_CLASS: name} | {field: plain_event(getattr(value, field)) for field in get_type_hints(type(value))}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_event(item) for item in value]
    try:
        return validate.integer(number=value)
    except ValueError:
        return validate.real(number=value)


def is_named(content: Any) -> bool:
    """Whether plain data name a class, as an object or as a list does."""
    return (isinstance(content, dict) and _CLASS in content) or (
        isinstance(content, list) and bool(content) and content[0] == _HERE
    )


def read_event(content: Any, depth: int = 1) -> DpEvent:
    """Return the event that plain data stand for, or refuse them in one sentence."""
    if depth > _MOST_DEEP:
        raise ValueError(f"it has events within events more than {_MOST_DEEP} deep, which are not read.")
    if not is_named(content):
        raise ValueError(
            f"{in_short(content)} stands where an event belongs, but an event is an object with a {_CLASS} such as "
            "'GaussianDpEvent'."
        )
    name, values = _named(content)
    kind = _TYPES[validate.choice(_TYPES, **{_CLASS: name})]
    hints = get_type_hints(kind)
    fields = ", ".join(hints) or "no fields"
    if isinstance(values, list):
        if len(values) != len(hints):
            raise ValueError(f"{name} has {len(values)} values, but it must have {len(hints)}: {fields}.")
        values = dict(zip(hints, values, strict=True))
    if values.keys() != hints.keys():
        wrong = ", ".join(sorted(values.keys() ^ hints.keys()))
        raise ValueError(f"{name} has missing or unexpected fields ({in_short(wrong)}), but it must have {fields}.")
    try:
        event = kind(**{field: _value(hint, values[field], field, depth) for field, hint in hints.items()})
    except _InEventError:
        raise
    except ValueError as error:
        raise _InEventError(f"in a {name} {error}") from None
    _check(event)
    return event


def _named(content: dict[str, Any] | list[Any]) -> tuple[Any, dict[str, Any] | list[Any]]:
    """Return the name of a class, and the values of its fields, by name or in their order."""
    if isinstance(content, list):
        return content[1] if len(content) > 1 else None, content[2:]
    if content.get(_MODULE, _HERE) != _HERE:
        raise ValueError(f"{_MODULE} is {in_short(content[_MODULE])}, but it must be {_HERE!r}.")
    return content[_CLASS], {name: value for name, value in content.items() if name not in (_CLASS, _MODULE)}


class _InEventError(ValueError):
    """A refusal that names the event it is about."""


def _value(hint: Any, value: Any, field: str, depth: int) -> Any:
    """Return the value of a field, as its type hint says."""
    origin = get_origin(hint)
    if origin is Union:
        # A field is one number, or a list of numbers.
        hint = next(one for one in get_args(hint) if isinstance(value, list) is (get_origin(one) is not None))
        return _value(hint, value, field, depth)
    if origin is not None:
        if not isinstance(value, list) or not 1 <= len(value) <= _MOST_ITEMS:
            raise ValueError(f"{field} is {in_short(value)}, but it must be a list of 1 to {_MOST_ITEMS:,} items.")
        (item,) = get_args(hint)
        return [_value(item, each, field, depth) for each in value]
    if isinstance(hint, type) and issubclass(hint, DpEvent):
        return read_event(value, depth + 1)
    if hint is int:
        return validate.integer(at_least=1, at_most=_MOST_COUNT, **{field: value})
    if hint is float:
        limits: Any = _LIMITS.get(field, {})
        return validate.real(**limits, **{field: value})
    raise ValueError(f"{field} has a type that this version of minsep does not read: {in_short(hint or NoneType)}.")


def _check(event: DpEvent) -> None:
    """Refuse fields that do not fit each other, which dp_accounting would find only later, or not at all."""
    match event:
        case dp_event.MixtureOfGaussiansDpEvent():
            if len(event.sensitivities) != len(event.sampling_probs):
                raise ValueError("a MixtureOfGaussiansDpEvent must have as many sensitivities as sampling_probs.")
            if abs(sum(event.sampling_probs) - 1) > 1e-9:
                raise ValueError("the sampling_probs of a MixtureOfGaussiansDpEvent must add up to 1.")
        case dp_event.RandomizedResponseDpEvent():
            validate.real(noise_parameter=event.noise_parameter, at_least=0, at_most=1)
