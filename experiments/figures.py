"""The style of the figures of the evidence, and how they are saved: the same numbers give the same bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from minsep.report import palette


@contextmanager
def styled(grid: bool = True) -> Iterator[None]:
    """Use the colours of the report."""
    style = {
        "font.size": 10,
        "axes.edgecolor": palette.QUIET,
        "axes.labelcolor": palette.INK,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": grid,
        "axes.axisbelow": True,
        "grid.color": palette.GRID,
        "text.color": palette.INK,
        "xtick.color": palette.QUIET,
        "ytick.color": palette.QUIET,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "minsep",
    }
    with matplotlib.rc_context(style):
        yield


def saved(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, without a date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    print(f"Drew {path}.")
