"""An extension of griffe: the examples of docstrings are shown as code, with what they print."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> (?:.*\n?)(?:.+\n?)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring whose doctests are blocks of code.

    >>> fenced("Add.\\n\\n>>> 1 + 1\\n2").splitlines()
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match.group().rstrip()}\n```", text)


class Doctests(griffe.Extension):
    """Rewrites docstrings as they are read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
