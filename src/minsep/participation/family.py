"""Schemes as people and plans choose them: how one is made from the sizes of a task, tried, called and drawn."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from minsep.attribution import AttributionGraph
from minsep.core.registry import Registered
from minsep.participation.scheme import Scheme

Colour = Literal["grey", "violet", "orange", "teal", "blue", "pale"]
Symbol = Literal["diamond", "x", "square", "triangle-up", "circle", "cross", "star"]


class Style(NamedTuple):
    """How a scheme is drawn: a colour of the palette, and a symbol."""

    colour: Colour
    symbol: Symbol


@dataclass(frozen=True)
class Sizes:
    """What a scheme is made from.

    Args:
        num_examples: The size of the dataset.
        batch_size: The expected number of examples in a batch.
        iterations: The number of steps.
        truncated: Whether batches are truncated to one size.
        user_bound: The most examples of one user.
        graph: Who the users of each example are, if that is known.

    >>> Sizes(num_examples=60_000, batch_size=512, iterations=2000).longest_separation
    117
    """

    num_examples: int
    batch_size: float
    iterations: int
    truncated: bool = False
    user_bound: int = 1
    graph: AttributionGraph | None = None

    @property
    def rate(self) -> float:
        """Expected fraction of the iterations in which an example takes part."""
        return self.batch_size / self.num_examples

    @property
    def longest_separation(self) -> int:
        """Number of whole batches in an epoch: no example can stay away for longer."""
        return int(self.num_examples / self.batch_size + 1e-9)

    @property
    def epoch(self) -> int:
        """Number of batches in an epoch, to the nearest."""
        return max(round(self.num_examples / self.batch_size), 1)


class Family(ABC, Registered):
    """One scheme with all of its separations; its file is beside that of the scheme, or is the same.

    A family is known by its `kind` on the command line, on the page and in plans. A subclass states what differs from
    these defaults: an unknown scheme that plans do not try, that protects single examples, and is no baseline.
    """

    words: ClassVar[str]
    """The scheme without its parameters, in words."""

    place: ClassVar[int] = 1000
    """Where it stands in lists."""

    style: ClassVar[Style] = Style("grey", "star")
    """How the scheme is drawn."""

    fixed_separation: ClassVar[str] = ""
    """Why nobody can choose its separation, as in "has no separation"; empty if it can be chosen."""

    is_planned: ClassVar[bool] = False
    """Whether plans try it."""

    is_offered: ClassVar[bool] = True
    """Whether people can choose it, and not only plans where it fits."""

    is_baseline: ClassVar[bool] = False
    """Whether it is what others have, and b-min-sep is compared with it."""

    covers_users: ClassVar[bool] = False
    """Whether it can protect users with several examples."""

    takes_min_sep: ClassVar[bool] = False
    """Whether a plan tries it with the separation that was requested."""

    takes_dense: ClassVar[bool] = False
    """Whether plans try it with strategies whose columns overlap."""

    an_epoch_apart: ClassVar[bool] = False
    """Whether participations are an epoch apart, whatever the task."""

    @classmethod
    @abstractmethod
    def scheme(cls, sizes: Sizes, separation: int) -> Scheme:
        """Return the scheme for single examples, or for users where it is only for them."""

    @classmethod
    @abstractmethod
    def name(cls, separation: int) -> str:
        """Return the scheme with a separation in words, whether it can be run or not."""

    @classmethod
    def bands(cls, max_bands: int) -> list[int]:
        """Return the numbers of bands that a plan tries."""
        return doubling(1, max_bands)

    @classmethod
    def separations(cls, sizes: Sizes, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the separations that a plan tries for a number of bands.

        Args:
            sizes: What the scheme is made from.
            bands: The number of bands.
            min_sep: The separation that was requested, if one was.
            epoch_is_tried: Whether another family keeps participations an epoch apart.
        """
        return [bands]


def families() -> dict[str, type[Family]]:
    """Return all families by kind, in the order of their places.

    >>> list(families())[:2]
    ['poisson', 'random-allocation']
    """
    return dict(sorted(Family.variants().items(), key=lambda item: item[1].place))


def planned() -> tuple[str, ...]:
    """Return the kinds of the families that plans try.

    >>> "cold-min-sep" in planned()
    False
    """
    return tuple(kind for kind, family in families().items() if family.is_planned)


def offered() -> tuple[str, ...]:
    """Return the kinds of the families that people can choose.

    >>> set(planned()) - set(offered())
    {'multi-attribution-min-sep'}
    """
    return tuple(kind for kind, family in families().items() if family.is_offered)


def doubling(first: int, last: int) -> list[int]:
    """Return first, 2 first, 4 first, ... below last, and last; nothing if first is above it.

    >>> doubling(3, 20)
    [3, 6, 12, 20]
    """
    values, value = [], first
    while value < last:
        values.append(value)
        value *= 2
    return [*values, last] if first <= last else []
