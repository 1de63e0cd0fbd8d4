"""lambda-CGD: every row of noise takes back a part of the row before it, which is drawn again."""

import math
from dataclasses import dataclass, replace

import numpy as np

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.strategy.base import Strategy
from minsep.strategy.inverse_banded import InverseBanded
from minsep.strategy.ladder import best_rung
from minsep.strategy.recipe import Recipe, Setting
from minsep.strategy.sensitivity import most_participations
from minsep.strategy.workload import Workload

_RUNGS_PER_OCTAVE = 32
_FINENESS = 2.0**30  # the correlation is a multiple of 1 over this


@dataclass(frozen=True, eq=False, init=False)
class LambdaCGD(InverseBanded):
    """The strategy of DP-lambda-CGD: row t of the noise is z_t - lambda z_(t-1), scaled to unit column norm.

    C has the coefficients 1, lambda, lambda^2, ... over their norm, and C^-1 two bands. Nothing is stored: the row
    before is drawn again. A lambda of 0 is independent noise. (Kalinin, McKenna, Pagh and Lampert, "DP-lambda-CGD",
    arXiv 2601.22334, which also has a variant whose last columns are scaled to norm 1; this is the Toeplitz matrix.)

    Args:
        correlation: lambda, at least 0 and below 1.
        iterations: The number of rows.

    Examples:
        >>> strategy = LambdaCGD(0.5, iterations=100)
        >>> (strategy.coefficients / strategy.coefficients[0])[:4]
        array([1.   , 0.5  , 0.25 , 0.125])
        >>> strategy.noise_rows
        0
    """

    kind = "lambda-cgd"

    correlation: float

    def __init__(self, correlation: float, iterations: int) -> None:
        correlation = validate.real(correlation=correlation, at_least=0, below=1)
        iterations = validate.integer(iterations=iterations, at_least=1)
        object.__setattr__(self, "correlation", correlation)
        self._scale(np.array([1.0, -correlation][:iterations]), iterations)

    @classmethod
    def optimal(
        cls,
        *,
        iterations: int,
        min_sep: int | None = None,
        participations: int = 1,
        workload: Workload | None = None,
    ) -> "LambdaCGD":
        """Return the strategy of least mean squared error times squared sensitivity, without amplification.

        Its distance from 1 is one of 32 numbers in each power of two, so that every processor finds the same one.

        Args:
            iterations: The number of rows.
            min_sep: The number of iterations from one participation to the next, for the sensitivity. None is all
                iterations.
            participations: The number of participations, for the sensitivity.
            workload: The workload whose error counts, at a constant learning rate. None is prefix sums.

        Examples:
            >>> LambdaCGD.optimal(iterations=2000, min_sep=117, participations=18).correlation.__round__(3)
            0.965
        """
        iterations = validate.integer(iterations=iterations, at_least=1)
        separation = iterations if min_sep is None else validate.integer(min_sep=min_sep, at_least=1)
        participations = validate.integer(participations=participations, at_least=1)
        count = most_participations(iterations, separation, participations)
        judged = replace(workload or Workload(), schedule="constant")

        def rung(number: int) -> LambdaCGD:
            return cls(1 - round(2.0 ** (-number / _RUNGS_PER_OCTAVE) * _FINENESS) / _FINENESS, iterations)

        def cost(number: int) -> float:
            strategy = rung(number)
            return judged.mean_squared_error(strategy) * strategy.sensitivity(separation, count) ** 2

        octaves = min(math.ceil(math.log2(iterations)) + 2, 29)
        return rung(best_rung(cost, 0, _RUNGS_PER_OCTAVE * octaves))

    def damped(self, factor: float) -> "LambdaCGD":
        """Return the strategy with lambda times a factor, so that participations of one example overlap less.

        Args:
            factor: The factor, above 0 and at most 1.

        Examples:
            >>> LambdaCGD(0.5, iterations=100).damped(0.5)
            LambdaCGD(0.25, iterations=100)
        """
        return LambdaCGD(self.correlation * validate.real(factor=factor, above=0, at_most=1), self.iterations)

    def _first(self, iterations: int) -> "LambdaCGD":
        return LambdaCGD(self.correlation, iterations)

    @property
    def in_words(self) -> str:
        """The strategy in words.

        Examples:
            >>> LambdaCGD(0.95, iterations=100).in_words
            'lambda-CGD with lambda 0.95'
        """
        return f"lambda-CGD with lambda {self.correlation:.4g}"

    def describe(self) -> Description:
        """Return the strategy as plain data."""
        return {"kind": self.kind, "iterations": self.iterations, "correlation": self.correlation}

    @classmethod
    def from_description(cls, description: Description) -> "LambdaCGD":
        """Return the strategy with this description, bit by bit.

        Args:
            description: What `describe` returned.
        """
        return cls(description["correlation"], description["iterations"])

    def __repr__(self) -> str:
        return f"LambdaCGD({self.correlation:g}, iterations={self.iterations})"


class LambdaCGDRecipe(Recipe):
    """lambda-CGD, of which there is one size."""

    kind = LambdaCGD.kind
    words = "lambda-CGD"
    place = 10

    @classmethod
    def sizes(cls, max_bands: int) -> list[int]:
        """Return the two bands of its inverse."""
        return [2] if max_bands >= 2 else []

    @classmethod
    def strategy(cls, size: int, setting: Setting) -> LambdaCGD:
        """Return the strategy with the best lambda without amplification."""
        return LambdaCGD.optimal(
            iterations=setting.iterations,
            min_sep=setting.min_sep,
            participations=setting.participations,
            workload=setting.workload,
        )

    @classmethod
    def size_of(cls, strategy: Strategy) -> int:
        """Return 2."""
        return 2

    @classmethod
    def name(cls, size: int) -> str:
        """Return the kind."""
        return cls.words
