"""The plots of a report, described for whatever draws them."""

import numpy as np

from minsep.paper.comparison import OTHERS, Comparison
from minsep.participation import families
from minsep.planning import Plan
from minsep.show import palette
from minsep.show.plots import Axis, Band, Bars, Dots, HeatMap, Layer, Line, Plot, Star
from minsep.show.report import data

_MOST_TICKS = 16


def privacy(plan: Plan) -> Plot:
    """Return delta over epsilon, with the certified point."""
    curve = data.curve(plan)
    shown = curve.shown
    epsilons, deltas, stderrs = curve.epsilons[shown], curve.deltas[shown], curve.stderrs[shown]
    band = Band(
        name="± 2 standard errors",
        x=epsilons.tolist(),
        low=np.maximum(deltas - 2 * stderrs, deltas / 100).tolist(),
        high=(deltas + 2 * stderrs).tolist(),
    )
    line = Line(
        name="computed" if curve.exact else "estimate",
        x=epsilons.tolist(),
        y=deltas.tolist(),
        colour=palette.BLUE,
        details=stderrs.tolist(),
        hover="ε = %{x:.3g}<br>δ = %{y:.3g}"
        + ("<extra></extra>" if curve.exact else " ± %{customdata:.1g} (standard error)<extra>estimate</extra>"),
    )
    star = Star(
        name="certified" if plan.certified else "requested",
        x=plan.request.epsilon,
        y=plan.request.delta,
        hover="ε = %{x:g}<br>δ = %{y:g}<extra>%{fullData.name}</extra>",
    )
    layers: list[Layer] = [line, star] if curve.exact else [band, line, star]
    return Plot("Privacy", Axis("ε"), Axis("δ", logarithmic=True), layers)


def by_bands(plan: Plan, quantity: str) -> Plot:
    """Return the error or the noise multiplier (`quantity`) of each scheme by the number of bands."""
    of_error = quantity == "error"
    all_series = data.series(plan)
    lines = [
        Line(
            name=series.name,
            x=series.bands,
            y=series.errors if of_error else series.noise_multipliers,
            colour=palette.style_of(series.scheme).colour,
            dash="dot" if series.tuned else "solid",
            style=palette.style_of(series.scheme),
            hollow=series.tuned,
            details=[
                [one.name, one.noise_multiplier, one.error, "computed" if one.exact else "estimate"]
                for one in series.candidates
            ],
            hover="%{customdata[0]}<br>noise multiplier %{customdata[1]:.4g}<br>"
            "error %{customdata[2]:.4g}<extra>%{customdata[3]}</extra>",
        )
        for series in all_series
    ]
    star = Star(
        name="the plan, certified" if plan.certified else "the plan",
        x=plan.chosen.bands,
        y=plan.error if of_error else plan.mechanism.noise_multiplier,
        hover=f"{plan.chosen.name}<br>%{{y:.4g}}<extra>%{{fullData.name}}</extra>",
    )
    higher = len(data.errors_outside(plan))
    outside = f" ({higher} above the plot)" if higher else ""
    bands = sorted({value for series in all_series for value in series.bands})
    return Plot(
        f"Error by scheme and bands{outside}" if of_error else "Noise multiplier by scheme and bands",
        Axis("bands", logarithmic=True, ticks=bands),
        Axis(
            "error (root mean square)" if of_error else "noise multiplier",
            limits=data.range_of_errors(plan) if of_error else None,
        ),
        [*lines, star] if plan.chosen.is_banded else lines,
    )


def batches(plan: Plan) -> Plot:
    """Return the sizes of simulated batches over time."""
    simulated = data.batch_sizes(plan)
    every = slice(None, None, simulated.every)
    dots = Dots(
        name="simulated",
        x=np.arange(1, simulated.sizes.size + 1)[every].tolist(),
        y=simulated.sizes[every].tolist(),
        colour=palette.PALE,
        hover="iteration %{x:,}<br>%{y:,} examples<extra></extra>",
    )
    ends = [1, max(simulated.sizes.size, 1)]
    hover = "%{y:,.6g} examples<extra>%{fullData.name}</extra>"
    lines = [Line(name="expected", x=ends, y=[simulated.expected] * 2, colour=palette.BLUE, hover=hover)]
    if simulated.cut is not None:
        cut = float(simulated.cut)
        lines.append(Line(name="cut", x=ends, y=[cut, cut], colour=palette.ORANGE, dash="dash", hover=hover))
    return Plot("Batch sizes", Axis("iteration"), Axis("examples in the batch"), [dots, *lines])


def strategy(plan: Plan) -> Plot:
    """Return the coefficients of the strategy, next to the paper's if it was tuned."""
    coefficients = data.coefficients(plan)
    hover = "%{x} back: %{y:.4f}<extra>%{fullData.name}</extra>"
    name = "this plan" if coefficients.paper is None else "tuned to the sampling"
    bars = [Bars(name=name, heights=coefficients.chosen.tolist(), colour=palette.BLUE, hover=hover)]
    if coefficients.paper is not None:
        paper = coefficients.paper.tolist()
        bars.insert(0, Bars(name="the paper's choice", heights=paper, colour=palette.PALE, hover=hover))
    size = coefficients.chosen.size
    ticks = range(0, size, max(1, -(-size // _MOST_TICKS)))
    return Plot("Coefficients of the strategy", Axis("iterations back", ticks=ticks), Axis("coefficient"), bars)


def ratios(comparison: Comparison, other: str) -> HeatMap:
    """Return the heat map of the ratios to another scheme, with 1 in the middle of the colours that all maps share."""
    values = data.ratios(comparison, other)
    return HeatMap(
        f"Against {families()[other].words}",
        "ε",
        "epoch length",
        columns=[f"{epsilon:g}" for epsilon in comparison.epsilons],
        rows=[f"{epoch:,}" for epoch in comparison.epochs],
        logarithms=np.log2(values).tolist(),
        texts=[[f"{value:.3f}" for value in row] for row in values],
        limit=data.widest(comparison, OTHERS),
        hover="ε = %{x}<br>epoch length %{y}<br>ratio %{text}<extra></extra>",
    )
