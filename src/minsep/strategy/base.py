"""What every strategy matrix answers, from its full matrix unless it knows better."""

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Described, Description
from minsep.core.registry import Registered
from minsep.strategy import sensitivity
from minsep.strategy.recurrence import FullRecurrence, Recurrence

_ROUGHLY = 1e-9  # relative; far above the rounding errors of a norm


class Strategy(Described, Registered):
    """A lower-triangular, non-negative matrix C of `iterations` rows whose largest column norm is 1.

    The mechanism adds row i of C^-1 Z to the i-th sum of gradients, where Z has independent normal entries whose
    standard deviation is the noise multiplier (times the clip norm). A strategy is public and immutable. A subclass
    that names its `kind` can be read from its description.

    Everything follows from the full matrix, which suits short runs. A subclass overrides what it knows in closed form.
    """

    iterations: int

    @abstractmethod
    def dense(self) -> FloatArray:
        """Return C as a full matrix."""

    @abstractmethod
    def describe(self) -> Description:
        """Return the strategy as plain data."""

    @classmethod
    @abstractmethod
    def from_description(cls, description: Description) -> "Strategy":
        """Return the strategy with this description, bit by bit.

        Args:
            description: What `describe` returned.
        """

    def check(self) -> None:
        """Refuse a matrix that is not lower-triangular and non-negative with a largest column norm of 1."""
        _ = self._checked

    @cached_property
    def _checked(self) -> bool:
        matrix = self._matrix
        if matrix.shape != (self.iterations, self.iterations) or np.triu(matrix, 1).any():
            raise ValueError(f"strategy is {self!r}, but its matrix must be square and lower-triangular.")
        self._check_columns(matrix, np.diag(matrix))
        return True

    def _check_columns(self, columns: FloatArray, diagonal: FloatArray) -> None:
        if not (np.isfinite(columns).all() and columns.min() >= 0 and diagonal.min() > 0):
            raise ValueError(
                f"strategy is {self!r}, but its matrix must be non-negative, with a positive diagonal: the accounting "
                "holds for no other."
            )
        largest = float(np.linalg.norm(columns, axis=0).max())
        if abs(largest - 1) > _ROUGHLY:
            raise ValueError(f"strategy is {self!r}, but its largest column norm is {largest:.6g}, and must be 1.")

    @property
    def column(self) -> FloatArray | None:
        """First column of C down to its last band, if C is Toeplitz; None otherwise."""
        return None

    @property
    def banded_column(self) -> FloatArray | None:
        """The same column if the strategy is given by it, so that it is not itself computed; None otherwise."""
        return None

    @property
    def inverse_coefficients(self) -> FloatArray | None:
        """First column of C^-1, `iterations` long, if C is Toeplitz; None otherwise."""
        return None

    def recurrence(self) -> Recurrence:
        """Return how each row of C^-1 Z follows from earlier ones, by which noise is made."""
        return FullRecurrence(self._matrix)

    @property
    def noise_rows(self) -> int:
        """Number of rows of past noise that a run keeps in memory; what a run draws again is not kept.

        Examples:
            >>> from minsep import BandedInverseToeplitz, BandedToeplitz
            >>> BandedToeplitz.optimal(iterations=100, bands=8).noise_rows
            7
            >>> BandedInverseToeplitz.optimal(iterations=100, bands=8).noise_rows
            0
        """
        return self.recurrence().noise_rows

    @property
    def noise_bytes(self) -> int:
        """Bytes of past noise that a run keeps in memory for each parameter of the model."""
        return self.recurrence().noise_bytes

    @property
    def drawn_rows(self) -> int:
        """Number of rows of normals that a run draws in each step: its compute, where rows are drawn again."""
        return self.recurrence().drawn_rows

    @property
    def in_words(self) -> str:
        """The strategy in words.

        Examples:
            >>> from minsep import BandedToeplitz
            >>> BandedToeplitz.optimal(iterations=100, bands=8).in_words
            '8 bands'
        """
        return f"{self.bands} band{'s' if self.bands > 1 else ''}"

    @cached_property
    def bands(self) -> int:
        """Number of diagonals of C, from the main one down, beyond which all entries are zero."""
        rows, columns = np.nonzero(self._matrix)
        return int((rows - columns).max()) + 1

    @property
    def diagonal(self) -> FloatArray:
        """Entries of C on its diagonal: a row of C^-1 Z has at least the noise that they divide."""
        return np.diag(self._matrix)

    @property
    def largest_row_sum(self) -> float:
        """Largest sum of a row of C."""
        return float(self._matrix.sum(axis=1).max())

    @property
    def largest_column_sum(self) -> float:
        """Largest sum of a column of C."""
        return float(self._matrix.sum(axis=0).max())

    @cached_property
    def column_norms(self) -> FloatArray:
        """Euclidean norm of each column of C, cut off at the end of the run."""
        return read_only(np.linalg.norm(self._matrix, axis=0))

    def gram(self, lag: int) -> FloatArray:
        """Inner products of columns `lag` apart: entry i is <c_i, c_(i - lag)>, zero for i < lag.

        Args:
            lag: The distance of the columns, of at least 0.
        """
        lag = validate.integer(lag=lag, at_least=0)
        result = np.zeros(self.iterations)
        if lag < self.iterations:
            later, earlier = self._matrix[:, lag:], self._matrix[:, : self.iterations - lag]
            result[lag:] = np.einsum("ij,ij->j", later, earlier)
        return result

    def prefix(self, iterations: int) -> tuple["Strategy", float]:
        """Return the strategy of the first iterations, and by which norm it was divided.

        Its matrix is the leading block of C, scaled to a largest column norm of 1. C is lower-triangular, so the first
        rows of C^-1 Z are those of the inverse of the block.

        Args:
            iterations: The number of iterations of the prefix.
        """
        raise ValueError(f"strategy is {self!r}, but minsep does not know the leading block of such a strategy.")

    def solve(self, values: ArrayLike) -> FloatArray:
        """Return C^-1 `values`, for `iterations` rows of any shape.

        Args:
            values: An array whose first dimension has one entry for each iteration.
        """
        # Loaded here: it takes longer than finding a strategy, and only this needs it.
        from scipy.linalg import solve_triangular

        rows = rows_of(values, self.iterations)
        flat = rows.reshape(self.iterations, -1)
        return np.asarray(solve_triangular(self._matrix, flat, lower=True)).reshape(rows.shape)

    @cached_property
    def prefix_variances(self) -> FloatArray:
        """Variance of each prefix sum of the noise at noise multiplier 1: squared row norms of A C^-1."""
        return read_only((np.cumsum(self._inverse, axis=0) ** 2).sum(axis=1))

    @property
    def mean_squared_error(self) -> float:
        """Mean variance of the prefix sums of the noise, at noise multiplier 1."""
        return float(self.prefix_variances.mean())

    @property
    def max_squared_error(self) -> float:
        """Largest variance of a prefix sum of the noise, at noise multiplier 1."""
        return float(self.prefix_variances.max())

    @property
    def largest_inverse_row_sum(self) -> float:
        """Largest sum of the absolute values of a row of C^-1; NaN or infinite if it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.abs(self._inverse).sum(axis=1).max())

    @property
    def largest_inverse_row_norm(self) -> float:
        """Largest norm of a row of C^-1: the noise of a single step at noise multiplier 1."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.linalg.norm(self._inverse, axis=1).max())

    def sensitivity(self, min_sep: int, participations: int | None = None) -> float:
        """Largest norm of C x over 0/1 vectors x with ones at least `min_sep` apart, at most `participations` of them.

        Exact where that can be computed (columns that do not overlap, or Toeplitz with non-increasing coefficients),
        otherwise an upper bound.

        Args:
            min_sep: The number of iterations from one participation to the next, at least.
            participations: The number of participations, at most. None is as many as fit into the run.

        Examples:
            >>> from minsep import Dense
            >>> round(Dense([[4.0, 0.0], [3.0, 4.0]]).sensitivity(min_sep=1), 3)
            1.612
        """
        count = sensitivity.most_participations(self.iterations, min_sep, participations)
        if min_sep >= self.bands:
            return sensitivity.separate_columns(self.column_norms, min_sep, count)
        return sensitivity.upper_bound(self._matrix.T @ self._matrix, min_sep, count)

    def sensitivity_is_exact(self, min_sep: int) -> bool:
        """Whether `sensitivity` at a separation is exact, and not an upper bound.

        Args:
            min_sep: The number of iterations from one participation to the next, at least.
        """
        return min_sep >= self.bands

    @cached_property
    def _matrix(self) -> FloatArray:
        return read_only(self.dense())

    @cached_property
    def _inverse(self) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return read_only(self.solve(np.eye(self.iterations)))


