"""Pages and pictures draw the same plots: whoever draws them leaves nothing out."""

from collections.abc import Callable
from functools import partial

import pytest
from matplotlib.figure import Figure

from minsep.paper import Comparison
from minsep.planning import Plan
from minsep.show.plots import Axis, Band, Bars, Dots, Line, Plot, Star
from minsep.show.plots.interactive import drawn
from minsep.show.plots.pictures import draw, draw_heat_map
from minsep.show.report import figures

OF_A_PLAN: list[Callable[[Plan], Plot]] = [
    figures.privacy,
    partial(figures.by_bands, quantity="error"),
    partial(figures.by_bands, quantity="noise_multiplier"),
    figures.batches,
    figures.strategy,
]


def names(plot: Plot) -> list[str]:
    return [layer.name for layer in plot.layers]


@pytest.mark.parametrize("describe", OF_A_PLAN)
def test_pages_and_pictures_have_the_same_names_and_axes(plan: Plan, describe: Callable[[Plan], Plot]) -> None:
    plot = describe(plan)
    page, axes = drawn(plot), Figure().subplots()
    draw(axes, plot)
    assert [trace.name for trace in page.data] == names(plot)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == names(plot)
    titles = (plot.x.title, plot.y.title)
    assert (page.layout.xaxis.title.text, page.layout.yaxis.title.text) == titles
    assert (axes.get_xlabel(), axes.get_ylabel()) == titles
    scales = ["log" if axis.logarithmic else "linear" for axis in (plot.x, plot.y)]
    assert [page.layout.xaxis.type or "linear", page.layout.yaxis.type or "linear"] == scales
    assert [axes.get_xscale(), axes.get_yscale()] == scales
    if plot.x.ticks:
        assert list(page.layout.xaxis.tickvals) == list(plot.x.ticks) == axes.get_xticks().tolist()


def test_every_layer_is_drawn_where_it_is() -> None:
    layers = [
        Band(name="band", x=[1, 2], low=[1, 2], high=[3, 4]),
        Line(name="line", x=[1, 2], y=[2, 3], colour="#000000"),
        Dots(name="dots", x=[1, 2, 3], y=[3, 2, 1], colour="#000000"),
        Star(name="star", x=2, y=3),
        Bars(name="left", heights=[4, 5], colour="#000000"),
        Bars(name="right", heights=[6, 7], colour="#000000"),
    ]
    plot = Plot("All", Axis("x"), Axis("y", limits=(1.0, 9.0)), layers)
    band, line, dots, star, left, right = drawn(plot).data
    assert (list(band.x), list(band.y)) == ([1, 2, 2, 1], [3, 4, 2, 1])
    assert (list(line.y), list(dots.y), list(star.y)) == ([2, 3], [3, 2, 1], [3])
    assert (list(left.y), list(right.y)) == ([4, 5], [6, 7])

    axes = Figure().subplots()
    draw(axes, plot)
    assert [found.get_ydata().tolist() for found in axes.lines] == [[2, 3], [3, 2, 1], [3]]
    assert len(axes.collections) == 1
    bars = [(round(bar.get_x(), 6), bar.get_height()) for bar in axes.patches]
    assert bars == [(-0.4, 4), (0.6, 5), (0.0, 6), (1.0, 7)]
    assert axes.get_ylim() == drawn(plot).layout.yaxis.range == (1, 9)


def test_a_single_name_needs_no_legend() -> None:
    plot = Plot("One", Axis("x"), Axis("y"), [Bars(name="only", heights=[1.0], colour="#000000")])
    axes = Figure().subplots()
    draw(axes, plot)
    assert axes.get_legend() is None
    assert drawn(plot).layout.showlegend is False


def test_heat_maps_have_the_same_numbers(comparison: Comparison) -> None:
    plot = figures.ratios(comparison, "cyclic-poisson")
    page, axes = drawn(plot), Figure().subplots()
    draw_heat_map(axes, plot)
    assert [list(row) for row in page.data[0].text] == plot.texts
    assert [text.get_text() for text in axes.texts] == [text for row in plot.texts for text in row]
    assert axes.get_title() == "Against cyclic Poisson"
    assert list(plot.scale.values()) == ["0.25", "0.50", "1.00", "2.00", "4.00"]
