"""The formats of statements: whatever is stated, they are the same."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minsep.core.files import write_whole
from minsep.core.validation import choice
from minsep.show.statements.content import Section
from minsep.show.statements.markdown import as_markdown
from minsep.show.templates import render

SUFFIXES = {"markdown": ".md", "html": ".html", "json": ".json", "registry": ".yaml", "model-card": ".md"}
"""The formats of a statement, and how the names of their files end. The first with a suffix is its default."""


class Formatted(ABC):
    """A text of a title, a summary and sections, in every format of statements."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The first line."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The guarantee in a sentence or two."""

    @property
    @abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """All sections, in their order."""

    @abstractmethod
    def as_data(self) -> dict[str, Any]:
        """Return the statement as plain data."""

    @abstractmethod
    def to_registry(self) -> str:
        """Return an entry for the OpenDP deployments registry as YAML. What only the curator knows says TODO."""

    @abstractmethod
    def to_model_card(self) -> str:
        """Return the block of a model card for the README of a repository on Hugging Face, as Markdown."""

    def to_markdown(self) -> str:
        """Return the statement as Markdown, for a model card."""
        return as_markdown(self.title, self.summary, self.sections)

    def to_html(self) -> str:
        """Return the statement as one HTML page without scripts, to read and to print."""
        return render("statement.html", title=self.title, summary=self.summary, sections=self.sections)

    def to_json(self) -> str:
        """Return the statement as JSON, for programs."""
        return json.dumps(self.as_data(), indent=2, allow_nan=False)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the statement to a file.

        Args:
            path: The file.
            format: The format: "markdown", "html", "json", "registry" or "model-card". By default the suffix of the
                file says which: .md, .html, .json or .yaml (registry).
        """
        write_whole(path, self.text(format_of(Path(path).suffix) if format is None else format).encode())

    def text(self, format: str) -> str:
        """Return the statement in a format.

        Args:
            format: The format, as for `save`.
        """
        renderings: dict[str, Callable[[], str]] = {
            "markdown": self.to_markdown,
            "html": self.to_html,
            "json": self.to_json,
            "registry": self.to_registry,
            "model-card": self.to_model_card,
        }
        return renderings[choice(SUFFIXES, format=format)]()


def format_of(suffix: str) -> str:
    """Return the format that files with a suffix have by default.

    >>> format_of(".md"), format_of(".yaml")
    ('markdown', 'registry')
    """
    for format, its_suffix in SUFFIXES.items():
        if its_suffix == suffix:
            return format
    names = " or ".join(", ".join(dict.fromkeys(SUFFIXES.values())).rsplit(", ", 1))
    raise ValueError(f"The file of a statement ends with {suffix!r}, but it must end with {names}.")
