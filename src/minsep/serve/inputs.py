"""What a person types on the page: read as a request, within the bounds of the page, and written down as text."""

import re
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from minsep.core.question import Question, checked_text, renamed
from minsep.participation import offered
from minsep.planning import Request
from minsep.planning.request import default_of, questions

_LONGEST_NAME = 40
_PADDING = re.compile(r"(e[+-])0+(\d)")  # of exponents

FIELDS: dict[str, tuple[str, Question]] = {
    question.asked_as or field: (field, question) for field, question in questions().items() if question.page
}
"""The fields of the page by name, each with the field of a request and its question."""

_NAME_OF = {field: name for name, (field, _) in FIELDS.items()}
_LABEL_OF = {field: question.label for field, question in FIELDS.values()}


class InputError(ValueError):
    """Problems with what was typed, by field of the page."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("\n".join(problems.values()))
        self.problems = dict(problems)


def read(texts: Mapping[str, object]) -> Request:
    """Read what was typed; all problems are reported together, each with its field.

    >>> typed = {"examples": "60,000", "batch_size": "512", "iterations": "2e3", "epsilon": "4", "delta": "1e-5"}
    >>> read(typed).iterations
    2000
    """
    problems: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in FIELDS:
            name = str(name)[:_LONGEST_NAME]
            problems[name] = f"{name} is not an input of a plan: omit it."
            continue
        field, question = FIELDS[name]
        try:
            value = _value(field, question, text)
        except ValueError as error:
            problems |= by_field(str(error))
        else:
            values |= {} if value is None else {field: value}
    for name, (field, question) in FIELDS.items():
        if _is_needed(field) and field not in values and name not in problems:
            problems[name] = f"{question.label} is missing: give it."
    if problems:
        raise InputError(problems)
    try:
        return Request.of(values)
    except ValueError as error:
        raise InputError(by_field(str(error))) from None


def texts_of(request: Request) -> dict[str, str]:
    """Return what differs from the defaults, as one would type it: the address of a plan.

    >>> texts_of(Request(1000, 50, 100, 4.0, 1e-5, schemes=["poisson"]))["schemes"]
    'poisson'
    """
    values, usual = request.values, _usual()
    return {
        name: ",".join(values[field]) if question.several else as_typed(values[field])
        for name, (field, question) in FIELDS.items()
        if _is_needed(field) or values[field] != usual[field]
    }


def schemes() -> tuple[str, ...]:
    """Return the kinds of the schemes that the page offers: those that plans try and people can choose."""
    choices = FIELDS["schemes"][1].choices
    assert choices is not None
    return tuple(kind for kind in choices() if kind in offered())


def fields_as_data(example: Request) -> list[dict[str, Any]]:
    """Return the fields for the page: what each is called, what it means, and where its slider ends.

    Args:
        example: What stands in the fields that must be filled in, at first.
    """
    described = []
    for name, (field, question) in FIELDS.items():
        page = question.page
        assert page is not None
        one: dict[str, Any] = {"name": name, "label": question.label, "help": question.help}
        one |= {"default": _default(field, question, example), "more": page.more, "needed": _is_needed(field)}
        if page.slider is not None:
            one["slider"] = {key: value for key, value in vars(page.slider).items() if value}
        elif question.choices is not None and not question.several:
            one["choices"] = question.choices()
        described.append(one)
    return described


def by_field(sentences: str) -> dict[str, str]:
    """Return sentences by the field of the page that each is about, with its label; others are under an empty name.

    >>> by_field("num_examples is 0, but it must be an integer of at least 1.\\nIt cannot be planned.")
    {'examples': 'Examples is 0, but it must be an integer of at least 1.', '': 'It cannot be planned.'}
    """
    problems: dict[str, str] = {}
    for line in sentences.splitlines():
        field, sentence = renamed(line, _LABEL_OF)
        name = _NAME_OF.get(field, "")
        problems[name] = f"{problems[name]} {sentence}" if name in problems else sentence
    return problems


def as_typed(value: object) -> str:
    """Return a number as one would type it.

    >>> as_typed(512.0), as_typed(1e-5)
    ('512', '1e-5')
    """
    return _PADDING.sub(r"\1\2", f"{value:.15g}") if isinstance(value, float) else str(value)


def _value(field: str, question: Question, text: object) -> Any:
    """Return the value of a field within the bounds of the page; None if it was left empty."""
    page = question.page
    assert page is not None
    value = question.read(field, checked_text(field, text))
    if question.several and not value:
        raise ValueError(f"{field} is empty: choose at least one.")
    return None if value is None else question.check(field, value, at_least=page.least, at_most=page.most)


def _is_needed(field: str) -> bool:
    """Whether a field must be filled in."""
    return default_of(field) is MISSING


def _default(field: str, question: Question, example: Request) -> str:
    """Return what stands in a field at first: nothing where leaving it out says enough."""
    value = (example.values if _is_needed(field) else _usual())[field]
    return "" if value is None or question.several else as_typed(value)


def _usual() -> dict[str, Any]:
    """Return the values of a request of which only what is needed is given."""
    return Request(1, 1, 1, 1.0, 0.1).values
