"""A table of measurements: ours, the peer's, their ratio, and the bar to reach."""

import subprocess
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Comparison:
    """One measurement, the smaller the better; the bar is the least ratio to a peer, or else the most of ours."""

    name: str
    ours: float
    peer: float | None = None
    bar: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.peer / self.ours

    @property
    def reached(self) -> bool | None:
        if self.bar is None:
            return None
        return self.ours <= self.bar if self.ratio is None else self.ratio >= self.bar


def peak_memory(statement: str) -> float:
    """Return the peak memory in MiB of a new process that imports minsep and runs a statement."""
    # The kernel's high-water mark; getrusage would report the parent's memory if that was larger.
    report = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    code = f"import minsep; {statement}; {report}"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return float(printed) / 1024


def print_comparisons(title: str, comparisons: list[Comparison]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("measurement")
    for heading in ("minsep", "peer", "ratio", "bar", ""):
        table.add_column(heading, justify="right")
    for row in comparisons:
        sign = "at least " if row.ratio is not None else "at most "
        table.add_row(
            row.name,
            f"{row.ours:.4g}",
            "" if row.peer is None else f"{row.peer:.4g}",
            "" if row.ratio is None else f"{row.ratio:.1f} x",
            "" if row.bar is None else f"{sign}{row.bar:g}",
            {True: "reached", False: "MISSED", None: ""}[row.reached],
        )
    Console(width=130).print(table)
