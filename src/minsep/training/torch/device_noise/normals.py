"""Standard normal variates as a function of (key, row, column), on any device: those of `minsep.randomness.NormalRows`.

The words are the same, bit for bit. The values differ by the rounding of the device's logarithm, sine and cosine.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from minsep.randomness import STRIPE, Key
from minsep.randomness.chacha import BLOCK_WORDS, key_words
from minsep.randomness.normals import MORE_BITS, NORMALS, STRIPE_BLOCKS, check_columns
from minsep.training.torch.device_noise.chacha import blocks

_PAIRS_PER_STRIPE = STRIPE // 2
_DISTANCE_UNIT, _FRACTION_UNIT = 2.0**-74, 2.0**-64
# What values of two devices may differ by, times the radius of their pair: twice Lemma 4 of docs/rounding.md.
_MOST_DIFFERENCE_PER_RADIUS = 40 * 2.0**-53


class DeviceNormals:
    """Rows of independent standard normal variates, made on a device.

    Args:
        key: The secret key.
        device: Where values are made. A device other than the host is first compared with the host, and refused if it
            computes other values.

    >>> normals = DeviceNormals(Key.from_seed(0), torch.device("cpu"))
    >>> whole = normals.row(3, columns=(0, 3000))
    >>> bool((normals.row(3, columns=(1030, 1040)) == whole[1030:1040]).all())
    True
    """

    def __init__(self, key: Key, device: torch.device) -> None:
        self._words = key_words(key.secret).tolist()
        self._device = device
        if device.type != "cpu":
            self._compare_with_host()

    def row(self, row: int, columns: tuple[int, int]) -> Tensor:
        """Return a part of a row, in float64.

        Args:
            row: Number of the row, from 0.
            columns: (begin, end) of the part.
        """
        return self._row(row, columns, self._device)

    def _row(self, row: int, columns: tuple[int, int], device: torch.device) -> Tensor:
        begin, end = columns
        check_columns(end)
        first, last = begin // STRIPE, -(-end // STRIPE)
        words = self._row_words(row, NORMALS, STRIPE_BLOCKS, first, last, device).view(-1, 2, _PAIRS_PER_STRIPE)
        more = partial(self._row_words, row, MORE_BITS, STRIPE_BLOCKS // 2, first, last, device)
        return _normals(words[:, 0], words[:, 1], more).view(-1)[begin - first * STRIPE : end - first * STRIPE]

    def _row_words(self, row: int, plane: int, each: int, first: int, last: int, device: torch.device) -> Tensor:
        """Return words of 64 bits, stripes by words of a stripe.

        Args:
            row: Number of the row, a part of the nonce of the cipher.
            plane: Number of the plane, the other part of the nonce.
            each: Number of blocks of a stripe.
            first: The first stripe.
            last: The stripe after the last.
            device: Where the words are made.
        """
        numbers = torch.arange(first * each, last * each, device=device)
        inputs = torch.empty(4, len(numbers), dtype=torch.int32, device=device)
        inputs[0] = _low_word(numbers)
        for place, word in enumerate((row & 0xFFFFFFFF, row >> 32, plane), start=1):
            inputs[place] = word - (1 << 32) if word >> 31 else word
        halves = blocks(self._words, inputs).view(BLOCK_WORDS // 2, 2, last - first, each).long()
        whole = (halves[:, 1] << 32) | (halves[:, 0] & 0xFFFFFFFF)
        return whole.transpose(0, 1).reshape(last - first, -1)

    def _compare_with_host(self) -> None:
        """Refuse a device whose values, of usual words and of those near 0 and 1, differ from the host's."""
        host = torch.device("cpu")
        drawn = self._row_words(0, NORMALS, STRIPE_BLOCKS, 0, 8, host).view(-1, 2, _PAIRS_PER_STRIPE)
        rare = drawn[:1, 0] >> (torch.arange(_PAIRS_PER_STRIPE) % 64)  # of all sizes, and then their complements
        radii, angles = torch.cat([drawn[:, 0], rare, ~rare]), torch.cat([drawn[:, 1], drawn[:2, 1]])
        more = torch.cat([drawn[:, 1], drawn[:2, 0]])
        here = _normals(radii, angles, lambda: more)
        there = _normals(radii.to(self._device), angles.to(self._device), lambda: more.to(self._device)).cpu()
        sizes = (
            here.view(-1, 2, _PAIRS_PER_STRIPE)
            .square()
            .sum(1, keepdim=True)
            .sqrt()
            .expand(-1, 2, -1)
            .reshape(here.shape)
        )
        same = torch.equal(self._row(0, (0, 8 * STRIPE), self._device).cpu(), there[:8].reshape(-1))
        if not same or not bool(((here - there).abs() <= _MOST_DIFFERENCE_PER_RADIUS * sizes).all()):
            raise RuntimeError(
                f"The device {self._device} computes other random numbers than the host, so its noise cannot be "
                'trusted: use noise="host".'
            )


def _normals(radii: Tensor, angles: Tensor, more: Callable[[], Tensor]) -> Tensor:
    """Return normal variates, stripes by columns.

    Args:
        radii: Words for the radii, stripes by words.
        angles: Words for the angles, stripes by words.
        more: Function that returns third words, called if some radius needs them.
    """
    upper = radii < 0  # the highest bit
    near = torch.where(upper, ~radii, radii)
    fraction: Tensor | float = 0.5
    rare = near >> 42 == 0
    if bool(rare.any()):
        third = more()
        third = torch.where(upper, ~third, third)
        high, low = (third >> 12) & ((1 << 52) - 1), third & 0xFFF
        fraction = torch.where(rare, (high.double() * 4096 + (low.double() + 0.5)) * _FRACTION_UNIT, 0.5)
    return _normal_pairs(near, angles, upper, fraction)


def _normal_pairs(near: Tensor, angles: Tensor, upper: Tensor, fraction: Tensor | float) -> Tensor:
    """Return normal variates, stripes by columns, as `minsep.randomness.normals` does.

    Args:
        near: 63 bits of the distance of a uniform number to 0, or to 1 where `upper` is true.
        angles: 52 bits of the angle, ten more of the distance, and two signs.
        upper: Whether the uniform number is in the upper half.
        fraction: Where in its cell of 2^-74 the distance is.
    """
    spare = (torch.where(upper, ~angles, angles) >> 2) & 0x3FF
    low = ((near & 0xFFF) << 10) | spare
    h = (near >> 12).double().mul_(2.0**22).add_(low.double() + fraction).mul_(_DISTANCE_UNIT)
    half_radius = torch.where(upper, torch.log1p(-h), torch.log(h)).neg_().sqrt_()
    turn = ((angles >> 12) & ((1 << 52) - 1)).double().mul_(2.0**-52).sub_(0.5).mul_(math.pi / 2)
    sine, cosine = turn.sin(), turn.cos()
    signs = [1.0 - 2.0 * ((angles >> bit) & 1).double() for bit in (0, 1)]
    return torch.cat([half_radius * (cosine - sine) * signs[0], half_radius * (cosine + sine) * signs[1]], dim=1)


def _low_word(numbers: Tensor) -> Tensor:
    """Return the low 32 bits of integers, as int32."""
    low = numbers & 0xFFFFFFFF
    return torch.where(low >= 1 << 31, low - (1 << 32), low).int()
