"""How results are printed and written."""

import json
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from minsep.core.files import check_folder, next_free
from minsep.core.install import install_command


def print_json(result: dict[str, Any]) -> None:
    """Print a result for programs."""
    print(json.dumps(result, allow_nan=False))


def say(sentences: str, *, to_error: bool = False) -> None:
    """Print sentences; in a terminal no word is broken where its lines end."""
    stream = sys.stderr if to_error else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        lines = sentences.splitlines()
        sentences = "\n".join(
            textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines
        )
    print(sentences, file=stream)


def print_table(title: str, rows: dict[str, str]) -> None:
    """Print a result for people: names on the left, values on the right."""
    table = Table(show_header=False)
    table.add_column(style="cyan")
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    _print_below(title, table)


def print_grid(title: str, headings: list[str], rows: list[list[str]]) -> None:
    """Print a table for people: the first column on the left, the others on the right."""
    table = Table()
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place == 0 else "right")
    for row in rows:
        table.add_row(*row)
    _print_below(title, table)


def _print_below(title: str, table: Table) -> None:
    console = Console()
    console.print(Text(title, style="bold"))
    console.print(table)


def print_training(lines: str) -> None:
    """Print the lines that train with a certificate, as they are, to copy; and what they need that is missing."""
    print(f"\nTrain with it, on your own data and model:\n\n{lines}", end="")
    if find_spec("torch") is None:
        print(f"\nThese lines need PyTorch, which is not installed here: {install_command('torch')}")


def report_checks(report: Path | None, plot: Path | None) -> list[Callable[[], object]]:
    """Return the checks that a report and a picture can be drawn."""
    from minsep.show.report.files import check_package, picture_format

    checks: list[Callable[[], object]] = []
    if report is not None:
        checks.append(lambda: check_package("plotly"))
    if plot is not None:
        checks += [lambda: picture_format(plot, "plot"), lambda: check_package("matplotlib")]
    return checks


DEFAULT_CERTIFICATE = Path("certificate.json")


class Files:
    """The files that a command will write: checked before its work, and written after it.

    A file that exists is refused. A file that cannot be written is reported at the end, after the result is printed: no
    work is lost to a full disk.

    Args:
        force: Whether files that exist are replaced.
        keeps_certificate: Whether a certificate that passed is kept under a name of its own where none is given.
        journal: The journal of the command, which goes on with one that exists.
        paths: The other files, by the names of their parameters.
    """

    def __init__(
        self, *, force: bool, keeps_certificate: bool = False, journal: Path | None = None, **paths: Path | None
    ) -> None:
        self._by_default = keeps_certificate and paths["output"] is None
        if self._by_default:
            paths = {**paths, "output": DEFAULT_CERTIFICATE}
        given = {**paths, "journal": journal}
        self._paths = {name: path for name, path in given.items() if path is not None}
        self._force = force
        self._problems: dict[str, str] = {}

    def checks(self) -> list[Callable[[], object]]:
        """Return the checks that each file can be written."""
        return [partial(self._check, name, path) for name, path in self._paths.items()]

    def write_certificate(self, certificate: Any) -> None:
        """Write a certificate where it was requested, or, if it passed, under the name that it has by default."""
        if self._by_default and certificate.passed:
            self._paths["output"] = next_free(DEFAULT_CERTIFICATE)
        elif self._by_default:
            del self._paths["output"]
        self.write("output", certificate.save)

    @property
    def note(self) -> str:
        """A sentence about the name of the certificate, if it is not the one that people expect."""
        if not self._by_default or self.certificate in (None, DEFAULT_CERTIFICATE):
            return ""
        return f"{DEFAULT_CERTIFICATE} exists already, so this certificate was written to {self.certificate}."

    @property
    def certificate(self) -> Path | None:
        """The file that holds the certificate, if there is one."""
        return None if "output" in self._problems else self._paths.get("output")

    def _check(self, name: str, path: Path) -> None:
        check_folder(**{name: path})
        folder = path.resolve().parent
        for other, its_path in self._paths.items():
            if other == name:
                break
            if its_path.resolve() == path.resolve():
                raise ValueError(f"{name} is {str(path)!r}, but so is {other}: each must have its own file.")
        replaces = name != "journal" and not (name == "output" and self._by_default)
        if replaces and path.exists() and not self._force:
            raise ValueError(
                f"{name} is {str(path)!r}, but that file exists: choose another name, or replace it with --force."
            )
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ValueError(
                f"{name} is {str(path)!r}, but the folder {str(folder)!r} cannot be written to: {error.strerror}."
            ) from None

    def write(self, name: str, how: Callable[[Path], object]) -> None:
        """Write one of the files if it was requested."""
        path = self._paths.get(name)
        if path is None:
            return
        try:
            how(path)
        except OSError as error:
            self._problems[name] = f"{name} is {str(path)!r}, but it could not be written: {error.strerror or error}."

    def rows(self, **words: str) -> dict[str, str]:
        """Return which files were written where, as rows of a table; `words` overrides the names of the rows."""
        words = {"output": "Written to", "report": "Report", "plot": "Picture", "journal": "Journal"} | words
        return {words[name]: str(path) for name, path in self._paths.items() if name not in self._problems}

    @property
    def failed(self) -> bool:
        """Whether something could not be written."""
        return bool(self._problems)

    def finish(self) -> None:
        """Report what could not be written."""
        if self._problems:
            raise OSError("\n".join(self._problems.values()))
