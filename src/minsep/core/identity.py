"""What makes two values the same: a description in plain data, and its fingerprint."""

import hashlib
import json
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

Description = dict[str, Any]


def to_digits(value: float, digits: int) -> float:
    """Return a number rounded to significant digits.

    What is computed differs in its last bits from processor to processor. What names a mechanism must not, so it is
    rounded to a grid that is coarse beside those differences.

    >>> to_digits(0.44583721, 4), to_digits(1234.5678, 6)
    (0.4458, 1234.57)
    """
    return float(f"{value:.{digits - 1}e}")


class Described(ABC):
    """A frozen value that is equal to another exactly when their descriptions are.

    In `describe`, a subclass returns all that the accounting may depend on, as plain data that JSON represents exactly.
    """

    @abstractmethod
    def describe(self) -> Description:
        """Return the value as plain data, with its `kind` first."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the description, in hexadecimal: the same on every machine."""
        canonical = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Described):
            return NotImplemented
        return self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.fingerprint)
