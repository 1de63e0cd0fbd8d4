"""What a format of other people's records consists of. Every format has a file beside this one."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

from dp_accounting import DpEvent

from minsep.core.registry import Registered
from minsep.mechanism import Mechanism

Run: TypeAlias = Mechanism | DpEvent
"""One run: a mechanism where the record describes exactly one, else an event of dp_accounting."""

EXACT_NOISE = (
    "The noise is exactly as described. Other libraries add it in floating-point arithmetic, which the budget's part "
    "for rounding does not cover: that part is for runs that add noise with minsep.release."
)
"""What every record of another library takes for granted."""


class Format(ABC, Registered):
    """One kind of file that says what somebody ran with another library.

    A subclass names its `kind`, recognises its content and reads it. Content that it recognises but cannot translate
    exactly is refused in one sentence.
    """

    words: ClassVar[str]
    """What a file of this format holds, in words."""

    how: ClassVar[str]
    """The Python expression that writes such a file."""

    assumptions: ClassVar[tuple[str, ...]]
    """What the record does not show, and what is proven from it takes for granted."""

    @classmethod
    @abstractmethod
    def recognises(cls, content: Any) -> bool:
        """Whether the content of a JSON file is meant to be of this format.

        Args:
            content: What the file holds, as `json.loads` returns it.
        """

    @classmethod
    @abstractmethod
    def read(cls, content: Any) -> tuple[Run, ...]:
        """Return the runs that the content describes, at least one, or refuse it in one sentence.

        Args:
            content: What the file holds, which `recognises` recognised.
        """
