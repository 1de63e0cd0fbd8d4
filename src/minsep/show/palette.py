"""Colours of the figures in the light theme, and their counterparts in the dark theme."""

from typing import NamedTuple

from minsep.participation import families

INK, QUIET, GRID = "#1c2430", "#5a6473", "#dfe3e8"
BLUE, ORANGE, TEAL, GREY, VIOLET = "#2458c6", "#b4500f", "#0f7a63", "#6b7280", "#7d3c98"
BAND, PALE, GOLD = "#d6e2f8", "#7396d9", "#e0a100"
# From far below 1, through 1 in the middle, to far above 1: blue is better. Dark text is legible on all of them.
DIVERGING = ("#6c98e8", "#b3caf3", "#f4f4f2", "#f3caa8", "#e48f50")

NIGHT = {
    INK: "#e8ebf0",
    QUIET: "#a2abb9",
    GRID: "#2b333f",
    BLUE: "#82aaff",
    ORANGE: "#f2a067",
    TEAL: "#5ccbad",
    GREY: "#9aa3b2",
    VIOLET: "#c9a0e8",
    BAND: "#22345a",
    PALE: "#5b79b8",
    GOLD: "#ffcf4d",
    DIVERGING[0]: "#2f5cb5",
    DIVERGING[1]: "#253f6e",
    DIVERGING[2]: "#1d232c",
    DIVERGING[3]: "#603a20",
    DIVERGING[4]: "#9a5317",
}


class Style(NamedTuple):
    """How a scheme is drawn: its colour, Plotly's symbol and Matplotlib's marker."""

    colour: str
    symbol: str
    marker: str


_COLOURS = {"grey": GREY, "violet": VIOLET, "orange": ORANGE, "teal": TEAL, "blue": BLUE, "pale": PALE}
_MARKERS = {
    "diamond": "D",
    "x": "X",
    "square": "s",
    "triangle-up": "^",
    "circle": "o",
    "cross": "P",
    "star": "*",
}


def style_of(scheme: str) -> Style:
    """Return how a kind of scheme is drawn.

    >>> style_of("cyclic-poisson")
    Style(colour='#b4500f', symbol='square', marker='s')
    """
    colour, symbol = families()[scheme].style
    return Style(_COLOURS[colour], symbol, _MARKERS[symbol])
