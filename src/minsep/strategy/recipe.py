"""Strategies with little memory as plans try them: in which sizes, for which participations, and how damped."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from minsep.core.registry import Registered
from minsep.strategy.base import Strategy
from minsep.strategy.dampable import Dampable
from minsep.strategy.workload import Workload


@dataclass(frozen=True)
class Setting:
    """What a strategy is made for.

    Args:
        iterations: The number of rows.
        min_sep: The number of iterations from one participation of an example to the next.
        participations: The number of participations of an example, at most.
        workload: The workload whose error counts.
    """

    iterations: int
    min_sep: int
    participations: int
    workload: Workload


class Recipe(ABC, Registered):
    """One kind of strategies whose C is dense and whose noise needs little memory, in all of its sizes.

    Its file is that of the strategy, and its `kind` that of the strategy.
    """

    words: ClassVar[str]
    """The kind of strategies, in words."""

    place: ClassVar[int]
    """Where it stands in lists."""

    @classmethod
    @abstractmethod
    def sizes(cls, max_bands: int) -> list[int]:
        """Return the sizes that a plan tries: numbers of bands of C^-1, or of buffers.

        Args:
            max_bands: The most bands that were requested.
        """

    @classmethod
    @abstractmethod
    def strategy(cls, size: int, setting: Setting) -> Dampable | None:
        """Return the best strategy of a size without amplification; None if a smaller one is as good."""

    @classmethod
    @abstractmethod
    def size_of(cls, strategy: Strategy) -> int:
        """Return the size of a strategy of this kind."""

    @classmethod
    @abstractmethod
    def name(cls, size: int) -> str:
        """Return the kind with a size, in words."""

    @classmethod
    def noise_bytes(cls, size: int) -> int:
        """Return how many bytes of noise a size keeps for each parameter: none where rows are drawn again."""
        return 0

    @classmethod
    def drawn_rows(cls, size: int) -> int:
        """Return how many rows of normals a size draws in each step: one for each band of C^-1."""
        return size


def recipes() -> dict[str, type[Recipe]]:
    """Return all recipes by the kind of their strategies, in the order of their places.

    >>> list(recipes())
    ['lambda-cgd', 'gamma-bifr', 'banded-inverse-toeplitz', 'buffered-toeplitz']
    """
    return dict(sorted(Recipe.variants().items(), key=lambda item: item[1].place))


def doubling_bands(max_bands: int) -> list[int]:
    """Return numbers of bands of C^-1: each is drawn again in every step, so there are few.

    >>> doubling_bands(64), doubling_bands(8), doubling_bands(3)
    ([4, 8, 16, 32], [4, 8], [])
    """
    return [bands for bands in (4, 8, 16, 32) if bands <= max_bands]
