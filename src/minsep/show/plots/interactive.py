"""Plots for pages, by Plotly. Colours are those of the light theme; the page adapts them to the dark one."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from minsep.show import palette
from minsep.show.plots import Axis, Band, Bars, Dots, HeatMap, Layer, Line, Plot, Star

_FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_CLEAR = "rgba(0,0,0,0)"
_STAR = {"symbol": "star", "size": 14, "color": palette.GOLD, "line": {"width": 1, "color": palette.INK}}
_MANY, _MOST_TICKS = 500, 7


def drawn(plot: Plot | HeatMap) -> go.Figure:
    """Return a plot as a figure of Plotly."""
    if isinstance(plot, HeatMap):
        return _heat_map(plot)
    figure = _figure(plot.x.title, plot.y.title)
    for layer in plot.layers:
        shown = {"name": layer.name, "hovertemplate": layer.hover, "customdata": layer.details}
        figure.add_trace(_trace(layer, shown))
    figure.update_xaxes(_axis(plot.x))
    figure.update_yaxes(_axis(plot.y))
    if plot.y.logarithmic:
        figure.update_yaxes(exponentformat="power", dtick=_decades(plot))
    return figure.update_layout(showlegend=plot.has_legend)


def _trace(layer: Layer, shown: dict[str, Any]) -> Any:
    match layer:
        case Band(x=x, low=low, high=high):
            edge = {"x": [*x, *reversed(x)], "y": [*high, *reversed(low)]}
            fill = {"fill": "toself", "fillcolor": palette.BAND, "line": {"width": 0}, "hoverinfo": "skip"}
            return go.Scatter(**edge, **fill, name=layer.name)
        case Line(x=x, y=y, colour=colour, style=style):
            line = {"color": colour, "width": 2, "dash": layer.dash}
            if style is None:
                return go.Scatter(x=x, y=y, mode="lines", line=line, **shown)
            marker = {"symbol": style.symbol + ("-open" if layer.hollow else ""), "size": 8, "color": colour}
            return go.Scatter(x=x, y=y, mode="lines+markers", line=line, marker=marker, **shown)
        case Dots(x=x, y=y, colour=colour):
            marker = {"size": 4 if len(x) > _MANY else 6, "color": colour}
            return go.Scatter(x=x, y=y, mode="markers", marker=marker, **shown)
        case Star(x=place, y=height):
            return go.Scatter(x=[place], y=[height], mode="markers", marker=_STAR, **shown)
        case Bars(heights=heights, colour=colour):
            return go.Bar(x=list(range(len(heights))), y=heights, marker={"color": colour}, **shown)


def _heat_map(plot: HeatMap) -> go.Figure:
    figure = _figure(plot.x, plot.y)
    figure.add_heatmap(
        x=plot.columns,
        y=plot.rows,
        z=plot.logarithms,
        zmin=-plot.limit,
        zmax=plot.limit,
        colorscale=[[place / 4, colour] for place, colour in enumerate(palette.DIVERGING)],
        text=plot.texts,
        texttemplate="%{text}",
        textfont={"color": palette.INK},
        hovertemplate=plot.hover,
        xgap=2,
        ygap=2,
        colorbar={
            "orientation": "h",
            "y": -0.22,
            "yanchor": "top",
            "thickness": 10,
            "outlinewidth": 0,
            "tickvals": list(plot.scale.keys()),
            "ticktext": list(plot.scale.values()),
        },
    )
    figure.update_xaxes(type="category", showgrid=False, showline=False, ticks="")
    return figure.update_yaxes(type="category", showgrid=False, showline=False, ticks="")


def _axis(axis: Axis) -> dict[str, Any]:
    ticks = {"tickvals": list(axis.ticks), "ticktext": [f"{tick:,}" for tick in axis.ticks]} if axis.ticks else {}
    kind = {"type": "log"} if axis.logarithmic else {}
    limits = {} if axis.limits is None else {"range": list(axis.limits)}
    return {**kind, **ticks, **limits}


def _decades(plot: Plot) -> int:
    """Return how many powers of ten lie between ticks, so that there are few."""
    values = [value for layer in plot.layers if isinstance(layer, Line) for value in layer.y]
    span = np.log10(max(values) / min(values)) if values else 1.0
    return max(1, int(np.ceil(span / _MOST_TICKS)))


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
            "font": {"family": _FONT, "size": 13, "color": palette.INK},
            "margin": {"l": 8, "r": 12, "t": 30, "b": 8},
            "hovermode": "closest",
            "bargap": 0.4,
            "bargroupgap": 0.0,
            "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
            "xaxis": {**axis, "showgrid": False, "title": {"text": x, "standoff": 8}},
            "yaxis": {**axis, "showline": False, "ticks": "", "title": {"text": y, "standoff": 10}},
        }
    )
