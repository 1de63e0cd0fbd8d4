"""Pictures of plans and comparisons: their plots side by side, under what they are about."""

import textwrap

import matplotlib
from matplotlib.figure import Figure

from minsep.paper.comparison import OTHERS, Comparison
from minsep.planning import Plan
from minsep.show.plots.pictures import STYLE, draw, draw_heat_map, picture_bytes
from minsep.show.report import data, figures


def plan_picture(plan: Plan, kind: str) -> bytes:
    """Return the picture of a plan: privacy, errors, batches and strategy."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 8), layout="constrained")
        axes = figure.subplots(2, 2)
        figure.suptitle(textwrap.fill(plan.statement, 125), fontsize=11.5, x=0.012, ha="left")
        draw(axes[0, 0], figures.privacy(plan))
        draw(axes[0, 1], figures.by_bands(plan, "error"))
        draw(axes[1, 0], figures.batches(plan), legend="upper right")
        draw(axes[1, 1], figures.strategy(plan))
        return picture_bytes(figure, kind)


def comparison_picture(comparison: Comparison, kind: str) -> bytes:
    """Return the two heat maps of a comparison."""
    columns, rows = len(comparison.epsilons), len(comparison.epochs)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(max(8.0, 1.7 * columns + 1.5), max(3.2, 0.75 * rows + 1.8)), layout="constrained")
        axes = figure.subplots(1, 2)
        figure.suptitle(
            "Mean squared error of b-min-sep divided by that of another scheme: below 1 is better\n"
            f"{comparison.iterations:,} iterations, δ = {comparison.delta:g}, at most {comparison.max_bands} bands\n"
            f"{data.certainty(comparison)}",
            fontsize=11,
            x=0.012,
            ha="left",
        )
        for place, other in zip(axes, OTHERS, strict=True):
            heat_map = figures.ratios(comparison, other)
            image = draw_heat_map(place, heat_map)
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
        bar.set_ticks(list(heat_map.scale.keys()), labels=list(heat_map.scale.values()))
        bar.outline.set_visible(False)
        return picture_bytes(figure, kind)
