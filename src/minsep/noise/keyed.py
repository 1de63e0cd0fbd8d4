"""What all streams of noise have in common: a key, a position, and states from which they go on."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep.core import validation as validate
from minsep.core.state import Guard, State, Uncopyable, check_envelope, envelope
from minsep.noise.grid import Grid
from minsep.randomness import Key
from minsep.strategy import Strategy

# 2: rows on a grid, by ChaCha20.
_FORMAT = 2

Columns = Sequence[tuple[int, int]]
"""Parts (begin, end) of a row, in order and apart."""


class KeyedStream(Uncopyable, ABC):
    """The rows of C^-1 Z as a function of (strategy, noise multiplier, key), read in order and released one by one.

    A stream on the host and one on a device have the same rows under one key, but for one value in some billions that
    lies on an edge of the grid, and read each other's states. An interrupted step cannot be continued.

    Args:
        strategy: The strategy of the mechanism.
        noise_multiplier: The noise multiplier of the mechanism.
        size: Length of a row.
        columns: Parts of a row. The stream holds only these, with the same values as in the whole row. None is all.
        key: The secret key of Z, from which that of the smoothing is derived.
        fingerprint: The fingerprint of the mechanism, which a saved state must match.
    """

    def __init__(
        self,
        strategy: Strategy,
        noise_multiplier: float,
        size: int,
        columns: Columns | None,
        key: Key,
        fingerprint: str,
    ) -> None:
        self.grid = Grid(strategy, noise_multiplier)
        self.iterations = strategy.iterations
        self.columns = [(0, size)] if columns is None else checked_columns(columns, size)
        self.size = sum(end - begin for begin, end in self.columns)
        self._recurrence = strategy.recurrence()
        self._identity = envelope("noise", fingerprint, format=_FORMAT, size=size)
        if columns is not None:
            self._identity["columns"] = [list(part) for part in self.columns]
        self._guard = Guard()
        with self._guard.beginning():
            self._begin(key)

    @property
    def position(self) -> int:
        """Number of rows drawn so far."""
        return self._position

    def state_dict(self) -> State:
        """Return the state that restores this stream at its position. It is as secret as a key."""
        with self._guard.turn:
            self._guard.check()
            return {**self._identity, "key": self._key.hex(), "position": self._position, "memory": self._memory()}

    def load_state_dict(self, state: State) -> None:
        """Continue as the stream that gave this state would.

        Args:
            state: What `state_dict` returned. The state of a stream of another mechanism or size is refused.

        Examples:
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
        memory = self._checked_memory(state.get("memory"), position)
        with self._guard.beginning():
            self._begin(key)
            self._restore(memory, position)
            self._position = position

    def _begin(self, key: Key) -> None:
        self._key = key
        self._position = 0
        self._start(key, key.derive("smoothing"))

    def _check_left(self) -> None:
        if self._position == self.iterations:
            raise ValueError(f"All {self.iterations} rows of the noise have already been drawn.")

    def _checked_memory(self, memory: Any, position: int) -> NDArray[Any]:
        buffers = self._recurrence.buffers
        rows = len(self._recurrence.kept(position)) if buffers is None else self._recurrence.noise_rows
        shape, dtype = (rows, self.size), np.dtype(np.float32 if buffers is None else np.float64)
        if not isinstance(memory, np.ndarray) or memory.shape != shape or memory.dtype != dtype:
            raise ValueError(f"The state's memory must be an array of shape {shape} and dtype {dtype}.")
        if not np.isfinite(memory).all() or (buffers is None and (memory != np.rint(memory)).any()):
            what = "whole numbers of steps of the grid" if buffers is None else "finite numbers"
            raise ValueError(f"The state's memory must hold {what}.")
        return memory

    @abstractmethod
    def _start(self, key: Key, smoothing: Key) -> None:
        """Go back to before the first row."""

    @abstractmethod
    def _memory(self) -> NDArray[Any]:
        """Return the rows or the buffers that are kept, in steps of the grid, on the host."""

    @abstractmethod
    def _restore(self, memory: NDArray[Any], position: int) -> None:
        """Keep at a position what `_memory` returned."""


def checked_columns(columns: Columns, size: int) -> list[tuple[int, int]]:
    """Return parts of a row as integers.

    Args:
        columns: Parts (begin, end). Those that overlap, are empty or reach beyond the row are refused.
        size: Length of the row.
    """
    parts = [(int(begin), int(end)) for begin, end in columns]
    ends = [0, *(end for _, end in parts)]
    if not all(last <= begin < end <= size for last, (begin, end) in zip(ends, parts, strict=False)):
        raise ValueError(
            f"columns is {columns!r}, but it must be parts (begin, end) of a row of {size} values, in order and apart."
        )
    return parts


def checked_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a row as a tuple of positive integers.

    Args:
        shape: The number of values, or the sides of an array.
    """
    sides = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(validate.integer(shape=side, at_least=1) for side in sides)
