"""A stream of correlated noise on the host: a function of (mechanism, shape, key), read in order."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import FloatArray
from minsep.noise.grid import refuse_sum
from minsep.noise.keyed import KeyedStream, checked_shape
from minsep.noise.releases import NoiseRow, noise_row
from minsep.noise.window import window_of
from minsep.randomness import Key
from minsep.strategy import Strategy

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


class NoiseStream(KeyedStream, Iterator[NoiseRow]):
    """The noise of a mechanism: exactly `iterations` rows of C^-1 Z, to be released by `minsep.release`.

    - The entries of Z are independent normals with the mechanism's noise multiplier as their standard deviation, made
      in float64 by a cryptographic generator. The same key gives the same rows, whatever the number of threads and on
      every processor.
    - Rows lie on a public grid of at most a 2048th of their noise, and are exact in float32. If the inverse is
      banded they are not on a grid, and are float64.
    - Memory is about `bands - 1` rows of four bytes a value for a banded strategy, and up to an eighth more. It is one
      row if the inverse is banded, whose rows of Z are drawn again for every row, and for a buffered strategy one row
      and eight bytes a value for each buffer.
    - With `columns` the stream holds only that part of each row, with the same values as in the whole row.

    Streams come from `Mechanism.noise`.
    """

    def __init__(
        self,
        strategy: Strategy,
        noise_multiplier: float,
        shape: int | tuple[int, ...],
        dtype: np.dtype[Any] | None,
        key: Key,
        *,
        columns: tuple[int, int] | None = None,
        fingerprint: str = "",
    ) -> None:
        whole = checked_shape(shape)
        if columns is not None and len(whole) != 1:
            raise ValueError(f"columns is {columns!r}, but then the shape, {whole}, must have one dimension.")
        parts = None if columns is None else [columns]
        super().__init__(strategy, noise_multiplier, math.prod(whole), parts, key, fingerprint)
        self.shape = whole if columns is None else (self.size,)
        self.dtype = self._checked_dtype(dtype)

    def __iter__(self) -> "NoiseStream":
        return self

    def __len__(self) -> int:
        """Return the number of rows of the whole run."""
        return self.iterations

    def __next__(self) -> NoiseRow:
        with self._guard.turn:
            if self._position == self.iterations:
                raise StopIteration
            row, window = self._position, self._window
            with self._guard.step():
                window.make(row)
                values = (self.grid.step * window.row(row)).astype(self.dtype).reshape(self.shape)
                self._position += 1
        step = self.dtype.type(self.grid.step)
        return noise_row(values, self.grid, lambda flat, sums, unit: window.add(row, flat / step, sums, unit))

    def release_next(self, sums: FloatArray, clip_norm: float) -> None:
        """Release sums of clipped gradients with the next row, in place, as `minsep.release` does.

        No row is handed out, which saves memory. Sums that cannot be released leave neither themselves nor a part of
        the noise behind: the array is set to zero.

        Args:
            sums: Contiguous sums, in float64 and of the shape of a row.
            clip_norm: Bound on the norm of the gradient of one example.

        Examples:
            >>> import minsep
            >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=8)
            >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.01, min_sep=8), noise_multiplier=1.0)
            >>> sums = np.ones(10)
            >>> mechanism.noise(shape=10, seed=1).release_next(sums, clip_norm=0.5)
            >>> row = next(mechanism.noise(shape=10, seed=1))
            >>> bool((sums == minsep.release(np.ones(10), row, clip_norm=0.5)).all())
            True
        """
        if sums.shape != self.shape or sums.dtype != np.float64 or not sums.flags.c_contiguous:
            raise ValueError(
                f"sums has shape {sums.shape} and dtype {sums.dtype}, but it must be contiguous, of shape {self.shape} "
                "and dtype float64."
            )
        unit = self.grid.unit(clip_norm)
        with self._guard.turn:
            self._check_left()
            with self._guard.step():
                self._window.make(self._position)
                released = self._window.release(self._position, sums.reshape(-1), unit)
                self._position += 1
        if not released:
            sums.fill(0.0)
            raise refuse_sum(unit)

    def prepare(self) -> None:
        """Begin to make the next row in the background, while something else is computed, if a core is free for it."""
        with self._guard.turn:
            if self._guard.passable:
                self._window.prepare(self._position)

    def _start(self, key: Key, smoothing: Key) -> None:
        (columns,) = self.columns
        self._window = window_of(self._recurrence, self.grid, self.iterations, columns, key, smoothing)

    def _memory(self) -> NDArray[Any]:
        return self._window.memory(self._position)

    def _restore(self, memory: NDArray[Any], position: int) -> None:
        self._window.keep(position, memory)

    def _checked_dtype(self, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
        single, double = _DTYPES
        if dtype is None:
            return single if self._recurrence.on_grid else double
        if dtype not in _DTYPES:
            raise ValueError(f"dtype is {dtype}, but it must be {' or '.join(map(str, _DTYPES))}.")
        if dtype == single and not self._recurrence.on_grid:
            raise ValueError(
                "dtype is float32, but rows of a banded inverse must be float64: in single precision they would lose "
                "the low bits that hide the gradients."
            )
        return dtype
