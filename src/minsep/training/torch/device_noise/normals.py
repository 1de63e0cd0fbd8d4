"""Standard normal variates as a function of (key, row, column), on any device.

The Box-Muller transform in float64, from ChaCha20. A block gives eight values: columns 8 k to 8 k + 7 of row r are
block k under the nonce r. Radius and angle each take 52 bits, so values reach 8.57 standard deviations (a normal
variate lies beyond with probability 1e-17) and are always finite.
"""

import math

import torch
from torch import Tensor

from minsep.randomness import Key
from minsep.training.torch.device_noise.chacha import blocks, key_words

_VALUES = 8
_MOST_COLUMNS = _VALUES << 32
_UNIT = 2.0**-52
# What elementary functions of two devices may differ by, in units of the standard deviation.
_AGREEMENT = 1e-12


class DeviceNormals:
    """Rows of independent standard normal variates, made on a device.

    - `key`: the secret key. The cipher's key is derived from it, so that none is used by two generators.
    - `device`: where values are made. A device other than the host is first compared with the host, and refused if it
      computes other values.

    >>> normals = DeviceNormals(Key.from_seed(0), torch.device("cpu"))
    >>> whole = normals.rows(first=3, count=2, columns=(0, 100))
    >>> bool((normals.rows(first=4, count=1, columns=(13, 50)) == whole[1:, 13:50]).all())
    True
    """

    def __init__(self, key: Key, device: torch.device) -> None:
        self._words = key_words(key.derive("ChaCha20").secret)
        self._device = device
        if device.type != "cpu":
            self._compare_with_host()

    def rows(self, first: int, count: int, columns: tuple[int, int]) -> Tensor:
        """Return rows `first, first + 1, ...` in float64.

        - `first`: number of the first row, from 0.
        - `count`: number of rows.
        - `columns`: (begin, end) of the part of each row that is returned.
        """
        return self._rows(first, count, columns, self._device)

    def _rows(self, first: int, count: int, columns: tuple[int, int], device: torch.device) -> Tensor:
        begin, end = columns
        if end > _MOST_COLUMNS:
            raise ValueError(f"A row has {end} columns, but noise on the device has at most {_MOST_COLUMNS}.")
        numbers = torch.arange(begin // _VALUES, -(-end // _VALUES), device=device)
        rows = torch.arange(first, first + count, device=device).repeat_interleave(len(numbers))
        inputs = torch.zeros(4, len(rows), dtype=torch.int32, device=device)
        inputs[0] = _low_word(numbers).repeat(count)
        inputs[1], inputs[2] = _low_word(rows), _low_word(rows >> 32)
        pairs = _normal_pairs(blocks(self._words, inputs))
        values = pairs.view(_VALUES, count, len(numbers)).permute(1, 2, 0).reshape(count, -1)
        skipped = begin % _VALUES
        return values[:, skipped : skipped + end - begin]

    def _compare_with_host(self) -> None:
        here, there = (self._rows(0, 2, (0, 4096), device) for device in (torch.device("cpu"), self._device))
        if not torch.allclose(here, there.cpu(), rtol=0.0, atol=_AGREEMENT):
            raise RuntimeError(
                f"The device {self._device} computes other random numbers than the host, so its noise cannot be "
                'trusted: use noise="host".'
            )


def _normal_pairs(words: Tensor) -> Tensor:
    """Return two normal variates for every four words, words by blocks."""
    high, low, angle_high, angle_low = words.view(4, 4, -1)
    radius = _midpoints(high, low).log_().mul_(-2.0).sqrt_()
    angle = _midpoints(angle_high, angle_low).mul_(2 * math.pi)
    return torch.cat([angle.cos().mul_(radius), angle.sin_().mul_(radius)])


def _midpoints(high: Tensor, low: Tensor) -> Tensor:
    """Return (k + 1/2) / 2^52 with k from 52 bits of two words: exact, and never 0 or 1."""
    integers = ((high.long() & 0xFFFFFFFF) << 20) | ((low >> 12) & 0xFFFFF)
    return integers.double().add_(0.5).mul_(_UNIT)


def _low_word(numbers: Tensor) -> Tensor:
    """Return the low 32 bits of integers, as int32."""
    low = numbers & 0xFFFFFFFF
    return torch.where(low >= 1 << 31, low - (1 << 32), low).int()
