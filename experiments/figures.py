"""The style of the figures of the evidence, and how they are saved: the same numbers give the same bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from minsep.show.plots.pictures import STYLE


@contextmanager
def styled(grid: bool = True) -> Iterator[None]:
    """Use the colours of the report."""
    others = {"axes.grid": grid, "axes.grid.axis": "both", "legend.fontsize": "medium", "svg.fonttype": "none"}
    with matplotlib.rc_context({**STYLE, **others}):
        yield


def saved(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, without a date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    print(f"Drew {path}.")
