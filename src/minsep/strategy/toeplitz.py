"""The base of all lower-triangular Toeplitz strategies: everything follows from the first column of C."""

from functools import cached_property

import numpy as np

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.strategy import sensitivity, series
from minsep.strategy.base import Strategy, read_only
from minsep.strategy.recurrence import BandedRecurrence, Recurrence

_ROUNDING = 1e-12
_MOST_DENSE = 10_000  # iterations of which a full matrix is made; beyond, the envelope is an upper bound as well


class Toeplitz(Strategy):
    """A Toeplitz strategy: C[i, j] = coefficients[i - j], zero beyond the last coefficient."""

    coefficients: FloatArray

    def recurrence(self) -> Recurrence:
        """Return how each row of C^-1 Z follows from the last `bands - 1` rows."""
        return BandedRecurrence(self.coefficients)

    @cached_property
    def _checked(self) -> bool:
        self._check_columns(self.coefficients[:, np.newaxis], self.coefficients[:1])
        return True

    @property
    def bands(self) -> int:
        """Number of coefficients: diagonals of C that may be non-zero."""
        return int(self.coefficients.size)

    @property
    def column(self) -> FloatArray:
        """The coefficients."""
        return self.coefficients

    @property
    def diagonal(self) -> FloatArray:
        """The first coefficient, `iterations` times."""
        return np.broadcast_to(self.coefficients[:1], self.iterations)

    @property
    def largest_row_sum(self) -> float:
        """Sum of the coefficients."""
        return float(self.coefficients.sum())

    @property
    def largest_column_sum(self) -> float:
        """Sum of the coefficients."""
        return float(self.coefficients.sum())

    @cached_property
    def column_norms(self) -> FloatArray:
        """Norm of each column; the last `bands - 1` columns are cut off at the end of the run, so they are shorter."""
        return read_only(np.sqrt(self.gram(0)))

    def gram(self, lag: int) -> FloatArray:
        """Inner products of columns `lag` apart: entry i is <c_i, c_(i - lag)>, zero for i < lag.

        Args:
            lag: The distance of the columns, of at least 0.

        Examples:
            >>> from minsep import BandedToeplitz
            >>> BandedToeplitz.from_coefficients([4.0, 3.0], iterations=4).gram(1).round(2)
            array([0.  , 0.48, 0.48, 0.48])
        """
        lag = validate.integer(lag=lag, at_least=0)
        result = np.zeros(self.iterations)
        if lag < self.bands:
            partial = np.cumsum(self.coefficients[: self.bands - lag] * self.coefficients[lag:])
            rows_left = np.arange(self.iterations - 1, -1, -1)
            result[lag:] = partial[np.minimum(rows_left, partial.size - 1)][lag:]
        return result

    @cached_property
    def inverse_coefficients(self) -> FloatArray:
        """First column of C^-1, `iterations` long."""
        return read_only(series.inverse_by_substitution(self.coefficients, self.iterations))

    @cached_property
    def prefix_variances(self) -> FloatArray:
        """Variance of each prefix sum of the noise at noise multiplier 1; the last one is the largest."""
        return read_only(np.cumsum(np.cumsum(self.inverse_coefficients) ** 2))

    @property
    def largest_inverse_row_sum(self) -> float:
        """Largest sum of the absolute values of a row of C^-1; NaN or infinite if it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.abs(self.inverse_coefficients).sum())

    @property
    def largest_inverse_row_norm(self) -> float:
        """Largest norm of a row of C^-1: that of the last row, which holds the whole first column.

        Examples:
            >>> from minsep import BandedToeplitz
            >>> BandedToeplitz.identity(iterations=10).largest_inverse_row_norm
            1.0
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.linalg.norm(self.inverse_coefficients))

    def sensitivity(self, min_sep: int, participations: int | None = None) -> float:
        """Largest norm of C x over x with ones at least `min_sep` apart, at most `participations` of them.

        Exact when `bands <= min_sep` or the coefficients do not increase; an upper bound otherwise.

        Args:
            min_sep: The number of iterations from one participation to the next, at least.
            participations: The number of participations, at most. None is as many as fit into the run.

        Examples:
            >>> from minsep import BandedToeplitz
            >>> round(BandedToeplitz.optimal(iterations=64, bands=8).sensitivity(min_sep=8, participations=4), 12)
            2.0
        """
        count = sensitivity.most_participations(self.iterations, min_sep, participations)
        if min_sep >= self.bands:
            return sensitivity.separate_columns(self.column_norms, min_sep, count)
        if self.sensitivity_is_exact(min_sep) or self.iterations > _MOST_DENSE:
            return sensitivity.non_increasing_toeplitz(self._envelope, self.iterations, min_sep, count)
        matrix = self.dense()
        return sensitivity.upper_bound(matrix.T @ matrix, min_sep, count)

    def sensitivity_is_exact(self, min_sep: int) -> bool:
        """Whether `sensitivity` at a separation is exact: no overlap, or coefficients that do not increase.

        Args:
            min_sep: The number of iterations from one participation to the next, at least.
        """
        return min_sep >= self.bands or bool((self._envelope - self.coefficients).max() <= _ROUNDING)

    @cached_property
    def _envelope(self) -> FloatArray:
        """The least non-increasing coefficients that are nowhere smaller: another C whose sensitivity is no smaller."""
        return np.maximum.accumulate(self.coefficients[::-1])[::-1]

    def dense(self) -> FloatArray:
        """Return C as a full matrix."""
        n = self.iterations
        padded = np.zeros(2 * n - 1)
        padded[n - 1 : n - 1 + self.bands] = self.coefficients
        return np.lib.stride_tricks.sliding_window_view(padded, n)[:, ::-1].copy()
