"""A stream of correlated noise: a function of (mechanism, shape, dtype, key), read from front to back."""

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep import _validation as validate
from minsep.noise.recurrence import Recurrence, Rows, recurrence_of
from minsep.randomness import Key, NormalRows
from minsep.state import State, check_envelope, envelope
from minsep.strategy import Strategy

_DTYPES = ("float32", "float64")


class NoiseStream(Iterator[NDArray[np.floating[Any]]]):
    """The noise of a mechanism: exactly `iterations` arrays, the rows of C^-1 Z.

    - The entries of Z are independent normals with the mechanism's noise multiplier as their standard deviation, made
      in float64 by a cryptographic generator and rounded once to `dtype`.
    - Memory is `bands - 1` rows for a banded strategy.
    - Rows are read-only and never change: an array that somebody still holds a row of is not used again.
    - The same key gives the same noise, whatever the number of threads.

    Streams come from `Mechanism.noise`.
    """

    _recurrence: Recurrence

    def __init__(
        self,
        strategy: Strategy,
        noise_multiplier: float,
        shape: int | tuple[int, ...],
        dtype: np.dtype[Any],
        key: Key,
        *,
        fingerprint: str = "",
    ) -> None:
        if dtype.name not in _DTYPES:
            raise ValueError(f"dtype is {dtype.name}, but noise comes as {' or '.join(_DTYPES)}.")
        sides = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        self.shape = tuple(validate.integer(shape=side, at_least=1) for side in sides)
        self.dtype = dtype
        self.iterations = strategy.iterations
        self._strategy = strategy
        self._noise_multiplier = noise_multiplier
        self._identity = envelope("noise", fingerprint, shape=list(self.shape), dtype=dtype.name)
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
        recurrence = self._recurrence
        row = self._position % recurrence.rows
        if row == 0:
            if self._references() > self._references_when_alone:
                recurrence.block = recurrence.block.copy()
            recurrence.next_block(self._position, self._add_normals)
        self._position += 1
        values: NDArray[np.floating[Any]] = recurrence.block[row].reshape(self.shape)
        if row == recurrence.rows - 1:
            # A loop still holds this row when it asks for the next block, and must not tie up the whole array.
            values = values.copy()
        values.flags.writeable = False
        return values

    def state_dict(self) -> State:
        """Return what restores this stream at its position. It is as secret as a key."""
        memory = self._recurrence.memory()
        return {**self._identity, "key": self._key.hex(), "position": self._position, "memory": memory}

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
        self._restart(Key.from_hex(state.get("key", "")))
        if position > 0:
            start = (position - 1) // self._recurrence.rows * self._recurrence.rows
            self._recurrence.restore(self._memory_of(state, start), start, self._add_normals)
        self._position = position

    def _restart(self, key: Key) -> None:
        self._key = key
        self._position = 0
        self._normals = NormalRows(key)
        self._recurrence = recurrence_of(self._strategy, math.prod(self.shape), self.dtype)
        self._references_when_alone = self._references()

    def _memory_of(self, state: State, start: int) -> Rows:
        memory = state.get("memory")
        shape = (self._recurrence.memory_rows(start), math.prod(self.shape))
        if not isinstance(memory, np.ndarray) or memory.shape != shape or memory.dtype != self.dtype:
            raise ValueError(f"The state's memory must be an array of shape {shape} and dtype {self.dtype}.")
        return memory

    def _references(self) -> int:
        """Count who refers to the array of the last block: its rows are views, and the next block overwrites it."""
        return sys.getrefcount(self._recurrence.block)

    def _add_normals(self, rows: Rows, first: int) -> None:
        needed = rows[: self.iterations - first]
        self._normals.add_to(needed, first, self._noise_multiplier)
