"""Pictures, by matplotlib."""

import io
import textwrap
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minsep.paper.comparison import OTHERS, Comparison
from minsep.planning import FAMILIES, Plan
from minsep.show import palette
from minsep.show.report import data

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


def plan_picture(plan: Plan, kind: str) -> bytes:
    """Return the picture of a plan: privacy, errors, batches and strategy."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 8), layout="constrained")
        axes = figure.subplots(2, 2)
        figure.suptitle(textwrap.fill(plan.statement, 125), fontsize=11.5, x=0.012, ha="left")
        _privacy(axes[0, 0], plan)
        _errors(axes[0, 1], plan)
        _batches(axes[1, 0], plan)
        _strategy(axes[1, 1], plan)
        return picture_bytes(figure, kind)


def comparison_picture(comparison: Comparison, kind: str) -> bytes:
    """Return the two heat maps of a comparison."""
    limit = data.widest(comparison, OTHERS)
    colours = LinearSegmentedColormap.from_list("ratios", list(palette.DIVERGING))
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        columns, rows = len(comparison.epsilons), len(comparison.epochs)
        figure = Figure(figsize=(max(8.0, 1.7 * columns + 1.5), max(3.2, 0.75 * rows + 1.8)), layout="constrained")
        axes = figure.subplots(1, 2)
        figure.suptitle(
            f"Mean squared error of b-min-sep divided by that of another scheme: below 1 is better\n"
            f"{comparison.iterations:,} iterations, δ = {comparison.delta:g}, at most {comparison.max_bands} bands; "
            "estimates",
            fontsize=11,
            x=0.012,
            ha="left",
        )
        for place, other in zip(axes, OTHERS, strict=True):
            values = data.ratios(comparison, other)
            image = place.imshow(np.log2(values), cmap=colours, vmin=-limit, vmax=limit, aspect="auto", origin="lower")
            for (row, column), value in np.ndenumerate(values):
                place.text(column, row, f"{value:.3f}", ha="center", va="center")
            place.set_title(f"Against {FAMILIES[other].words}")
            place.set_xticks(range(columns), [f"{epsilon:g}" for epsilon in comparison.epsilons])
            place.set_yticks(range(rows), [f"{epoch:,}" for epoch in comparison.epochs])
            place.set_xlabel("ε")
            place.set_ylabel("epoch length")
            place.tick_params(length=0)
            place.spines[:].set_visible(False)
        ticks = np.array([2**-limit, 2 ** (-limit / 2), 1.0, 2 ** (limit / 2), 2**limit])
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
        bar.set_ticks(np.log2(ticks).tolist(), labels=[f"{tick:.2f}" for tick in ticks])
        bar.outline.set_visible(False)
        return picture_bytes(figure, kind)


def _privacy(axes: Axes, plan: Plan) -> None:
    curve = data.curve(plan)
    shown = curve.shown
    epsilons, deltas, stderrs = curve.epsilons[shown], curve.deltas[shown], curve.stderrs[shown]
    if not curve.exact:
        low = np.maximum(deltas - 2 * stderrs, deltas / 100)
        axes.fill_between(epsilons, low, deltas + 2 * stderrs, color=palette.BAND, label="± 2 standard errors")
    axes.plot(epsilons, deltas, color=palette.BLUE, linewidth=2, label="computed" if curve.exact else "estimate")
    axes.plot([plan.task.epsilon], [plan.task.delta], label="certified" if plan.certified else "requested", **_STAR)
    axes.set_yscale("log")
    axes.set(title="Privacy", xlabel="ε", ylabel="δ")
    axes.legend()


def _errors(axes: Axes, plan: Plan) -> None:
    all_series = data.series(plan)
    for series in all_series:
        axes.plot(
            series.bands,
            series.errors,
            color=palette.STYLES[series.scheme].colour,
            marker=palette.STYLES[series.scheme].marker,
            markersize=5,
            linestyle=":" if series.tuned else "-",
            markerfacecolor="white" if series.tuned else palette.STYLES[series.scheme].colour,
            label=series.name,
        )
    axes.plot([plan.chosen.bands], [plan.error], label="the plan", **_STAR)
    bands = sorted({value for series in all_series for value in series.bands})
    axes.set_xscale("log", base=2)
    axes.set_xticks(bands, [f"{value:,}" for value in bands])
    axes.set_xticks([], minor=True)
    axes.set_ylim(bottom=0)
    axes.set(title="Error by scheme and bands", xlabel="bands", ylabel="error (root mean square)")
    axes.legend()


def _batches(axes: Axes, plan: Plan) -> None:
    batch_sizes = data.batch_sizes(plan)
    places = np.arange(1, batch_sizes.sizes.size + 1)[:: batch_sizes.every]
    axes.plot(places, batch_sizes.sizes[:: batch_sizes.every], ".", color=palette.PALE, markersize=3, label="simulated")
    axes.axhline(batch_sizes.expected, color=palette.BLUE, linewidth=2, label="expected")
    if batch_sizes.cut is not None:
        axes.axhline(batch_sizes.cut, color=palette.ORANGE, linewidth=2, linestyle="--", label="cut")
    axes.set(title="Batch sizes", xlabel="iteration", ylabel="examples in the batch")
    axes.legend(loc="upper right")


def _strategy(axes: Axes, plan: Plan) -> None:
    coefficients = data.coefficients(plan)
    places = np.arange(coefficients.chosen.size)
    if coefficients.paper is None:
        axes.bar(places, coefficients.chosen, color=palette.BLUE)
    else:
        axes.bar(places - 0.2, coefficients.paper, width=0.4, color=palette.PALE, label="the paper's choice")
        axes.bar(places + 0.2, coefficients.chosen, width=0.4, color=palette.BLUE, label="tuned to the sampling")
        axes.legend()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(title="Coefficients of the strategy", xlabel="iterations back", ylabel="coefficient")


def picture_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as the content of a file."""
    content = io.BytesIO()
    # Without a date, the same plan gives the same file.
    figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()
