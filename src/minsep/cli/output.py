"""How results are printed and written."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(result: dict[str, Any]) -> None:
    """Print a result for programs."""
    print(json.dumps(result, allow_nan=False))


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


def save(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def check_writable(**paths: Path | None) -> None:
    """Refuse a path whose folder does not exist, before any work is done for it."""
    for name, path in paths.items():
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"{name} is {str(path)!r}, but the folder {str(path.absolute().parent)!r} does not exist.")
