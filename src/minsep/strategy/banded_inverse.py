"""Toeplitz strategies whose inverse is banded: the paper's appendix on matrices C that are not banded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.strategy import optimum, series
from minsep.strategy.banded_toeplitz import sizes
from minsep.strategy.base import norm_of, read_only, recorded, rows_of
from minsep.strategy.grid import on_grid
from minsep.strategy.recurrence import MovingSum
from minsep.strategy.sensitivity import most_participations
from minsep.strategy.toeplitz import Toeplitz


@dataclass(frozen=True, eq=False, init=False)
class BandedInverseToeplitz(Toeplitz):
    """A Toeplitz strategy with C^-1 banded and C non-negative, scaled to unit column norm.

    Its noise needs only the last `inverse_bands - 1` rows of Z. C itself has `iterations` diagonals, so repeated
    participations overlap, and its accounting is an upper bound.

    Args:
        noise_coefficients: The first column of C^-1 down to its last band, up to a factor: it is scaled so that C has
            column norm 1. Its inverse must be non-negative, which always holds if all coefficients after the first are
            at most 0.
        iterations: The number of rows.

    Examples:
        >>> strategy = BandedInverseToeplitz.square_root(iterations=2000, bands=4)
        >>> (strategy.noise_coefficients / strategy.noise_coefficients[0]).round(4)
        array([ 1.    , -0.5   , -0.125 , -0.0625])
        >>> strategy.bands
        2000
    """

    kind = "banded-inverse-toeplitz"

    noise_coefficients: FloatArray
    iterations: int

    def __init__(self, noise_coefficients: ArrayLike, iterations: int) -> None:
        iterations = validate.integer(iterations=iterations, at_least=1)
        values = validate.real_array(1, noise_coefficients=noise_coefficients)
        validate.refuse_entries(
            values[:1] <= 0, "the first coefficient must be positive", noise_coefficients=values[:1]
        )
        validate.integer(inverse_bands=values.size, at_most=iterations)
        values = values / values[0] + 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            column = series.inverse_by_substitution(values, iterations)
        tiny = 1e-12 * np.abs(column).max()
        if not np.isfinite(tiny) or column.min() < -tiny:
            raise ValueError(
                f"noise_coefficients is {values[:4].tolist()}... after scaling, whose inverse has the entry "
                f"{column.min():g}, but the strategy must be non-negative: this always holds if all coefficients after "
                "the first are at most 0."
            )
        column = np.maximum(column, 0.0)
        norm = norm_of(column)
        object.__setattr__(self, "coefficients", read_only(column / norm))
        object.__setattr__(self, "noise_coefficients", read_only(values * norm))
        object.__setattr__(self, "iterations", iterations)

    @classmethod
    def from_noise_coefficients(cls, noise_coefficients: ArrayLike, *, iterations: int) -> "BandedInverseToeplitz":
        """Return the strategy whose inverse has this first column, scaled so that C has column norm 1.

        Args:
            noise_coefficients: The first column of C^-1 down to its last band, up to a factor.
            iterations: The number of rows.

        Examples:
            >>> strategy = BandedInverseToeplitz.from_noise_coefficients([1.0, -0.5], iterations=3)
            >>> (strategy.coefficients / strategy.coefficients[0]).round(3)
            array([1.  , 0.5 , 0.25])
        """
        return cls(noise_coefficients, iterations)

    @classmethod
    def square_root(cls, *, iterations: int, bands: int) -> "BandedInverseToeplitz":
        """Return the strategy whose inverse is that of the square root of prefix sums, truncated to `bands` diagonals.

        Args:
            iterations: The number of rows.
            bands: The number of diagonals of C^-1.

        Examples:
            >>> BandedInverseToeplitz.square_root(iterations=100, bands=2).inverse_bands
            2
        """
        iterations, bands = sizes(iterations, bands=bands)
        return cls(series.inverse_of_that_square_root(bands), iterations)

    @classmethod
    def optimal(
        cls, *, iterations: int, bands: int, min_sep: int | None = None, participations: int = 1
    ) -> "BandedInverseToeplitz":
        """Return the strategy of least mean squared error times squared sensitivity, without amplification.

        Relative to the first one, noise coefficients are multiples of 2^-20, so that every processor finds the same
        strategy.

        Args:
            iterations: The number of rows.
            bands: The number of diagonals of C^-1.
            min_sep: The number of iterations from one participation to the next, for the sensitivity. None is all
                iterations.
            participations: The number of participations, for the sensitivity.

        Examples:
            >>> root = BandedInverseToeplitz.square_root(iterations=100, bands=4)
            >>> best = BandedInverseToeplitz.optimal(iterations=100, bands=4)
            >>> best.mean_squared_error < root.mean_squared_error
            True
        """
        iterations, bands = sizes(iterations, bands=bands)
        separation = iterations if min_sep is None else validate.integer(min_sep=min_sep, at_least=1)
        participations = validate.integer(participations=participations, at_least=1)
        count = most_participations(iterations, separation, participations)
        return cls(on_grid(optimum.banded_inverse(iterations, bands, separation, count)), iterations)

    def prefix(self, iterations: int) -> tuple["BandedInverseToeplitz", float]:
        """Return the strategy of the first iterations, and by which norm it was divided.

        Args:
            iterations: The number of iterations of the prefix.

        Examples:
            >>> strategy = BandedInverseToeplitz.from_noise_coefficients([1.0, -0.5], iterations=4)
            >>> first, norm = strategy.prefix(2)
            >>> first, round(norm, 3)
            (BandedInverseToeplitz(iterations=2, inverse_bands=2), 0.97)
        """
        iterations = validate.integer(iterations=iterations, at_least=1, at_most=self.iterations)
        if iterations == self.iterations:
            return self, 1.0
        return (
            BandedInverseToeplitz(self.noise_coefficients[:iterations], iterations),
            norm_of(self.coefficients[:iterations]),
        )

    @property
    def inverse_bands(self) -> int:
        """Number of diagonals of C^-1."""
        return int(self.noise_coefficients.size)

    @property
    def inverse_coefficients(self) -> FloatArray:
        """First column of C^-1, `iterations` long."""
        return np.pad(self.noise_coefficients, (0, self.iterations - self.inverse_bands))

    def recurrence(self) -> MovingSum:
        """Return each row of C^-1 Z as a sum of the last `inverse_bands` rows of Z."""
        return MovingSum(self.noise_coefficients)

    def solve(self, values: ArrayLike) -> FloatArray:
        """Return C^-1 `values`, for `iterations` rows of any shape.

        Args:
            values: An array whose first dimension has one entry for each iteration.
        """
        rows = rows_of(values, self.iterations)
        result = np.zeros_like(rows)
        for lag, coefficient in enumerate(self.noise_coefficients):
            result[lag:] += coefficient * rows[: self.iterations - lag]
        return result

    def describe(self) -> Description:
        """Return the strategy as plain data."""
        return {
            "kind": self.kind,
            "iterations": self.iterations,
            "noise_coefficients": self.noise_coefficients.tolist(),
        }

    @classmethod
    def from_description(cls, description: Description) -> "BandedInverseToeplitz":
        """Return the strategy with this description, with bit-identical noise coefficients.

        Args:
            description: What `describe` returned.
        """
        strategy = cls(description["noise_coefficients"], description["iterations"])
        exact = recorded(strategy.noise_coefficients, description["noise_coefficients"])
        object.__setattr__(strategy, "noise_coefficients", exact)
        return strategy

    def __repr__(self) -> str:
        return f"BandedInverseToeplitz(iterations={self.iterations}, inverse_bands={self.inverse_bands})"