def strategy_from(description: Description) -> Strategy:
    """Return the strategy that gave a description."""
    return Strategy.of_kind(description.get("kind")).from_description(description)


def unit_norm(columns: FloatArray, **parameter: ArrayLike) -> FloatArray:
    """Scale a column, or the columns of a matrix, to a largest norm of 1: the same bits on every processor."""
    ((name, _),) = parameter.items()
    columns = np.ldexp(columns, -math.frexp(float(columns.max()))[1]) + 0.0  # a power of two: nothing is rounded
    columns /= _largest_norm(columns.reshape(len(columns), -1))
    diagonal = columns[:1] if columns.ndim == 1 else np.diag(columns)
    if not diagonal.min() > 0:
        raise ValueError(
            f"{name} has too large a range for floating-point numbers: its diagonal vanishes relative to its "
            "largest entry."
        )
    return columns


def norm_of(column: FloatArray) -> float:
    """Return the Euclidean norm of a column, from the exact sum of its squares: the same bits on every processor.

    >>> norm_of(np.array([3.0, 4.0]))
    5.0
    """
    return math.sqrt(math.fsum((column * column).tolist()))


def _largest_norm(columns: FloatArray) -> float:
    """Return the largest norm of a column; only columns that may have it are summed exactly."""
    roughly = np.linalg.norm(columns, axis=0)
    return max(norm_of(columns[:, place]) for place in np.flatnonzero(roughly >= (1 - _ROUGHLY) * roughly.max()))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array


def recorded(scaled: FloatArray, values: ArrayLike) -> FloatArray:
    """Return the recorded values of a strategy, refused unless they are scaled, up to rounding."""
    exact = np.array(values, dtype=np.float64)
    if exact.shape != scaled.shape or not np.allclose(exact, scaled, rtol=1e-12, atol=1e-14):
        raise ValueError("The description's strategy does not have a largest column norm of 1.")
    return read_only(exact)


def rows_of(values: ArrayLike, iterations: int) -> FloatArray:
    """Return values as float64, refused unless they have one row per iteration."""
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim == 0 or rows.shape[0] != iterations:
        raise ValueError(f"values has the shape {rows.shape}, but it must have {iterations} rows.")
    return rows
