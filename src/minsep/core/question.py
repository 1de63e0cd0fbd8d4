"""What a person is asked: the fields of a request, as the command line and the page ask for them."""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass
from types import MappingProxyType
from typing import Any

from minsep.core import numbers
from minsep.core import validation as validate

_LONGEST_NUMBER, _LONGEST_TEXT = 40, 200
_METADATA = "question"


@dataclass(frozen=True)
class Slider:
    """A slider of the page, on a logarithmic scale by default.

    Args:
        least: The number at its low end.
        most: The number at its high end.
        whole: Whether it stops at whole numbers.
        powers: Whether it stops at powers of two.
        linear: Whether its scale is linear.
        digits: The significant digits of the numbers that it stops at otherwise.
    """

    least: float
    most: float
    whole: bool = False
    powers: bool = False
    linear: bool = False
    digits: int | None = None


@dataclass(frozen=True)
class Page:
    """How the page asks a question.

    Args:
        slider: The slider beside the field, if the answer is a number.
        least: The lower bound on the page alone. Below it the command line is the better place.
        most: The upper bound on the page alone. Above it the command line is the better place.
        more: Whether the field is under "More options".
    """

    slider: Slider | None = None
    least: float | None = None
    most: float | None = None
    more: bool = True


@dataclass(frozen=True)
class Question:
    """What a field of a request means, and which values it may have.

    Args:
        label: Its name for people.
        help: What it means, in a sentence or two.
        group: The heading under which it stands in lists.
        asked_as: Its name on the command line and the page, where that is not the name of the field.
        whole: Whether the answer is an integer.
        at_least: The smallest number allowed.
        above: A number that the answer must exceed.
        at_most: The largest number allowed.
        below: A number that the answer must stay below.
        choices: Returns the words that the answer may be, or that each of several may be.
        several: Whether the answer is several words.
        switch: Whether the answer is yes or no.
        flags: Its names on the command line, where they do not follow from `asked_as`.
        unit: What 1 on the command line stands for.
        page: How the page asks, if it does.

    >>> Question("Batch size", "Expected number of examples in a batch.", above=0).read("batch_size", "1,024")
    1024.0
    """

    label: str
    help: str
    group: str = ""
    asked_as: str = ""
    whole: bool = False
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: Callable[[], tuple[str, ...]] | None = None
    several: bool = False
    switch: bool = False
    flags: tuple[str, ...] = ()
    unit: int = 1
    page: Page | None = None

    def check(
        self, name: str, value: Any, *, at_least: float | None = None, at_most: float | None = None, most_is: str = ""
    ) -> Any:
        """Return a value within the bounds and within those given here; refuse any other one.

        Args:
            name: The name of the value.
            value: The value.
            at_least: The smallest number allowed here.
            at_most: The largest number allowed here.
            most_is: What the largest number allowed here is, in words.

        >>> Question("Batch size", "Number of examples in a batch.", above=0).check(
        ...     "batch_size", 200, at_most=100, most_is="the number of examples"
        ... )
        Traceback (most recent call last):
        ValueError: batch_size is 200, but it must be a finite number above 0 and at most 100, the number of examples.
        """
        try:
            return self._checked(name, value, at_least, at_most)
        except ValueError as error:
            raise ValueError(str(error).removesuffix(".") + f", {most_is}." if most_is else str(error)) from None

    def _checked(self, name: str, value: Any, at_least: float | None, at_most: float | None) -> Any:
        if self.choices is not None:
            options = self.choices()
            if not self.several:
                return validate.choice(options, **{name: value})
            return tuple(validate.choice(options, **{name: one}) for one in value or ("",))
        least = max((bound for bound in (self.at_least, at_least) if bound is not None), default=None)
        most = min((bound for bound in (self.at_most, at_most) if bound is not None), default=None)
        if self.whole:
            return validate.integer(at_least=_whole(least), at_most=_whole(most), **{name: value})
        return validate.real(above=self.above, at_least=least, at_most=most, below=self.below, **{name: value})

    def read(self, name: str, text: str) -> Any:
        """Return what was typed as a value; None if the field was left empty."""
        text = text.strip()
        if self.several:
            return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not text or self.choices is not None:
            return text or None
        if len(text) > _LONGEST_NUMBER:
            begin = text[:_LONGEST_NUMBER]
            raise ValueError(
                f"{name} is {begin!r}..., but it must be a number of at most {_LONGEST_NUMBER} characters."
            )
        try:
            return numbers.count(text) if self.whole else numbers.number(text)
        except ValueError as error:
            raise ValueError(f"{name} is {error}".replace(" is not a", ", but it is not a", 1)) from None


def asked(question: Question) -> Mapping[str, Question]:
    """Return the metadata of a field that asks a question."""
    return MappingProxyType({_METADATA: question})


def question_of(one: Field[Any]) -> Question | None:
    """Return what a field asks, if it asks anything."""
    return one.metadata.get(_METADATA)


def checked_text(name: str, text: object) -> str:
    """Return what was sent as a text, refused if it is none or is too long."""
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
        raise ValueError(f"{name} must be a text of at most {_LONGEST_TEXT} characters.")
    return text


def renamed(sentence: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Return which parameter a sentence is about, and the sentence with the name that the caller knows.

    A sentence about a parameter begins with its name. One about nothing among the `names` stays as it is.

    >>> renamed("batch_size is 0, but it must be a finite number above 0.", {"batch_size": "--batch-size"})
    ('batch_size', '--batch-size is 0, but it must be a finite number above 0.')
    """
    parameter, _, _ = sentence.partition(" ")
    if parameter not in names:
        return "", sentence
    return parameter, names[parameter] + sentence.removeprefix(parameter)


def _whole(bound: float | None) -> int | None:
    return None if bound is None else int(bound)
