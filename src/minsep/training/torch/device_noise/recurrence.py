"""Blocks of rows of C^-1 Z as one matrix product of rows that are kept and rows of Z."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from minsep.arrays import FloatArray
from minsep.noise.recurrence import block_rows, toeplitz_blocks
from minsep.strategy import BandedInverseToeplitz, BandedToeplitz, Dense, Strategy, series

_DENSE_BLOCK = 32


@dataclass(frozen=True)
class Product:
    """A block of rows: `of_kept` times the rows that are kept, plus `of_normals` times rows of Z.

    - `of_kept`: one column for each row that is kept.
    - `of_normals`: one column for each row of Z.
    - `first`: number of the first of these rows of Z.
    """

    of_kept: FloatArray
    of_normals: FloatArray
    first: int


class Recurrence(ABC):
    """How the rows of C^-1 Z follow from earlier ones, one block at a time."""

    rows: int
    """Number of rows in a block."""

    @abstractmethod
    def product(self, start: int) -> Product:
        """Return the block that begins at row `start`."""

    @abstractmethod
    def kept(self, start: int) -> range:
        """Return the numbers of the rows that are kept after the block that begins at row `start` was computed."""


def recurrence_of(strategy: Strategy) -> Recurrence:
    """Return the recurrence of a strategy.

    - `strategy`: the strategy. Its inverse decides how many rows are kept.

    >>> recurrence_of(BandedToeplitz.optimal(iterations=100, bands=5)).kept(start=40)
    range(40, 44)
    >>> recurrence_of(BandedInverseToeplitz.square_root(iterations=100, bands=5)).kept(start=40)
    range(0, 0)
    """
    match strategy:
        case BandedToeplitz():
            return _Banded(strategy.coefficients)
        case BandedInverseToeplitz():
            return _BandedInverse(strategy.noise_coefficients)
        case Dense():
            return _Full(strategy.matrix)
    raise ValueError(
        f"strategy is {strategy!r}, but noise is supported only for BandedToeplitz, BandedInverseToeplitz and Dense."
    )


class _Banded(Recurrence):
    """Banded Toeplitz C: X = T^-1 (Z - U X') with X' the block before, as in docs/noise.md."""

    def __init__(self, coefficients: FloatArray) -> None:
        self.rows = block_rows(coefficients.size)
        own_inverse, _ = toeplitz_blocks(series.inverse_by_substitution(coefficients, self.rows), self.rows)
        _, reach_back = toeplitz_blocks(coefficients, self.rows)
        self._of_kept, self._of_normals = -own_inverse @ reach_back, own_inverse

    def product(self, start: int) -> Product:
        of_kept = self._of_kept if start > 0 else self._of_kept[:, :0]
        return Product(of_kept, self._of_normals, start)

    def kept(self, start: int) -> range:
        return range(start, start + self.rows)


class _BandedInverse(Recurrence):
    """Banded Toeplitz C^-1: a moving sum of rows of Z, which are drawn again, so that none is kept."""

    def __init__(self, noise_coefficients: FloatArray) -> None:
        self.rows = 1
        self._coefficients = noise_coefficients

    def product(self, start: int) -> Product:
        first = max(0, start + 1 - self._coefficients.size)
        return Product(np.zeros((1, 0)), self._coefficients[start - first :: -1][None], first)

    def kept(self, start: int) -> range:
        return range(0)


class _Full(Recurrence):
    """Any lower-triangular C: every row is kept."""

    def __init__(self, matrix: FloatArray) -> None:
        self.rows = min(_DENSE_BLOCK, len(matrix))
        self._matrix = matrix

    def product(self, start: int) -> Product:
        end = min(start + self.rows, len(self._matrix))
        own, reach_back = self._matrix[start:end, start:end], self._matrix[start:end, :start]
        solved = solve_triangular(own, np.concatenate([-reach_back, np.eye(end - start)], axis=1), lower=True)
        return Product(solved[:, :start], solved[:, start:], start)

    def kept(self, start: int) -> range:
        return range(min(start + self.rows, len(self._matrix)))
