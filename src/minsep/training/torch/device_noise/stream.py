"""A stream of correlated noise on a device: a function of (mechanism, size, key), read in order."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from minsep.core import validation as validate
from minsep.mechanism import Mechanism
from minsep.noise.grid import MOST_STEPS, SMOOTHING, refuse_sum
from minsep.noise.keyed import Columns, KeyedStream
from minsep.randomness import STRIPE, Key
from minsep.training.torch.device_noise.normals import DeviceNormals

# Values made at once: more of them hide the time to start a kernel, fewer stay in the cache of a CPU.
_VALUES_AT_ONCE_ON_HOST, _VALUES_AT_ONCE_ON_DEVICE = 1 << 16, 1 << 22


class DeviceNoiseStream(KeyedStream):
    """The noise of a mechanism on a device: exactly `iterations` rows of C^-1 Z, of which nothing leaves the device.

    A banded strategy keeps `bands - 1` rows of four bytes a value, one whose inverse is banded keeps none, a buffered
    one keeps its buffers, of eight bytes a value, and a dense one keeps all rows.

    Args:
        mechanism: The mechanism. Its noise multiplier is the standard deviation of the entries of Z, which are
            independent normals.
        size: Length of a row.
        device: Where rows are made and kept. Sums and products are float64, which no setting for faster, less precise
            products affects.
        key: The secret key. Rows are those of `Mechanism.noise` under the same key.
        columns: Parts (begin, end) of a row, in order. The stream holds only these, with the same values as in the
            whole row. None is the whole row.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=4)
    >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=1.0)
    >>> stream = DeviceNoiseStream(mechanism, 10, torch.device("cpu"), mechanism.noise_key(seed=1))
    >>> sums = torch.zeros(10, dtype=torch.float64)
    >>> stream.release_next(sums, clip_norm=0.5)
    >>> on_host = np.zeros(10)
    >>> mechanism.noise(10, seed=1).release_next(on_host, clip_norm=0.5)
    >>> bool((sums.numpy() == on_host).all())
    True
    """

    _kept: Tensor

    def __init__(
        self, mechanism: Mechanism, size: int, device: torch.device, key: Key, columns: Columns | None = None
    ) -> None:
        size = validate.integer(size=size, at_least=1)
        self._device = device
        super().__init__(mechanism.strategy, mechanism.noise_multiplier, size, columns, key, mechanism.fingerprint)

    @property
    def kept_rows(self) -> int:
        """Number of rows that are in memory now, besides the work space of a small part of a row."""
        return len(self._kept)

    def release_next(self, sums: Tensor, clip_norm: float) -> None:
        """Release sums of clipped gradients with the next row, in place, as `minsep.release` does.

        Sums that cannot be released leave neither themselves nor a part of the noise behind: they are set to zero.

        Args:
            sums: A vector in float64 on the device.
            clip_norm: Bound on the norm of the gradient of one example.
        """
        if sums.shape != (self.size,) or sums.device != self._device or sums.dtype != torch.float64:
            raise ValueError(
                f"sums has shape {tuple(sums.shape)} and dtype {sums.dtype} on {sums.device}, but it must have shape "
                f"{(self.size,)} and dtype torch.float64 on {self._device}."
            )
        unit = self.grid.unit(clip_norm)
        with self._guard.turn:
            self._check_left()
            with self._guard.step(), torch.no_grad():
                good = self._release(sums, unit)
                self._position += 1
        if not good:
            sums.zero_()
            raise refuse_sum(unit)

    def prepare(self) -> None:
        """Do nothing: rows are made when they are needed."""

    def _start(self, key: Key, smoothing: Key) -> None:
        self._normals, self._smoothing = (DeviceNormals(one, self._device) for one in (key, smoothing))
        recurrence = self._recurrence
        rows = recurrence.noise_rows if recurrence.on_grid else 0
        dtype = torch.float32 if recurrence.buffers is None else torch.float64
        self._kept = torch.zeros(rows, self.size, dtype=dtype, device=self._device)

    def _memory(self) -> NDArray[Any]:
        return self._kept[self._places(self._position)].cpu().numpy().copy()

    def _restore(self, memory: NDArray[Any], position: int) -> None:
        for place, values in zip(self._places(position).tolist(), memory, strict=True):
            self._kept[place] = torch.from_numpy(values.copy()).to(self._device)

    def _places(self, position: int) -> Tensor:
        """Return where what is kept at a position is kept: the buffers in order, or rows in turn."""
        if self._recurrence.buffers is None:
            places = [row % max(len(self._kept), 1) for row in self._recurrence.kept(position)]
        else:
            places = list(range(len(self._kept)))
        return torch.tensor(places, dtype=torch.long, device=self._device)

    def _release(self, sums: Tensor, unit: float) -> bool:
        """Make the row at the position, keep it, and add it to sums; return whether all were in range."""
        row, kept = self._position, len(self._kept)
        product, buffers = self._recurrence.product(row), self._recurrence.buffers
        weights, decays = np.zeros(kept), None
        for lag, weight in enumerate(product.of_kept, start=1):
            weights[(row - lag) % kept] = weight
        if buffers is not None:
            weights, decays = buffers.weights, torch.tensor(buffers.decays[:, None], device=self._device)
        of_kept = torch.tensor(weights, device=self._device)
        per_row = self.grid.noise_multiplier / self.grid.step
        good = torch.ones((), dtype=torch.bool, device=self._device)
        for part, columns in self._slices():
            steps = torch.zeros(columns[1] - columns[0], dtype=torch.float64, device=self._device)
            if kept:
                steps += of_kept @ self._kept[:, part].double()
            for lag, weight in enumerate(product.of_normals):
                steps += self._normals.row(row - lag, columns) * (per_row * float(weight))
            whole_noise = steps.round()
            if self._recurrence.on_grid:
                steps = whole_noise
            if decays is not None:
                self._kept[:, part] = decays * self._kept[:, part] + steps
            elif kept:
                self._kept[row % kept, part] = steps.float()
            scaled = sums[part] / unit
            good &= (scaled.abs() < MOST_STEPS).all()
            whole = scaled.round()
            rest = ((scaled - whole) + (steps - whole_noise)) + SMOOTHING * self._smoothing.row(row, columns)
            sums[part] = ((whole + whole_noise) + rest.round()) * unit
        return bool(good)

    def _slices(self) -> Iterator[tuple[slice, tuple[int, int]]]:
        """Yield small parts of the row, by their places in the vector and in the whole row."""
        width = (
            max((_VALUES_AT_ONCE_ON_HOST if self._device.type == "cpu" else _VALUES_AT_ONCE_ON_DEVICE) // STRIPE, 1)
            * STRIPE
        )
        place = 0
        for begin, end in self.columns:
            for first in range(begin - begin % width, end, width):
                inside = max(first, begin), min(first + width, end)
                yield slice(place, place + inside[1] - inside[0]), inside
                place += inside[1] - inside[0]
