"""Standard normal variates for released noise: a function of (key, row, column), the same on every processor.

The Box-Muller transform in float64. A uniform number is known to a relative 2**-53, near 0 and near 1 alike, so values
are right up to 10.9 standard deviations, and nearly so up to 11.9 (a normal variate lies beyond with probability
1e-32): docs/rounding.md proves how far they are from exact normals. Nothing here is fused or reordered by the compiler.
"""

import math

import numba
import numpy as np

from minsep.core.arrays import FloatArray
from minsep.core.numerics import INTEGER_PART, ONE, TWO_52, bits_of, cosine, float_of, log_of_side, sine
from minsep.randomness.chacha import BLOCK_WORDS, MOST_BLOCKS, fill_blocks, key_words
from minsep.randomness.keys import Key

STRIPE = 1024
"""Columns that are made together: the first half of them have the cosines of its angles, the second half the sines."""

STRIPE_BLOCKS = STRIPE * 2 // BLOCK_WORDS
"""Blocks of the cipher for a stripe: two words of 32 bits for each column."""
MOST_COLUMNS = MOST_BLOCKS // STRIPE_BLOCKS * STRIPE
"""The most columns that a row can have."""

_PAIRS = STRIPE // 2
NORMALS, MORE_BITS = 0, 1
"""Planes of the cipher: words of normal variates, and third words of those that need more bits."""
_TWO_12, _TWO_22, _UNIT_64, _UNIT = 2.0**12, 2.0**22, 2.0**-64, 2.0**-74

_BITS_1, _BITS_2, _BITS_10, _BITS_12, _BITS_32, _BITS_42, _BITS_63 = (np.uint64(n) for n in (1, 2, 10, 12, 32, 42, 63))
_LOW_10, _LOW_12, _ALL, _NONE = (np.uint64(n) for n in (0x3FF, 0xFFF, 0xFFFFFFFFFFFFFFFF, 0))


@numba.njit(inline="always")
def _normal_pair(first, second, fraction):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return two independent standard normal variates from two words.

    Args:
        first: The first 64 bits of the radius.
        second: Ten further bits of the radius, and the bits of the angle.
        fraction: Where the radius is in its cell of 2**-74.
    """
    upper = first >> _BITS_63 != _NONE
    # The distance to the nearer of 0 and 1, so that its relative precision is the same at both ends.
    fold = _ALL if upper else _NONE
    near, spare = first ^ fold, ((second >> _BITS_2) ^ fold) & _LOW_10
    high = float_of((near >> _BITS_12) | INTEGER_PART) - TWO_52
    low = float_of(((near & _LOW_12) << _BITS_10) | spare | INTEGER_PART) - TWO_52
    h = (high * _TWO_22 + (low + fraction)) * _UNIT
    half_radius = math.sqrt(-log_of_side(h, upper))
    # The angle is pi/4 + turn, within the first quadrant; two signs move it to any of the four.
    turn = (math.pi / 2) * (float_of((second >> _BITS_12) | ONE) - 1.5)
    x = float_of(bits_of(half_radius * (cosine(turn) - sine(turn))) ^ (second << _BITS_63))
    y = float_of(bits_of(half_radius * (cosine(turn) + sine(turn))) ^ ((second >> _BITS_1) << _BITS_63))
    return x, y


@numba.njit(inline="always")
def _needs_more(first):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether a uniform number is so close to 0 or 1 that 74 bits do not give its first 52 (once in four million)."""
    return ((first ^ _ALL) if first >> _BITS_63 != _NONE else first) >> _BITS_42 == _NONE


