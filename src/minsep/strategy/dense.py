"""Any lower-triangular, non-negative strategy, as a full matrix."""

import base64
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.strategy import sensitivity
from minsep.strategy.base import Strategy, read_only, recorded, rows_of, unit_norm


@dataclass(frozen=True, eq=False, init=False)
class Dense(Strategy):
    """A strategy given by all its entries, scaled to a largest column norm of 1.

    Its noise stream keeps every past row, so it is meant for short runs.

    >>> strategy = Dense([[4.0, 0.0], [3.0, 4.0]])
    >>> strategy.matrix
    array([[0.8, 0. ],
           [0.6, 0.8]])
    >>> strategy.bands
    2
    """

    matrix: FloatArray

    def __init__(self, matrix: ArrayLike) -> None:
        values = validate.real_array(2, matrix=matrix)
        if values.shape[0] != values.shape[1]:
            raise ValueError(f"matrix has the shape {values.shape}, but it must be square.")
        validate.refuse_entries(np.triu(values, 1) != 0, "entries above the diagonal must be 0", matrix=values)
        validate.refuse_entries(values < 0, "every entry must be at least 0", matrix=values)
        validate.refuse_entries(
            np.diag(np.diag(values) == 0), "entries on the diagonal must be positive", matrix=values
        )
        object.__setattr__(self, "matrix", read_only(unit_norm(values, matrix=values)))

    @property
    def iterations(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.matrix.shape[0])

    @cached_property
    def bands(self) -> int:
        """Number of diagonals up to the last non-zero one."""
        rows, columns = np.nonzero(self.matrix)
        return int((rows - columns).max()) + 1

    @cached_property
    def column_norms(self) -> FloatArray:
        """Norm of each column."""
        return read_only(np.linalg.norm(self.matrix, axis=0))

    def gram(self, lag: int) -> FloatArray:
        """Inner products of columns `lag` apart: entry i is <c_i, c_(i - lag)>, zero for i < lag."""
        lag = validate.integer(lag=lag, at_least=0)
        result = np.zeros(self.iterations)
        if lag < self.iterations:
            later, earlier = self.matrix[:, lag:], self.matrix[:, : self.iterations - lag]
            result[lag:] = np.einsum("ij,ij->j", later, earlier)
        return result

    def solve(self, values: ArrayLike) -> FloatArray:
        """Return C^-1 `values`, for `iterations` rows of any shape."""
        # Loaded here: it takes longer than finding a strategy, and only this needs it.
        from scipy.linalg import solve_triangular

        rows = rows_of(values, self.iterations)
        flat = rows.reshape(self.iterations, -1)
        return np.asarray(solve_triangular(self.matrix, flat, lower=True)).reshape(rows.shape)

    @cached_property
    def _inverse(self) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return read_only(self.solve(np.eye(self.iterations)))

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

    @cached_property
    def prefix_variances(self) -> FloatArray:
        """Variance of each prefix sum of the noise at noise multiplier 1."""
        return read_only((np.cumsum(self._inverse, axis=0) ** 2).sum(axis=1))

    def sensitivity(self, min_sep: int, participations: int | None = None) -> float:
        """Largest norm of C x over x with ones at least `min_sep` apart, at most `participations` of them.

        Exact when columns `min_sep` apart do not overlap, an upper bound otherwise.

        >>> round(Dense([[4.0, 0.0], [3.0, 4.0]]).sensitivity(min_sep=1), 3)
        1.612
        """
        count = sensitivity.most_participations(self.iterations, min_sep, participations)
        if min_sep >= self.bands:
            return sensitivity.separate_columns(self.column_norms, min_sep, count)
        return sensitivity.upper_bound(self.matrix.T @ self.matrix, min_sep, count)

    def sensitivity_is_exact(self, min_sep: int) -> bool:
        """Whether `sensitivity` at a separation `min_sep` is exact: columns that do not overlap."""
        return min_sep >= self.bands

    def dense(self) -> FloatArray:
        """Return C as a full matrix."""
        return self.matrix.copy()

    def describe(self) -> Description:
        """Return the strategy as plain data: its rows as little-endian float64, in base64."""
        entries = self.matrix.astype("<f8").tobytes()
        return {
            "kind": "dense",
            "iterations": self.iterations,
            "matrix": base64.b64encode(entries).decode(),
        }

    @classmethod
    def from_description(cls, description: Description) -> "Dense":
        """Return the strategy with this description, bit by bit."""
        n = description["iterations"]
        entries = np.frombuffer(base64.b64decode(description["matrix"]), dtype="<f8").reshape(n, n)
        strategy = cls(entries)
        object.__setattr__(strategy, "matrix", recorded(strategy.matrix, entries))
        return strategy

    def __repr__(self) -> str:
        return f"Dense(iterations={self.iterations}, bands={self.bands})"
