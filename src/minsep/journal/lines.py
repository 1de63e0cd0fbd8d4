"""The lines of a journal: JSON, each sealed with a checksum of itself and of all lines before it."""

import hashlib
import json
from typing import Any

Entry = dict[str, Any]

FIRST = ""
"""What stands for the seal before the first line."""
_DIGITS = 16


class DamagedError(ValueError):
    """The refusal of a line that is not as it was written."""


def sealed(entry: Entry, before: str) -> tuple[bytes, str]:
    """Return an entry as a line after another one with the seal `before`, and the line's own seal.

    >>> line, seal = sealed({"note": "begun"}, FIRST)
    >>> line
    b'{"note": "begun", "seal": "0f227b7f32c78e04"}\\n'
    >>> unsealed(line, FIRST) == ({"note": "begun"}, seal)
    True
    """
    text = json.dumps(entry)
    seal = _seal(text, before)
    return f'{text[:-1]}, "seal": "{seal}"}}\n'.encode(), seal


def unsealed(line: bytes, before: str) -> tuple[Entry, str]:
    """Return the entry of a line after another one with the seal `before`, and the line's own seal."""
    tail = len(f', "seal": "{"0" * _DIGITS}"}}\n')
    try:
        text, end = line[:-tail].decode() + "}", line[-tail:].decode()
        seal = _seal(text, before)
        if end != f', "seal": "{seal}"}}\n':
            raise DamagedError
        entry: Entry = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedError from None
    return entry, seal


def _seal(text: str, before: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()[:_DIGITS]
