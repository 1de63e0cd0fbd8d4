"""A stream of correlated noise: a function of (mechanism, shape, dtype, key), read in order."""

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep import _validation as validate
from minsep.arrays import Rows
from minsep.engine import parallel_copy
from minsep.noise.recurrence import Recurrence, recurrence_of
from minsep.noise.stability import check_stable
from minsep.randomness import Key, NormalRows
from minsep.state import Guard, State, Uncopyable, check_envelope, envelope
from minsep.strategy import Strategy

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


class NoiseStream(Uncopyable, Iterator[NDArray[np.floating[Any]]]):
    """The noise of a mechanism: exactly `iterations` arrays, the rows of C^-1 Z.

    - The entries of Z are independent normals with the mechanism's noise multiplier as their standard deviation, made
      in float64 by a cryptographic generator and rounded once to `dtype`.
    - Memory is about `bands - 1` rows for a banded strategy, and as many again if rows are handed out. It is one row if
      the inverse is banded, whose rows of Z are drawn again for every row.
    - The caller owns each row, and may keep or overwrite it.
    - The same key gives the same Z, whatever the number of threads.
    - With `columns` the stream holds only that part of each row, with the same values as in the whole row.

    Streams come from `Mechanism.noise`.
    """

    _recurrence: Recurrence
    _guard: Guard

    def __init__(
        self,
        strategy: Strategy,
        noise_multiplier: float,
        shape: int | tuple[int, ...],
        dtype: np.dtype[Any],
        key: Key,
        *,
        columns: tuple[int, int] | None = None,
        fingerprint: str = "",
    ) -> None:
        whole = _checked_shape(shape)
        self.shape = whole if columns is None else (_checked_columns(columns, whole),)
        self._columns = None if columns is None else (int(columns[0]), whole[0])
        check_noise_dtype(dtype, noise_multiplier)
        check_stable(strategy, dtype)
        self.dtype = dtype
        self.iterations = strategy.iterations
        self._strategy = strategy
        self._noise_multiplier = noise_multiplier
        self._identity = envelope("noise", fingerprint, shape=list(whole), dtype=dtype.name)
        if columns is not None:
            self._identity["columns"] = [int(column) for column in columns]
        self._restart(key)

    @property
    def position(self) -> int:
        """Number of rows drawn so far."""
        return self._position

    def __iter__(self) -> "NoiseStream":
        return self

    def __len__(self) -> int:
        """Return the number of rows of the whole run."""
        return self.iterations

    def __next__(self) -> NDArray[np.floating[Any]]:
        if self._position == self.iterations:
            raise StopIteration
        row = self._advance()
        if self._block_handed_out != self._block_of(self._position):
            self._hand_out()
        last = row == len(self._recurrence.block) - 1
        values: NDArray[np.floating[Any]] = self._recurrence.block[row].copy() if last else self._handed_out[row]
        return values.reshape(self.shape)

    def add_next_to(self, array: NDArray[np.floating[Any]], scale: float) -> None:
        """Add `scale` times the next row to an array. No row is handed out, which halves the memory of the stream.

        The array has the dtype of the noise, or float64.

        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=8)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.01, min_sep=8), noise_multiplier=1.0)
        >>> gradient = np.zeros(10, dtype=np.float32)
        >>> mechanism.noise(shape=10, seed=1).add_next_to(gradient, scale=0.5)
        >>> bool((gradient == 0.5 * next(mechanism.noise(shape=10, seed=1))).all())
        True
        """
        if array.shape != self.shape or array.dtype not in (self.dtype, np.float64):
            raise ValueError(
                f"array has shape {array.shape} and dtype {array.dtype}, but it must have shape {self.shape} and "
                f"dtype float64 or that of the noise, {self.dtype}."
            )
        if self._position == self.iterations:
            raise ValueError(f"All {self.iterations} rows of the noise have already been drawn.")
        row = self._advance()
        array += array.dtype.type(scale) * self._recurrence.block[row].reshape(self.shape)

    def state_dict(self) -> State:
        """Return the state that restores this stream at its position. It is as secret as a key."""
        self._guard.check()
        return {
            **self._identity,
            "key": self._key.hex(),
            "position": self._position,
            "block": self._block_of(self._position),
            "memory": self._recurrence.memory(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue as the stream that gave this state would.

        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=8)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.01, min_sep=8), noise_multiplier=1.0)
        >>> stream = mechanism.noise(shape=(10,))
        >>> first_half = [next(stream) for _ in range(50)]
        >>> resumed = mechanism.noise(shape=(10,))
        >>> resumed.load_state_dict(stream.state_dict())
        >>> all((one == other).all() for one, other in zip(stream, resumed, strict=True))
        True
        """
        check_envelope(state, self._identity)
        position = validate.integer(position=state.get("position"), at_least=0, at_most=self.iterations)
        key = Key.from_hex(state.get("key", ""))
        block = self._block_of(position)
        if state.get("block") != block:
            raise ValueError(f"The state's position is {position}, but its memory belongs to another block of rows.")
        memory = None if block is None else self._check_memory(state.get("memory"), block)
        self._restart(key)
        if memory is None or block is None:
            return
        with self._guard:
            self._recurrence.restore(memory, block, self._add_normals)
            self._position = position

    def _restart(self, key: Key) -> None:
        self._key = key
        self._position = 0
        self._guard = Guard()
        self._normals = NormalRows(key)
        self._recurrence = recurrence_of(self._strategy, math.prod(self.shape), self.dtype)
        self._handed_out: Rows = np.empty_like(self._recurrence.block[:0])
        self._block_handed_out: int | None = None
        self._references_when_alone = self._references()

    def _advance(self) -> int:
        """Make sure that the next row is in the block, and return its index there."""
        row = self._position % self._recurrence.rows
        with self._guard:
            if row == 0:
                self._recurrence.next_block(self._position, self._add_normals)
            self._position += 1
        return row

    def _block_of(self, position: int) -> int | None:
        """Return the first row of the block that the last row before a position belongs to."""
        return None if position == 0 else (position - 1) // self._recurrence.rows * self._recurrence.rows

    def _check_memory(self, memory: Any, block: int) -> Rows:
        shape = (self._recurrence.memory_rows(block), math.prod(self.shape))
        if not isinstance(memory, np.ndarray) or memory.shape != shape or memory.dtype != self.dtype:
            raise ValueError(f"The state's memory must be an array of shape {shape} and dtype {self.dtype}.")
        if not np.isfinite(memory).all():
            raise ValueError("The state's memory must hold finite numbers.")
        return memory

    def _hand_out(self) -> None:
        """Copy the block to an array of which the caller holds no row, so that the caller may overwrite its rows.

        The last row is copied separately: a loop still holds it when it requests the next block.
        """
        block = self._recurrence.block[:-1]
        if self._references() > self._references_when_alone or self._handed_out.shape != block.shape:
            self._handed_out = np.empty_like(block)
        parallel_copy(self._handed_out, block)
        self._block_handed_out = self._block_of(self._position)

    def _references(self) -> int:
        return sys.getrefcount(self._handed_out)

    def _add_normals(self, rows: Rows, first: int, factor: float) -> None:
        needed = rows[: self.iterations - first]
        self._normals.add_to(needed, first, factor * self._noise_multiplier, self._columns)


def _checked_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    sides = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(validate.integer(shape=side, at_least=1) for side in sides)


def _checked_columns(columns: tuple[int, int], shape: tuple[int, ...]) -> int:
    begin, end = columns
    if len(shape) != 1 or not 0 <= begin < end <= shape[0]:
        raise ValueError(
            f"columns is {columns!r}, but it must be (begin, end) with 0 <= begin < end <= the size of a row, and the "
            f"shape, {shape}, must have one dimension."
        )
    return int(end - begin)


def check_noise_dtype(dtype: np.dtype[Any], noise_multiplier: float) -> None:
    """Refuse a dtype that noise cannot have, or in which noise of this size would lose its precision.

    >>> check_noise_dtype(np.dtype(np.float16), 1.0)
    Traceback (most recent call last):
    ValueError: dtype is float16, but it must be float32 or float64.
    """
    if dtype not in _DTYPES:
        raise ValueError(f"dtype is {dtype}, but it must be {' or '.join(map(str, _DTYPES))}.")
    limits = np.finfo(dtype)
    least, most = float(limits.tiny / limits.eps), float(limits.max * limits.eps)
    if not least <= noise_multiplier <= most:
        raise ValueError(
            f"noise_multiplier is {noise_multiplier:g}, but for noise of dtype {dtype} it must be from {least:.2g} to "
            f"{most:.2g}."
        )
