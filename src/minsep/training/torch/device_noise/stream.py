"""A stream of correlated noise on a device: a function of (mechanism, size, dtype, key), read in order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minsep import _validation as validate
from minsep.mechanism import Mechanism
from minsep.noise.stability import check_stable
from minsep.noise.stream import check_noise_dtype
from minsep.randomness import Key
from minsep.state import Guard, State, Uncopyable, check_envelope, envelope
from minsep.training.torch.device_noise.normals import DeviceNormals
from minsep.training.torch.device_noise.recurrence import recurrence_of

# Normals drawn at once: more of them hide the time to start a kernel, fewer stay in the cache of a CPU.
_ON_HOST, _ON_DEVICE = 1 << 17, 1 << 22
_ALIGNED = 8


class DeviceNoiseStream(Uncopyable):
    """The noise of a mechanism on a device: exactly `iterations` rows of C^-1 Z, of which nothing leaves the device.

    - `mechanism`: its noise multiplier is the standard deviation of the entries of Z, which are independent normals.
    - `size`: length of a row.
    - `dtype`: float32 or float64: that of the rows that are kept and added. Products are computed in float64, which no
      setting for faster, less precise products affects.
    - `device`: where rows are made and kept.
    - `key`: the secret key. Z is a function of it, on every device up to the rounding of elementary functions.
    - `columns`: parts (begin, end) of a row, in order. The stream holds only these, with the same values as in the
      whole row. None is the whole row.

    A banded strategy keeps a block of about `bands - 1` rows, one whose inverse is banded keeps none, and a dense one
    keeps all. It is resumed as `minsep.noise.NoiseStream` is.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=4)
    >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=1.0)
    >>> stream = DeviceNoiseStream(mechanism, 10, np.dtype("float32"), torch.device("cpu"), mechanism.noise_key())
    >>> gradient = torch.zeros(10, dtype=torch.float64)
    >>> stream.add_next_to(gradient, scale=0.5)
    >>> stream.position
    1
    """

    _guard: Guard
    _kept: Tensor

    def __init__(
        self,
        mechanism: Mechanism,
        size: int,
        dtype: np.dtype[Any],
        device: torch.device,
        key: Key,
        columns: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        size = validate.integer(size=size, at_least=1)
        check_noise_dtype(dtype, mechanism.noise_multiplier)
        check_stable(mechanism.strategy, dtype)
        self.iterations = mechanism.iterations
        self._noise_multiplier = mechanism.noise_multiplier
        self._device, self._dtype, self._name = device, getattr(torch, dtype.name), dtype.name
        self._columns = [(0, size)] if columns is None else _checked_columns(columns, size)
        self._size = sum(end - begin for begin, end in self._columns)
        self._recurrence = recurrence_of(mechanism.strategy)
        self._identity = envelope("device noise", mechanism.fingerprint, shape=[size], dtype=dtype.name)
        if columns is not None:
            self._identity["columns"] = [list(part) for part in self._columns]
        self._restart(key)

    @property
    def position(self) -> int:
        """Number of rows drawn so far."""
        return self._position

    @property
    def kept_rows(self) -> int:
        """Number of rows that are in memory now, besides the work space of a small part of a row."""
        return len(self._kept)

    def add_next_to(self, vector: Tensor, scale: float) -> None:
        """Add `scale` times the next row to a vector.

        - `vector`: a vector in float64 or the dtype of the noise, changed in place.
        - `scale`: the clip norm.
        """
        if vector.shape != (self._size,) or vector.device != self._device or vector.dtype not in self._dtypes():
            raise ValueError(
                f"vector has shape {tuple(vector.shape)} and dtype {vector.dtype} on {vector.device}, but it must have "
                f"shape {(self._size,)} and dtype float64 or {self._name} on {self._device}."
            )
        if self._position == self.iterations:
            raise ValueError(f"All {self.iterations} rows of the noise have already been drawn.")
        start = self._position // self._recurrence.rows * self._recurrence.rows
        with self._guard, torch.no_grad():
            if self._position == start:
                self._next_block(vector, scale)
            else:
                vector.add_(self._kept[self._position - self._recurrence.kept(start).start], alpha=scale)
            self._position += 1

    def state_dict(self) -> State:
        """Return the state that restores this stream at its position, on the host. It is as secret as a key."""
        self._guard.check()
        return {
            **self._identity,
            "key": self._key.hex(),
            "position": self._position,
            "block": self._block_of(self._position),
            "memory": self._kept.cpu().numpy().copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue as the stream that gave this state would.

        - `state`: what `state_dict` returned. That of another mechanism, size or kind of noise is refused.
        """
        check_envelope(state, self._identity)
        position = validate.integer(position=state.get("position"), at_least=0, at_most=self.iterations)
        key = Key.from_hex(state.get("key", ""))
        block = self._block_of(position)
        if state.get("block") != block:
            raise ValueError(f"The state's position is {position}, but its memory belongs to another block of rows.")
        memory = self._check_memory(state.get("memory"), 0 if block is None else len(self._recurrence.kept(block)))
        self._restart(key)
        self._kept = torch.from_numpy(memory.copy()).to(self._device)
        self._position = position

    def _restart(self, key: Key) -> None:
        self._key = key
        self._position = 0
        self._guard = Guard()
        self._normals = DeviceNormals(key, self._device)
        self._kept = torch.zeros(0, self._size, dtype=self._dtype, device=self._device)

    def _next_block(self, vector: Tensor, scale: float) -> None:
        """Compute the block that starts at the position, and add its first row to the vector."""
        start = self._position
        product = self._recurrence.product(start)
        of_kept, of_normals = (
            torch.from_numpy(np.ascontiguousarray(weights)).to(self._device)
            for weights in (product.of_kept, self._noise_multiplier * product.of_normals)
        )
        before, kept = self._kept, len(self._recurrence.kept(start))
        # In place where the block replaces the one before, so that there are never two.
        after = before if kept == len(before) else before.new_empty(kept, self._size)
        retained = kept - len(of_normals) if kept else 0
        after[:retained] = before[:retained]
        for part, columns in self._slices(of_normals.shape[1]):
            block = of_normals @ self._normals.rows(product.first, of_normals.shape[1], columns)
            if len(before):
                block.addmm_(of_kept, before[:, part].double())
            block = block.to(self._dtype)
            if kept:
                after[retained:, part] = block
            vector[part].add_(block[0], alpha=scale)
        self._kept = after

    def _slices(self, rows: int) -> Iterator[tuple[slice, tuple[int, int]]]:
        """Yield small parts of the row, by their places in the vector and in the whole row."""
        at_once = _ON_HOST if self._device.type == "cpu" else _ON_DEVICE
        width = max(at_once // rows // _ALIGNED, 1) * _ALIGNED
        place = 0
        for begin, end in self._columns:
            for first in range(begin - begin % width, end, width):
                inside = max(first, begin), min(first + width, end)
                yield slice(place, place + inside[1] - inside[0]), inside
                place += inside[1] - inside[0]

    def _block_of(self, position: int) -> int | None:
        """Return the first row of the block that the last row before a position belongs to."""
        return None if position == 0 else (position - 1) // self._recurrence.rows * self._recurrence.rows

    def _check_memory(self, memory: Any, rows: int) -> np.ndarray[Any, np.dtype[Any]]:
        shape = (rows, self._size)
        if not isinstance(memory, np.ndarray) or memory.shape != shape or memory.dtype != self._name:
            raise ValueError(f"The state's memory must be an array of shape {shape} and dtype {self._name}.")
        if not np.isfinite(memory).all():
            raise ValueError("The state's memory must hold finite numbers.")
        return memory

    def _dtypes(self) -> tuple[torch.dtype, ...]:
        return self._dtype, torch.float64


def _checked_columns(columns: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    parts = [(int(begin), int(end)) for begin, end in columns]
    ends = [0, *(end for _, end in parts)]
    if not all(last <= begin < end <= size for last, (begin, end) in zip(ends, parts, strict=False)):
        raise ValueError(
            f"columns is {columns!r}, but it must be parts (begin, end) of a row of {size} values, in order and apart."
        )
    return parts
