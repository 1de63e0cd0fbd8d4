"""The strategy matrix in accounting: y = C x + z, and the scores C^T y.

Samples come in rows, two per row and interleaved in time, with room for the columns that reach beyond the end.
"""

import math
import threading
from abc import ABC, abstractmethod
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import fft

from minsep.core.arrays import FloatArray, Rows
from minsep.strategy import Strategy

# Up to this many bands a direct sum is faster than a Fourier transform.
DIRECT_BANDS = 48
_BUTTERFLY = 64


class _Scratch(threading.local):
    """Arrays that a thread reuses for every chunk: allocating memory costs more than the work on it."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[object, ...], Rows] = {}

    def zeros(self, name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> Rows:
        """Return an array of zeros that is valid until the thread requests the same array again."""
        key = (name, shape, dtype)
        if key not in self._arrays:
            self._arrays = {other: array for other, array in self._arrays.items() if other[0] != name}
            self._arrays[key] = np.empty(shape, dtype=dtype)
        array = self._arrays[key]
        array.fill(0.0)
        return array


scratch = _Scratch()


class Filter(ABC):
    """Adds columns of C to samples, and computes their inner products with every column."""

    length: int
    """Length in time of the rows that the filter works on, at least the number of iterations."""

    @abstractmethod
    def add_columns(
        self, rows: Rows, samples: NDArray[np.int64], times: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> None:
        """Add `weight` times the column of each (sample, time) to the rows."""

    @abstractmethod
    def scores(self, rows: Rows) -> Rows:
        """Return `scale` times the inner products with every column, in rows; may overwrite its argument."""

    @abstractmethod
    def error_of_score(self, within_reach: float, whole: float) -> float:
        """Return a bound on the rounding error of an inner product, in units of the last place.

        Args:
            within_reach: A bound on the norm of the part of a sample that a column touches.
            whole: A bound on the norm of all of a sample.
        """


def filter_of(strategy: Strategy, scale: float, dtype: np.dtype[Any]) -> Filter:
    """Return the filter of a strategy for samples of a dtype, its scores multiplied by `scale`."""
    column = strategy.column
    if column is None:
        return _DenseFilter(strategy.dense(), scale)
    kind = _DirectFilter if column.size <= DIRECT_BANDS else _FourierFilter
    return kind(column, strategy.iterations, scale, dtype)


class _ToeplitzFilter(Filter):
    def __init__(self, column: FloatArray, iterations: int, length: int) -> None:
        self._column, self._iterations, self.length = column, iterations, length

    def add_columns(
        self, rows: Rows, samples: NDArray[np.int64], times: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> None:
        _add_toeplitz_columns(rows, self._iterations, samples, times, weights, self._column)


class _DirectFilter(_ToeplitzFilter):
    def __init__(self, column: FloatArray, iterations: int, scale: float, dtype: np.dtype[Any]) -> None:
        # A multiple of four taps, so that the kernel can take four at a time.
        self._taps = np.zeros(-(-column.size // 4) * 4, dtype=dtype)
        self._taps[: column.size] = scale * column
        super().__init__(column, iterations, iterations + self._taps.size - 1)

    def scores(self, rows: Rows) -> Rows:
        result = scratch.zeros("scores", (rows.shape[0], 2 * self._iterations), rows.dtype)
        _correlate(rows, self._taps, result)
        return result

    def error_of_score(self, within_reach: float, whole: float) -> float:
        return (self._column.size + 2) * within_reach


class _FourierFilter(_ToeplitzFilter):
    def __init__(self, column: FloatArray, iterations: int, scale: float, dtype: np.dtype[Any]) -> None:
        least = iterations + column.size - 1
        # With a multiple of a power of two, the transform has fewer, larger butterflies.
        super().__init__(column, iterations, _BUTTERFLY * fft.next_fast_len(-(-least // _BUTTERFLY)))
        spectrum = scale * np.conj(fft.fft(column, self.length))
        self._spectrum = spectrum.astype(np.result_type(dtype, np.complex64))

    def scores(self, rows: Rows) -> Rows:
        transform = fft.fft(rows.view(self._spectrum.dtype), overwrite_x=True)
        transform *= self._spectrum
        scores: Rows = fft.ifft(transform, overwrite_x=True).view(rows.dtype)
        return scores

    def error_of_score(self, within_reach: float, whole: float) -> float:
        return 8 * math.log2(2 * (self._iterations + self._column.size)) * whole


class _DenseFilter(Filter):
    def __init__(self, matrix: FloatArray, scale: float) -> None:
        self.length, self._matrix, self._scale = len(matrix), matrix, scale

    def add_columns(
        self, rows: Rows, samples: NDArray[np.int64], times: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> None:
        participation = np.zeros((2 * rows.shape[0], self.length))
        np.add.at(participation, (samples, times), weights)
        by_sample = _by_sample(rows)
        by_sample += (participation @ self._matrix.T).reshape(by_sample.shape)

    def scores(self, rows: Rows) -> Rows:
        result = np.empty_like(rows)
        _by_sample(result)[:] = self._scale * (_by_sample(rows) @ self._matrix)
        return result

    def error_of_score(self, within_reach: float, whole: float) -> float:
        return (self.length + 2) * whole


def _by_sample(rows: Rows) -> Rows:
    """View rows as (row, which of two, time)."""
    return rows.reshape(rows.shape[0], -1, 2).transpose(0, 2, 1)


@numba.njit(nogil=True, cache=True)
def _add_toeplitz_columns(rows, iterations, samples, times, weights, coefficients):  # type: ignore[no-untyped-def]  # pragma: no cover
    for k in range(samples.size):
        row, side = rows[samples[k] // 2], samples[k] % 2
        for m in range(min(coefficients.size, iterations - times[k])):
            row[2 * (times[k] + m) + side] += weights[k] * coefficients[m]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _correlate(rows, taps, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    length = out.shape[1]
    for q in range(rows.shape[0]):
        result = out[q]
        for m in range(0, taps.size, 4):
            a, b, c, d = taps[m], taps[m + 1], taps[m + 2], taps[m + 3]
            first = rows[q, 2 * m : 2 * m + length]
            second = rows[q, 2 * m + 2 : 2 * m + 2 + length]
            third = rows[q, 2 * m + 4 : 2 * m + 4 + length]
            fourth = rows[q, 2 * m + 6 : 2 * m + 6 + length]
            for k in range(length):
                result[k] += a * first[k] + b * second[k] + c * third[k] + d * fourth[k]
