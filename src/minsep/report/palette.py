"""Colours of the figures: by day, and what each becomes by night."""

INK, QUIET, GRID = "#1c2430", "#5a6473", "#dfe3e8"
BLUE, ORANGE, TEAL, GREY = "#2458c6", "#b4500f", "#0f7a63", "#6b7280"
BAND, PALE, GOLD = "#d6e2f8", "#7396d9", "#e0a100"
# Below 1, 1, above 1: blue is better.
DIVERGING = ("#1b4fae", "#8fb1e6", "#f4f4f2", "#eeb184", "#b4500f")

NIGHT = {
    INK: "#e8ebf0",
    QUIET: "#a2abb9",
    GRID: "#2b333f",
    BLUE: "#82aaff",
    ORANGE: "#f2a067",
    TEAL: "#5ccbad",
    GREY: "#9aa3b2",
    BAND: "#22345a",
    PALE: "#5b79b8",
    GOLD: "#ffcf4d",
    "#1b4fae": "#7fabff",
    "#8fb1e6": "#3b5fa3",
    "#f4f4f2": "#1d232c",
    "#eeb184": "#94521f",
}

SCHEMES = {"poisson": GREY, "cyclic-poisson": ORANGE, "balls-in-bins": TEAL, "min-sep": BLUE}
