"""What the accounting of a scheme takes for granted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """Something that is not proven.

    Args:
        name: A name that stays the same for ever: certificates are compared by it.
        sentence: The assumption in words, which may improve.
    """

    name: str
    sentence: str
