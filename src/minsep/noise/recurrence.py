"""Rows of C^-1 Z from rows of Z, one block at a time by matrix products.

All arrays are rows by values. BLAS reads them as their transposes, in place.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, toeplitz

from minsep.arrays import Rows
from minsep.strategy import BandedInverseToeplitz, BandedToeplitz, Dense, Strategy, series

AddNormals = Callable[[Rows, int, float], None]
"""Add rows of Z, from the given one on and times a factor, to an array."""

_DENSE_BLOCK = 32
_BLAS_ROWS = 16


class Recurrence(ABC):
    """Computes blocks of rows in order, and can be restored to any of them from its memory."""

    rows: int
    """Number of rows in a block."""
    block: Rows
    """The rows of the last block."""

    @abstractmethod
    def next_block(self, start: int, add_normals: AddNormals) -> None:
        """Set the block to rows `start, start + 1, ...` of C^-1 Z."""

    @abstractmethod
    def memory(self) -> Rows:
        """Return what `restore` needs after the last block, besides the rows of Z."""

    @abstractmethod
    def memory_rows(self, start: int) -> int:
        """Return how many rows the memory has after the block at `start`."""

    @abstractmethod
    def restore(self, memory: Rows, start: int, add_normals: AddNormals) -> None:
        """Restore the block at `start`, and continue from it."""


def recurrence_of(strategy: Strategy, size: int, dtype: np.dtype[Any]) -> Recurrence:
    """Return the way to compute the noise of a strategy."""
    match strategy:
        case BandedToeplitz():
            return _Banded(strategy.coefficients, size, dtype)
        case BandedInverseToeplitz():
            return _BandedInverse(strategy.noise_coefficients, size, dtype)
        case Dense():
            return _Full(strategy.matrix, size, dtype)
    raise ValueError(
        f"strategy is {strategy!r}, but noise is supported only for BandedToeplitz, BandedInverseToeplitz and Dense."
    )


class _Banded(Recurrence):
    """Banded Toeplitz C, in one array of `bands - 1` rows (or a few more): the past block becomes the present one.

    With T the part of C within a block (lower triangular) and U the part that reaches back into the previous block
    (upper triangular), the present is T^-1 (Z - U past): three passes over the array, in place.
    """

    def __init__(self, coefficients: NDArray[np.float64], size: int, dtype: np.dtype[Any]) -> None:
        self.rows = block_rows(coefficients.size)
        own_inverse, _ = toeplitz_blocks(series.inverse_by_substitution(coefficients, self.rows), self.rows)
        _, reach_back = toeplitz_blocks(coefficients, self.rows)
        # The minus sign is in the matrix because BLAS spends an extra pass on a factor other than 1.
        self._own_inverse, self._reach_back = own_inverse.astype(dtype), -reach_back.astype(dtype)
        (self._multiply,) = get_blas_funcs(("trmm",), dtype=dtype)
        self.block = np.zeros((self.rows, size), dtype=dtype)

    def next_block(self, start: int, add_normals: AddNormals) -> None:
        if start > 0:
            self._multiply(1.0, self._reach_back, self.block.T, side=1, trans_a=1, overwrite_b=1)
        add_normals(self.block, start, 1.0)
        self._multiply(1.0, self._own_inverse, self.block.T, side=1, lower=1, trans_a=1, overwrite_b=1)

    def memory(self) -> Rows:
        return self.block.copy()

    def memory_rows(self, start: int) -> int:
        return self.rows

    def restore(self, memory: Rows, start: int, add_normals: AddNormals) -> None:
        self.block[:] = memory


class _BandedInverse(Recurrence):
    """Banded Toeplitz C^-1: a moving sum over the rows of Z, which are drawn again, so that none is kept."""

    def __init__(self, noise_coefficients: NDArray[np.float64], size: int, dtype: np.dtype[Any]) -> None:
        self.rows = 1
        self._coefficients = noise_coefficients.tolist()
        self.block = np.zeros((1, size), dtype=dtype)

    def next_block(self, start: int, add_normals: AddNormals) -> None:
        self.block.fill(0.0)
        for lag, coefficient in enumerate(self._coefficients[: start + 1]):
            add_normals(self.block, start - lag, coefficient)

    def memory(self) -> Rows:
        return np.empty((0, self.block.shape[1]), dtype=self.block.dtype)

    def memory_rows(self, start: int) -> int:
        return 0

    def restore(self, memory: Rows, start: int, add_normals: AddNormals) -> None:
        """Do nothing: every block is computed from Z alone."""


class _Full(Recurrence):
    """Any lower-triangular C: every past row is kept."""

    def __init__(self, matrix: NDArray[np.float64], size: int, dtype: np.dtype[Any]) -> None:
        self.rows = min(_DENSE_BLOCK, matrix.shape[0])
        self._matrix = matrix.astype(dtype)
        (self._solve,) = get_blas_funcs(("trsm",), dtype=dtype)
        self._past = np.zeros((0, size), dtype=dtype)
        self.block = np.zeros((0, size), dtype=dtype)

    def next_block(self, start: int, add_normals: AddNormals) -> None:
        end = min(start + self.rows, len(self._matrix))
        self.block = -(self._matrix[start:end, :start] @ self._past)
        add_normals(self.block, start, 1.0)
        own = self._matrix[start:end, start:end]
        self._solve(1.0, own, self.block.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        self._past = np.concatenate([self._past, self.block])

    def memory(self) -> Rows:
        return self._past.copy()

    def memory_rows(self, start: int) -> int:
        return min(start + self.rows, len(self._matrix))

    def restore(self, memory: Rows, start: int, add_normals: AddNormals) -> None:
        self._past = memory.copy()
        self.block = self._past[start:].copy()


def block_rows(bands: int) -> int:
    """Return the number of rows of a block: at least `bands - 1`, rounded up to a good size for BLAS if it is near."""
    least = max(bands - 1, 1)
    rounded = -(-least // _BLAS_ROWS) * _BLAS_ROWS
    return rounded if rounded <= 1.125 * least else least


def toeplitz_blocks(coefficients: NDArray[np.float64], rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower-triangular part of C within a block, and the upper-triangular part in the previous block."""
    padded = np.zeros(2 * rows)
    padded[: coefficients.size] = coefficients
    nothing = np.zeros(rows)
    own = toeplitz(padded[:rows], nothing)
    reach_back = np.triu(toeplitz(np.concatenate([padded[rows:][:1], nothing[1:]]), padded[rows:0:-1]))
    return own, reach_back
