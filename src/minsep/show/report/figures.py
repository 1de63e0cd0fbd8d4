"""Interactive figures, by plotly. Colours are those of the light theme; the page adapts them to the dark one."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from minsep.paper import Comparison
from minsep.planning import Plan
from minsep.show import palette
from minsep.show.report import data

FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_CLEAR = "rgba(0,0,0,0)"
_STAR = {"symbol": "star", "size": 14, "color": palette.GOLD, "line": {"width": 1, "color": palette.INK}}


def privacy(plan: Plan) -> go.Figure:
    """Return delta over epsilon, with the certified point."""
    curve = data.curve(plan)
    shown = curve.shown
    epsilons, deltas, stderrs = curve.epsilons[shown], curve.deltas[shown], curve.stderrs[shown]
    figure = _figure("ε", "δ")
    if not curve.exact:
        low, high = np.maximum(deltas - 2 * stderrs, deltas / 100), deltas + 2 * stderrs
        figure.add_scatter(
            x=[*epsilons, *epsilons[::-1]],
            y=[*high, *low[::-1]],
            fill="toself",
            fillcolor=palette.BAND,
            line={"width": 0},
            hoverinfo="skip",
            name="± 2 standard errors",
        )
    figure.add_scatter(
        x=epsilons.tolist(),
        y=deltas.tolist(),
        customdata=stderrs.tolist(),
        mode="lines",
        line={"color": palette.BLUE, "width": 2.5},
        name="computed" if curve.exact else "estimate",
        hovertemplate="ε = %{x:.3g}<br>δ = %{y:.3g}"
        + ("<extra></extra>" if curve.exact else " ± %{customdata:.1g} (standard error)<extra>estimate</extra>"),
    )
    figure.add_scatter(
        x=[plan.task.epsilon],
        y=[plan.task.delta],
        mode="markers",
        marker=_STAR,
        name="certified" if plan.certified else "requested",
        hovertemplate="ε = %{x:g}<br>δ = %{y:g}<extra>%{fullData.name}</extra>",
    )
    figure.update_yaxes(type="log", exponentformat="power", dtick=_decades(deltas))
    return figure


def by_bands(plan: Plan, quantity: str) -> go.Figure:
    """Return the error or the noise multiplier (`quantity`) of each scheme by the number of bands."""
    all_series = data.series(plan)
    figure = _figure("bands", {"error": "error (root mean square)", "noise_multiplier": "noise multiplier"}[quantity])
    for series in all_series:
        colour, symbol, _ = palette.STYLES[series.scheme]
        figure.add_scatter(
            x=series.bands,
            y=series.errors if quantity == "error" else series.noise_multipliers,
            mode="lines+markers",
            line={"color": colour, "width": 2, "dash": "dot" if series.tuned else "solid"},
            marker={
                "symbol": symbol + ("-open" if series.tuned else ""),
                "size": 8,
                "color": colour,
            },
            customdata=[
                [c.name, c.noise_multiplier, c.error, "computed" if c.exact else "estimate"] for c in series.candidates
            ],
            hovertemplate="%{customdata[0]}<br>noise multiplier %{customdata[1]:.4g}<br>"
            "error %{customdata[2]:.4g}<extra>%{customdata[3]}</extra>",
            name=series.name,
        )
    value = plan.error if quantity == "error" else plan.mechanism.noise_multiplier
    figure.add_scatter(
        x=[plan.chosen.bands],
        y=[value],
        mode="markers",
        marker=_STAR,
        name="the plan",
        hovertemplate=f"{plan.chosen.name}<br>%{{y:.4g}}<extra>the plan</extra>",
    )
    bands = sorted({value for series in all_series for value in series.bands})
    figure.update_xaxes(type="log", tickvals=bands, ticktext=[f"{value:,}" for value in bands])
    figure.update_yaxes(rangemode="tozero" if quantity == "error" else "normal")
    return figure


def batches(plan: Plan) -> go.Figure:
    """Return the sizes of simulated batches over time."""
    batch_sizes = data.batch_sizes(plan)
    places = np.arange(1, batch_sizes.sizes.size + 1)[:: batch_sizes.every]
    figure = _figure("iteration", "examples in the batch")
    figure.add_scatter(
        x=places.tolist(),
        y=batch_sizes.sizes[:: batch_sizes.every].tolist(),
        mode="markers",
        marker={"size": 4 if places.size > 500 else 6, "color": palette.PALE},
        name="simulated",
        hovertemplate="iteration %{x:,}<br>%{y:,} examples<extra></extra>",
    )
    ends = [1, max(batch_sizes.sizes.size, 1)]
    lines = [("expected", batch_sizes.expected, palette.BLUE, "solid")]
    if batch_sizes.cut is not None:
        lines.append(("cut", float(batch_sizes.cut), palette.ORANGE, "dash"))
    for name, height, colour, dash in lines:
        figure.add_scatter(
            x=ends,
            y=[height, height],
            mode="lines",
            line={"color": colour, "width": 2, "dash": dash},
            name=name,
            hovertemplate=f"%{{y:,.6g}} examples<extra>{name}</extra>",
        )
    return figure


def strategy(plan: Plan) -> go.Figure:
    """Return the coefficients of the strategy, next to the paper's if it was tuned."""
    coefficients = data.coefficients(plan)
    figure = _figure("iterations back", "coefficient")
    if coefficients.paper is not None:
        figure.add_bar(
            x=list(range(coefficients.paper.size)),
            y=coefficients.paper.tolist(),
            marker={"color": palette.PALE},
            name="the paper's choice",
            hovertemplate="%{x} back: %{y:.4f}<extra>the paper's choice</extra>",
        )
    figure.add_bar(
        x=list(range(coefficients.chosen.size)),
        y=coefficients.chosen.tolist(),
        marker={"color": palette.BLUE},
        name="this plan" if coefficients.paper is None else "tuned to the sampling",
        hovertemplate="%{x} back: %{y:.4f}<extra>this plan</extra>",
    )
    figure.update_xaxes(dtick=max(1, -(-coefficients.chosen.size // 16)))
    figure.update_layout(bargap=0.4, bargroupgap=0.0, showlegend=coefficients.paper is not None)
    return figure


def ratio_map(comparison: Comparison, other: str, limit: float) -> go.Figure:
    """Return the heat map of the ratios to another scheme, with 1 in the middle of the colours."""
    values = data.ratios(comparison, other)
    figure = _figure("ε", "epoch length")
    figure.add_heatmap(
        x=[f"{epsilon:g}" for epsilon in comparison.epsilons],
        y=[f"{epoch:,}" for epoch in comparison.epochs],
        z=np.log2(values).tolist(),
        zmin=-limit,
        zmax=limit,
        colorscale=[[place / 4, colour] for place, colour in enumerate(palette.DIVERGING)],
        text=[[f"{value:.3f}" for value in row] for row in values],
        texttemplate="%{text}",
        textfont={"color": palette.INK},
        hovertemplate="ε = %{x}<br>epoch length %{y}<br>ratio %{text}<extra></extra>",
        xgap=2,
        ygap=2,
        colorbar=_ratio_scale(limit),
    )
    figure.update_xaxes(type="category", showgrid=False, showline=False, ticks="")
    figure.update_yaxes(type="category", showgrid=False, showline=False, ticks="")
    return figure


def _ratio_scale(limit: float) -> dict[str, Any]:
    largest = 2**limit
    inner = largest**0.5
    values = [1 / largest, 1 / inner, 1.0, inner, largest]
    return {
        "orientation": "h",
        "y": -0.22,
        "yanchor": "top",
        "thickness": 10,
        "outlinewidth": 0,
        "tickvals": [float(np.log2(value)) for value in values],
        "ticktext": [f"{value:.2f}" for value in values],
    }


def _decades(deltas: np.ndarray[Any, Any]) -> int:
    span = np.log10(deltas.max() / deltas.min()) if deltas.size else 1.0
    return max(1, int(np.ceil(span / 7)))


def _figure(x: str, y: str) -> go.Figure:
    axis = {
        "gridcolor": palette.GRID,
        "linecolor": palette.QUIET,
        "showline": True,
        "zeroline": False,
        "automargin": True,
        "ticks": "outside",
        "tickcolor": palette.QUIET,
        "tickfont": {"color": palette.QUIET},
    }
    return go.Figure(
        layout={
            "template": go.layout.Template(),
            "paper_bgcolor": _CLEAR,
            "plot_bgcolor": _CLEAR,
            "font": {"family": FONT, "size": 13, "color": palette.INK},
            "margin": {"l": 8, "r": 12, "t": 30, "b": 8},
            "hovermode": "closest",
            "showlegend": True,
            "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
            "xaxis": {**axis, "showgrid": False, "title": {"text": x, "standoff": 8}},
            "yaxis": {**axis, "showline": False, "ticks": "", "title": {"text": y, "standoff": 10}},
        }
    )
