"""Banded Toeplitz strategies: the matrices of BandMF."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.strategy import optimum, series
from minsep.strategy.base import norm_of, read_only, recorded, rows_of, unit_norm
from minsep.strategy.grid import on_grid
from minsep.strategy.toeplitz import Toeplitz
from minsep.strategy.workload import Workload


@dataclass(frozen=True, eq=False, init=False)
class BandedToeplitz(Toeplitz):
    """A banded Toeplitz strategy, scaled to unit column norm.

    - Entries are non-negative and the diagonal is positive.
    - The largest column norm is 1 (the last `bands - 1` columns are shorter).
    - With `bands <= min_sep`, participations of one example affect disjoint sets of iterations.

    Args:
        coefficients: The first column of C down to its last band, up to a factor: it is scaled to norm 1. Entries are
            non-negative, and the first one is positive.
        iterations: The number of rows.

    Examples:
        >>> strategy = BandedToeplitz.optimal(iterations=2000, bands=4)
        >>> strategy.coefficients.round(3)
        array([0.569, 0.505, 0.477, 0.441])
        >>> round(strategy.mean_squared_error / BandedToeplitz.identity(iterations=2000).mean_squared_error, 3)
        0.257
    """

    kind = "banded-toeplitz"

    coefficients: FloatArray
    iterations: int

    def __init__(self, coefficients: ArrayLike, iterations: int) -> None:
        iterations = validate.integer(iterations=iterations, at_least=1)
        values = validate.real_array(1, coefficients=coefficients)
        validate.refuse_entries(values < 0, "every coefficient must be at least 0", coefficients=values)
        validate.refuse_entries(values[:1] <= 0, "the first coefficient must be positive", coefficients=values[:1])
        validate.integer(bands=values.size, at_most=iterations)
        object.__setattr__(self, "coefficients", read_only(unit_norm(values, coefficients=values)))
        object.__setattr__(self, "iterations", iterations)

    @classmethod
    def from_coefficients(cls, coefficients: ArrayLike, *, iterations: int) -> "BandedToeplitz":
        """Return the strategy with this first column, scaled to norm 1.

        Args:
            coefficients: The first column of C down to its last band, up to a factor.
            iterations: The number of rows.

        Examples:
            >>> BandedToeplitz.from_coefficients([4, 3], iterations=10).coefficients
            array([0.8, 0.6])
        """
        return cls(coefficients, iterations)

    @classmethod
    def optimal(cls, *, iterations: int, bands: int, workload: Workload | None = None) -> "BandedToeplitz":
        """Return the strategy of least mean squared error of prefix sums, without amplification.

        The paper uses it for every sampling scheme: it has the least error for a fixed number of participations at
        least `bands` iterations apart. Relative to the first one, coefficients are multiples of 2^-20, so that every
        processor finds the same strategy.

        Args:
            iterations: The number of rows.
            bands: The number of diagonals.
            workload: The workload whose error, at a constant learning rate, the strategy minimises instead.
                Coefficients that would be negative are 0. None is prefix sums.

        Examples:
            >>> BandedToeplitz.optimal(iterations=100, bands=2).coefficients.round(4)
            array([0.7956, 0.6058])
        """
        iterations, bands = sizes(iterations, bands=bands)
        column = None if workload is None or workload == Workload() else workload.coefficients(iterations)
        return cls(on_grid(np.maximum(optimum.banded_toeplitz(iterations, bands, column), 0.0)), iterations)

    @classmethod
    def square_root(cls, *, iterations: int, bands: int) -> "BandedToeplitz":
        """Return the square root of the prefix sum matrix, truncated to `bands` diagonals.

        Args:
            iterations: The number of rows.
            bands: The number of diagonals.

        Examples:
            >>> BandedToeplitz.square_root(iterations=100, bands=3).coefficients.round(4)
            array([0.848, 0.424, 0.318])
        """
        iterations, bands = sizes(iterations, bands=bands)
        return cls(series.square_root_of_prefix_sums(bands), iterations)

    @classmethod
    def identity(cls, *, iterations: int) -> "BandedToeplitz":
        """Return the identity: independent noise, as in DP-SGD.

        Args:
            iterations: The number of rows.

        Examples:
            >>> BandedToeplitz.identity(iterations=100).bands
            1
        """
        return cls([1.0], iterations)

    def shrunk(self, factor: float) -> "BandedToeplitz":
        """Return the strategy with the coefficients below the diagonal multiplied by a factor, rescaled to norm 1.

        With amplification by sampling, less correlated noise may need a multiplier so much smaller that the error
        is smaller too: see docs/planning.md.

        Args:
            factor: The factor, above 0 and at most 1.

        Examples:
            >>> BandedToeplitz.from_coefficients([4, 3], iterations=10).shrunk(0.5).coefficients.round(4)
            array([0.9363, 0.3511])
        """
        factor = validate.real(factor=factor, above=0, at_most=1)
        coefficients = self.coefficients * factor
        coefficients[0] = self.coefficients[0]
        return BandedToeplitz(on_grid(coefficients), self.iterations)

    def prefix(self, iterations: int) -> tuple["BandedToeplitz", float]:
        """Return the strategy of the first iterations, and by which norm it was divided.

        Args:
            iterations: The number of iterations of the prefix.

        Examples:
            >>> strategy = BandedToeplitz.from_coefficients([4.0, 3.0], iterations=10)
            >>> strategy.prefix(5)
            (BandedToeplitz(iterations=5, bands=2), 1.0)
            >>> strategy.prefix(1)
            (BandedToeplitz(iterations=1, bands=1), 0.8)
        """
        iterations = validate.integer(iterations=iterations, at_least=1, at_most=self.iterations)
        if iterations >= self.bands:  # the first column is whole
            return BandedToeplitz.from_description({**self.describe(), "iterations": iterations}), 1.0
        first = self.coefficients[:iterations]
        return BandedToeplitz(first, iterations), norm_of(first)

    @property
    def banded_column(self) -> FloatArray:
        """The coefficients."""
        return self.coefficients

    def solve(self, values: ArrayLike) -> FloatArray:
        """Return C^-1 `values`, for `iterations` rows of any shape.

        Args:
            values: An array whose first dimension has one entry for each iteration.

        Examples:
            >>> BandedToeplitz.from_coefficients([4, 3], iterations=3).solve([0.8, 0.6, 0.0]).round(12) + 0
            array([1., 0., 0.])
        """
        # Loaded here: it takes longer than finding a strategy, and only this needs it.
        from scipy.linalg import lapack

        rows = rows_of(values, self.iterations)
        diagonals = np.repeat(self.coefficients[:, None], self.iterations, axis=1)
        solution, _ = lapack.dtbtrs(diagonals, rows.reshape(self.iterations, -1), uplo="L")
        return np.ascontiguousarray(solution).reshape(rows.shape)

    def describe(self) -> Description:
        """Return the strategy as plain data."""
        return {
            "kind": self.kind,
            "iterations": self.iterations,
            "coefficients": self.coefficients.tolist(),
        }

    @classmethod
    def from_description(cls, description: Description) -> "BandedToeplitz":
        """Return the strategy with this description, bit by bit.

        Args:
            description: What `describe` returned.
        """
        strategy = cls(description["coefficients"], description["iterations"])
        object.__setattr__(strategy, "coefficients", recorded(strategy.coefficients, description["coefficients"]))
        return strategy

    def __repr__(self) -> str:
        return f"BandedToeplitz(iterations={self.iterations}, bands={self.bands})"


def sizes(iterations: int, **bands: int) -> tuple[int, int]:
    """Check a number of iterations and a number of bands, given as one keyword."""
    iterations = validate.integer(iterations=iterations, at_least=1)
    return iterations, validate.integer(at_least=1, at_most=iterations, **bands)