@numba.njit(inline="always")
def _wide(low, high):  # type: ignore[no-untyped-def]  # pragma: no cover
    return np.uint64(low) | (np.uint64(high) << _BITS_32)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def transform(words, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set a stripe to normal variates, from the words of its blocks; return how many pairs need more bits.

    Args:
        words: Words by blocks. The first eight words of a block are four radii, the others four angles.
        out: The columns of the stripe.
    """
    blocks = words.shape[1]
    incomplete = 0
    for k in range(4):
        low, high, angle_low, angle_high = words[2 * k], words[2 * k + 1], words[2 * k + 8], words[2 * k + 9]
        lower, upper = out[k * blocks : (k + 1) * blocks], out[_PAIRS + k * blocks : _PAIRS + (k + 1) * blocks]
        for b in range(blocks):
            x, y = _normal_pair(_wide(low[b], high[b]), _wide(angle_low[b], angle_high[b]), 0.5)
            lower[b] = x
            upper[b] = y
        for b in range(blocks):
            incomplete += _needs_more(_wide(low[b], high[b]))
    return incomplete


@numba.njit(nogil=True, cache=True, error_model="numpy")
def complete(words, more, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set those pairs of a stripe again that need more bits.

    Args:
        words: Words by blocks, as `transform` reads them.
        more: Words by blocks, of which every two are a third word of a pair.
        out: The columns of the stripe.
    """
    blocks = words.shape[1]
    for i in range(_PAIRS):
        k, b = divmod(i, blocks)
        first, second = _wide(words[2 * k, b], words[2 * k + 1, b]), _wide(words[2 * k + 8, b], words[2 * k + 9, b])
        if _needs_more(first):
            place, block = divmod(i, more.shape[1])
            third = _wide(more[2 * place, block], more[2 * place + 1, block])
            third = ~third if first >> _BITS_63 != _NONE else third
            high = float_of((third >> _BITS_12) | INTEGER_PART) - TWO_52
            low = float_of((third & _LOW_12) | INTEGER_PART) - (TWO_52 - 0.5)
            x, y = _normal_pair(first, second, (high * _TWO_12 + low) * _UNIT_64)
            out[i], out[_PAIRS + i] = x, y


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_stripe(key, row, stripe, words, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set a stripe to the normal variates of a row under the words of a key.

    Args:
        words: Work space for the words of its blocks, from `work_space`.
        out: The columns of the stripe.
    """
    fill_blocks(key, stripe * STRIPE_BLOCKS, row, NORMALS, words)
    if transform(words, out):
        more = np.empty((BLOCK_WORDS, STRIPE_BLOCKS // 2), dtype=np.uint32)
        fill_blocks(key, stripe * (STRIPE_BLOCKS // 2), row, MORE_BITS, more)
        complete(words, more, out)


@numba.njit(inline="always")
def work_space():  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return memory for the words of a stripe, in compiled code."""
    return np.empty((BLOCK_WORDS, STRIPE_BLOCKS), dtype=np.uint32)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_stripes(key, row, first, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set stripes, from stripe `first` of a row on, to normal variates."""
    words = work_space()
    for stripe in range(out.shape[0]):
        fill_stripe(key, row, first + stripe, words, out[stripe])


class NormalRows:
    """Rows of independent standard normal variates, each value a function of (key, row, column).

    Args:
        key: The secret key.

    >>> rows = NormalRows(Key.from_seed(0))
    >>> whole = rows.fill(10, 0, np.empty((3, STRIPE)))
    >>> bool((rows.fill(10, 2, np.empty((1, STRIPE))) == whole[2]).all())
    True
    """

    def __init__(self, key: Key) -> None:
        self._key = key_words(key.secret)

    def fill(self, row: int, stripe: int, out: FloatArray) -> FloatArray:
        """Set stripes to those of a row, from a stripe on, and return them.

        Args:
            row: The number of the row, from 0.
            stripe: The number of its first stripe, from 0.
            out: Contiguous memory, stripes by columns of a stripe.
        """
        check_columns((stripe + len(out)) * STRIPE)
        fill_stripes(self._key, row, stripe, out)
        return out


def check_columns(end: int) -> None:
    """Refuse a row that is longer than the cipher can count.

    Args:
        end: The column after its last.
    """
    if end > MOST_COLUMNS:
        raise ValueError(f"A row of noise has {end} columns, but it must have at most {MOST_COLUMNS}.")
