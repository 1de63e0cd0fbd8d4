"""How results are printed."""

import json
from typing import Any

from rich.console import Console
from rich.table import Table


def print_json(result: dict[str, Any]) -> None:
    """Print a result for programs."""
    print(json.dumps(result, allow_nan=False))


def print_table(title: str, rows: dict[str, str]) -> None:
    """Print a result for people: names on the left, values on the right."""
    table = Table(title=title, title_justify="left", show_header=False, title_style="bold")
    table.add_column(style="cyan")
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
