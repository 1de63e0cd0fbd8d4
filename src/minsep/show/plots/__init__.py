"""What a plot shows, as data: `interactive` draws it by Plotly for pages, `pictures` by matplotlib for files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from minsep.show.palette import Style


@dataclass(frozen=True)
class Axis:
    """An axis: its title, where its ticks are if that is not left to who draws, and from where to where it goes."""

    title: str
    logarithmic: bool = False
    ticks: Sequence[int] = ()
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class _Named:
    """Something with a name in the legend. `hover` is a template of Plotly, which may show `details` of each point."""

    name: str
    hover: str = ""
    details: Sequence[Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Line(_Named):
    """Points joined by a line, each with a marker if there is a `style`."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dash: Literal["solid", "dash", "dot"] = "solid"
    style: Style | None = None
    hollow: bool = False


@dataclass(frozen=True, kw_only=True)
class Dots(_Named):
    """Small points."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str


@dataclass(frozen=True, kw_only=True)
class Star(_Named):
    """The point that matters."""

    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Band(_Named):
    """The area between two curves."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Bars(_Named):
    """A bar at each place from 0 on; those of several layers stand side by side."""

    heights: Sequence[float]
    colour: str


Layer = Line | Dots | Star | Band | Bars


@dataclass(frozen=True)
class Plot:
    """Layers over two axes, the first at the back."""

    title: str
    x: Axis
    y: Axis
    layers: Sequence[Layer]

    @property
    def has_legend(self) -> bool:
        """Whether there is more than one name."""
        return len(self.layers) > 1


@dataclass(frozen=True)
class HeatMap:
    """A number for each row and column, coloured by its base-2 logarithm, from `-limit` to `limit`."""

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    logarithms: Sequence[Sequence[float]]
    texts: Sequence[Sequence[str]]
    limit: float
    hover: str

    @property
    def scale(self) -> dict[float, str]:
        """Ticks of the scale of colours, each a logarithm with its number."""
        places = [self.limit * part for part in (-1.0, -0.5, 0.0, 0.5, 1.0)]
        return {place: f"{2**place:.2f}" for place in places}
