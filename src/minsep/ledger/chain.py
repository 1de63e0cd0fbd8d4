"""The lines of a ledger: JSON, each with its number, the hash of the line before and its own hash."""

import hashlib
import json
from typing import Any

from minsep.core.validation import in_short

Content = dict[str, Any]

FIRST = ""
"""What stands for the hash of a line before the first one."""
_DIGITS = hashlib.sha256().digest_size * 2
_TAIL = len(', "hash": ""}') + _DIGITS
_NAMES = ("index", "previous", "hash")


class DamagedError(ValueError):
    """The refusal of a line that is not as it was written."""


def linked(content: Content, index: int, previous: str) -> tuple[bytes, str]:
    """Return a line, without its end, and its hash, which covers all of the line before it.

    >>> line, digest = linked({"note": "begun"}, 0, FIRST)
    >>> line
    b'{"index": 0, "previous": "", "note": "begun", "hash": "12275f6751dc4f37eaabdc74c32685bd9d73f632034a65cd84d7b40543c42103"}'
    >>> unlinked(line, 0, FIRST) == ({"note": "begun"}, digest)
    True
    """  # noqa: E501
    text = json.dumps({"index": index, "previous": previous, **content}, allow_nan=False)
    digest = _hash(text)
    return f'{text[:-1]}, "hash": "{digest}"}}'.encode(), digest


def unlinked(line: bytes, index: int, previous: str) -> tuple[Content, str]:
    """Return the content and the hash of a line, which must be the one with this number after the one before."""
    try:
        text, end = line[:-_TAIL].decode() + "}", line[-_TAIL:].decode()
        digest = _hash(text)
        if end != f', "hash": "{digest}"}}':
            raise DamagedError
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedError from None
    if not isinstance(content, dict) or (content.get("index"), content.get("previous")) != (index, previous):
        raise DamagedError
    return {name: value for name, value in content.items() if name not in _NAMES}, digest


def check_hash(**parameter: object) -> str:
    """Return the hash of a line, which is all of its hexadecimal digits."""
    ((name, value),) = parameter.items()
    if isinstance(value, str) and len(value) == _DIGITS and set(value.lower()) <= set("0123456789abcdef"):
        return value.lower()
    raise ValueError(
        f"{name} is {in_short(value)}, but it must be the {_DIGITS} hexadecimal digits of a hash, as `minsep ledger` "
        "prints it."
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
