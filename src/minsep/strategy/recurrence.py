"""How each row of C^-1 Z follows from earlier ones: one product for noise on the host, on a device and in JAX."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from minsep.core.arrays import FloatArray

_NONE = np.zeros(0)


@dataclass(frozen=True)
class Product:
    """A row as a product: `of_kept` times the rows before it, plus `of_normals` times rows of Z.

    Args:
        of_kept: Weights of the rows that are kept, the nearest first.
        of_normals: Weights of rows of Z at noise multiplier 1, that of the row itself first.
    """

    of_kept: FloatArray
    of_normals: FloatArray


@dataclass(frozen=True)
class Buffers:
    """What is kept in place of rows: buffers that fade, to each of which every row is added.

    A row is a weighted sum of the buffers plus a multiple of a row of Z. Then each buffer is multiplied by its decay,
    and the row is added to it.

    Args:
        decays: The factors by which buffers fade from row to row.
        weights: The weights of the buffers in a row.
        of_normals: The weight of the row of Z at noise multiplier 1.
    """

    decays: FloatArray
    weights: FloatArray
    of_normals: float


class Recurrence(ABC):
    """The rows of C^-1 Z, one after another.

    Args:
        window: How many rows must be kept, at most.
    """

    window: int

    @property
    def buffers(self) -> Buffers | None:
        """The buffers that are kept in place of rows; None if there are none."""
        return None

    @property
    def noise_rows(self) -> int:
        """How many rows of numbers are kept between two steps, at most: rows of noise, or buffers."""
        return self.window

    @property
    def noise_bytes(self) -> int:
        """How many bytes they take for each value of a row."""
        return self.window * np.dtype(np.float32).itemsize

    @property
    def drawn_rows(self) -> int:
        """How many rows of Z are drawn for a row."""
        return 1

    @property
    def moving_sum(self) -> FloatArray | None:
        """Weights of rows of Z, if every row is a sum of the last rows of Z alone; None if rows are kept instead."""
        return None

    @property
    def on_grid(self) -> bool:
        """Whether rows are rounded to the grid. Rows that are kept are; those made from Z alone need not be."""
        return self.moving_sum is None

    @abstractmethod
    def product(self, row: int) -> Product:
        """Return how a row is made, from row 0 on."""

    def kept(self, position: int) -> range:
        """Return the numbers of the rows that must be kept before the row at a position is made.

        >>> BandedRecurrence(np.array([0.8, 0.5, 0.3])).kept(position=40)
        range(38, 40)
        >>> MovingSum(np.array([1.0, -0.5])).kept(position=40)
        range(40, 40)
        """
        return range(max(0, position - self.window), position)


class BandedRecurrence(Recurrence):
    """Banded Toeplitz C with this first column: c_0 x_t = z_t - c_1 x_(t-1) - c_2 x_(t-2) - ..."""

    def __init__(self, coefficients: FloatArray) -> None:
        self.window = coefficients.size - 1
        self._of_kept = -coefficients[1:] / coefficients[0]
        self._of_normals = 1.0 / coefficients[:1]

    def product(self, row: int) -> Product:
        """Return how a row is made, from row 0 on."""
        return Product(self._of_kept[:row], self._of_normals)


class MovingSum(Recurrence):
    """Banded Toeplitz C^-1 with this first column: a sum of rows of Z, which are drawn again, so that none is kept."""

    window = 0

    def __init__(self, noise_coefficients: FloatArray) -> None:
        self._coefficients = noise_coefficients

    @property
    def moving_sum(self) -> FloatArray:
        """Weights of rows of Z, that of the row itself first."""
        return self._coefficients

    @property
    def drawn_rows(self) -> int:
        """How many rows of Z are drawn for a row: one for each band of C^-1."""
        return int(self._coefficients.size)

    def product(self, row: int) -> Product:
        """Return how a row is made, from row 0 on."""
        return Product(_NONE, self._coefficients[: row + 1])


class BufferedRecurrence(Recurrence):
    """C of a sum of geometric series: what a row takes from all rows before it is in a few buffers.

    Args:
        buffers: The buffers, which are 0 before the first row.
    """

    window = 0

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    @property
    def buffers(self) -> Buffers:
        """The buffers."""
        return self._buffers

    @property
    def noise_rows(self) -> int:
        """The number of buffers."""
        return int(self._buffers.decays.size)

    @property
    def noise_bytes(self) -> int:
        """How many bytes the buffers take for each value of a row."""
        return self.noise_rows * np.dtype(np.float64).itemsize

    def product(self, row: int) -> Product:
        """Return what a row takes from Z; the rest is in the buffers."""
        return Product(_NONE, np.array([self._buffers.of_normals]))


class FullRecurrence(Recurrence):
    """Any lower-triangular C: every row is kept."""

    def __init__(self, matrix: FloatArray) -> None:
        self.window = len(matrix) - 1
        self._matrix = matrix

    def product(self, row: int) -> Product:
        """Return how a row is made, from row 0 on."""
        own = self._matrix[row, row]
        return Product(-self._matrix[row, :row][::-1] / own, np.array([1.0 / own]))
