"""The strategy matrix in accounting: y = C x + z, and the scores C^T y.

Samples come in rows, two per row and interleaved in time, with room for the columns that reach beyond the end.
"""

import threading
from abc import ABC, abstractmethod
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import fft

from minsep.core.arrays import Rows
from minsep.strategy import Dense, Strategy
from minsep.strategy.toeplitz import Toeplitz

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


def filter_of(strategy: Strategy, scale: float, dtype: np.dtype[Any]) -> Filter:
    """Return the filter of a strategy for samples of a dtype, its scores multiplied by `scale`."""
    if isinstance(strategy, Toeplitz):
        if strategy.bands <= DIRECT_BANDS:
            return _DirectFilter(strategy, scale, dtype)
        return _FourierFilter(strategy, scale, dtype)
    return _DenseFilter(strategy, scale)


class _ToeplitzFilter(Filter):
    def __init__(self, strategy: Toeplitz, length: int) -> None:
        self._iterations = strategy.iterations
        self._coefficients = strategy.coefficients
        self.length = length

    def add_columns(
        self, rows: Rows, samples: NDArray[np.int64], times: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> None:
        _add_toeplitz_columns(rows, self._iterations, samples, times, weights, self._coefficients)


class _DirectFilter(_ToeplitzFilter):
    def __init__(self, strategy: Toeplitz, scale: float, dtype: np.dtype[Any]) -> None:
        # A multiple of four taps, so that the kernel can take four at a time.
        self._taps = np.zeros(-(-strategy.bands // 4) * 4, dtype=dtype)
        self._taps[: strategy.bands] = scale * strategy.coefficients
        super().__init__(strategy, strategy.iterations + self._taps.size - 1)

    def scores(self, rows: Rows) -> Rows:
        result = scratch.zeros("scores", (rows.shape[0], 2 * self._iterations), rows.dtype)
        _correlate(rows, self._taps, result)
        return result


class _FourierFilter(_ToeplitzFilter):
    def __init__(self, strategy: Toeplitz, scale: float, dtype: np.dtype[Any]) -> None:
        least = strategy.iterations + strategy.bands - 1
        # With a multiple of a power of two, the transform has fewer, larger butterflies.
        super().__init__(strategy, _BUTTERFLY * fft.next_fast_len(-(-least // _BUTTERFLY)))
        spectrum = scale * np.conj(fft.fft(strategy.coefficients, self.length))
        self._spectrum = spectrum.astype(np.result_type(dtype, np.complex64))

    def scores(self, rows: Rows) -> Rows:
        transform = fft.fft(rows.view(self._spectrum.dtype), overwrite_x=True)
        transform *= self._spectrum
        scores: Rows = fft.ifft(transform, overwrite_x=True).view(rows.dtype)
        return scores


class _DenseFilter(Filter):
    def __init__(self, strategy: Strategy, scale: float) -> None:
        self.length = strategy.iterations
        self._matrix = strategy.matrix if isinstance(strategy, Dense) else strategy.dense()
        self._scale = scale

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
