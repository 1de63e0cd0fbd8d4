"""The base of Toeplitz strategies whose inverse is banded: their noise is a moving sum of rows that are drawn again."""

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.strategy import series
from minsep.strategy.base import norm_of, read_only, rows_of
from minsep.strategy.dampable import Dampable
from minsep.strategy.recurrence import MovingSum


class InverseBanded(Dampable):
    """A Toeplitz strategy with C^-1 banded and C non-negative, scaled to unit column norm.

    Its noise needs only the last `inverse_bands` rows of Z, which are drawn again, so that nothing is stored. C itself
    has `iterations` diagonals, so repeated participations overlap.
    """

    noise_coefficients: FloatArray
    iterations: int

    def _scale(self, values: FloatArray, iterations: int) -> None:
        """Keep the first column of C^-1 down to its last band, scaled so that C has column norm 1.

        Args:
            values: The first column of C^-1 up to a factor, the first entry positive.
            iterations: The number of rows.
        """
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

    @abstractmethod
    def _first(self, iterations: int) -> "InverseBanded":
        """Return the strategy of the same kind with fewer rows."""

    def prefix(self, iterations: int) -> tuple["InverseBanded", float]:
        """Return the strategy of the first iterations, and by which norm it was divided.

        Args:
            iterations: The number of iterations of the prefix.

        Examples:
            >>> from minsep import BandedInverseToeplitz
            >>> strategy = BandedInverseToeplitz.from_noise_coefficients([1.0, -0.5], iterations=4)
            >>> first, norm = strategy.prefix(2)
            >>> first, round(norm, 3)
            (BandedInverseToeplitz(iterations=2, inverse_bands=2), 0.97)
        """
        iterations = validate.integer(iterations=iterations, at_least=1, at_most=self.iterations)
        if iterations == self.iterations:
            return self, 1.0
        return self._first(iterations), norm_of(self.coefficients[:iterations])

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


def powers(factor: float, count: int) -> FloatArray:
    """Return 1, factor, factor^2, ..., by one product each: the same bits on every processor.

    >>> powers(0.5, 4)
    array([1.   , 0.5  , 0.25 , 0.125])
    """
    return np.cumprod(np.concatenate([[1.0], np.full(max(count - 1, 0), factor)]))[:count]
