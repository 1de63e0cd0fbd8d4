"""Plots for files, by matplotlib."""

import io
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from minsep.show import palette
from minsep.show.plots import Band, Bars, Dots, HeatMap, Line, Plot, Star

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": palette.QUIET,
    "axes.labelcolor": palette.INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": palette.GRID,
    "text.color": palette.INK,
    "xtick.color": palette.QUIET,
    "ytick.color": palette.QUIET,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "minsep",
}
_STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 14,
    "color": palette.GOLD,
    "markeredgecolor": palette.INK,
    "linestyle": "none",
    "zorder": 5,
}
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_BARS = 0.8  # of the distance between places


def draw(axes: Axes, plot: Plot, legend: Literal["best", "upper right"] = "best") -> None:
    """Draw a plot, with its legend at a place of matplotlib's."""
    beside = [layer for layer in plot.layers if isinstance(layer, Bars)]
    for layer in plot.layers:
        match layer:
            case Band(x=x, low=low, high=high):
                axes.fill_between(x, low, high, color=palette.BAND, label=layer.name)
            case Line():
                _line(axes, layer)
            case Dots(x=x, y=y, colour=colour):
                axes.plot(x, y, ".", color=colour, markersize=3, label=layer.name)
            case Star(x=place, y=height):
                axes.plot([place], [height], label=layer.name, **_STAR)
            case Bars():
                _bars(axes, layer, beside.index(layer), len(beside))
    axes.set(title=plot.title, xlabel=plot.x.title, ylabel=plot.y.title)
    if plot.x.logarithmic:
        axes.set_xscale("log")
    if plot.y.logarithmic:
        axes.set_yscale("log")
    if plot.x.ticks:
        axes.set_xticks(plot.x.ticks, [f"{tick:,}" for tick in plot.x.ticks])
        axes.set_xticks([], minor=True)
    if plot.y.limits is not None:
        axes.set_ylim(*plot.y.limits)
    if plot.has_legend:
        axes.legend(loc=legend)


def _line(axes: Axes, line: Line) -> None:
    marked: dict[str, Any] = {} if line.style is None else {"marker": line.style.marker, "markersize": 5}
    axes.plot(
        line.x,
        line.y,
        color=line.colour,
        linewidth=2,
        linestyle=_DASHES[line.dash],
        markerfacecolor="white" if line.hollow else line.colour,
        label=line.name,
        **marked,
    )


def _bars(axes: Axes, bars: Bars, number: int, beside: int) -> None:
    width = _BARS / beside
    shift = (number - (beside - 1) / 2) * width
    places = [place + shift for place in range(len(bars.heights))]
    axes.bar(places, bars.heights, width=width, color=bars.colour, label=bars.name)


def draw_heat_map(axes: Axes, plot: HeatMap) -> ScalarMappable:
    """Draw a heat map, and return what its scale of colours belongs to."""
    colours = LinearSegmentedColormap.from_list("ratios", list(palette.DIVERGING))
    image = axes.imshow(plot.logarithms, cmap=colours, vmin=-plot.limit, vmax=plot.limit, aspect="auto", origin="lower")
    for row, texts in enumerate(plot.texts):
        for column, text in enumerate(texts):
            axes.text(column, row, text, ha="center", va="center")
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    axes.set_xticks(range(len(plot.columns)), plot.columns)
    axes.set_yticks(range(len(plot.rows)), plot.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.grid(False)
    return image


def picture_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as the content of a file."""
    content = io.BytesIO()
    # Without a date, the same plan gives the same file.
    figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()
