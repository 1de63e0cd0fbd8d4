"""Standard normal variates for released noise: a function of (key, row, column), the same on every processor.

The Box-Muller transform in float64. A uniform number is known to a relative 2**-53, near 0 and near 1 alike, so values
are right up to 10.9 standard deviations, and nearly so up to 11.9 (a normal variate lies beyond with probability
1e-32): docs/rounding.md proves how far they are from exact normals. Nothing here is fused or reordered by the compiler.
"""

import math
import threading

import numba
import numpy as np

from minsep.arrays import FloatArray, Words
from minsep.numerics import INTEGER_PART, ONE, TWO_52, bits_of, cosine, float_of, log_of_side, sine
from minsep.randomness.chacha import BLOCK_WORDS, RowWords
from minsep.randomness.keys import Key

STRIPE = 1024
"""Columns that are made together: the first half of them have the cosines of its angles, the second half the sines."""

_PAIRS = STRIPE // 2
_NORMALS, _MORE_BITS = 0, 1  # planes of the cipher
_TWO_12, _TWO_22, _UNIT_64, _UNIT = 2.0**12, 2.0**22, 2.0**-64, 2.0**-74

_BITS_1, _BITS_2, _BITS_10, _BITS_12, _BITS_42, _BITS_63 = (np.uint64(n) for n in (1, 2, 10, 12, 42, 63))
_LOW_10, _LOW_12, _ALL, _NONE = (np.uint64(n) for n in (0x3FF, 0xFFF, 0xFFFFFFFFFFFFFFFF, 0))


@numba.njit(inline="always")
def _normal_pair(first, second, fraction):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return two independent standard normal variates from two words.

    The radius has the 64 bits of the first word and ten of the second; `fraction` is where in its cell of 2**-74 it is.
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


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_normals(words, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set stripes to normal variates, from stripes of 512 radii and 512 angles; return how many need more bits."""
    incomplete = 0
    for stripe in range(words.shape[0]):
        radii, angles = words[stripe, 0], words[stripe, 1]
        lower, upper = out[stripe, :_PAIRS], out[stripe, _PAIRS:]
        for i in range(_PAIRS):
            x, y = _normal_pair(radii[i], angles[i], 0.5)
            lower[i] = x
            upper[i] = y
        for i in range(_PAIRS):
            incomplete += _needs_more(radii[i])
    return incomplete


@numba.njit(nogil=True, cache=True, error_model="numpy")
def complete_normals(words, more, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set those pairs again that need more bits, from a third word for each."""
    for stripe in range(words.shape[0]):
        for i in range(_PAIRS):
            first = words[stripe, 0, i]
            if _needs_more(first):
                extra = ~more[stripe, i] if first >> _BITS_63 != _NONE else more[stripe, i]
                high = float_of((extra >> _BITS_12) | INTEGER_PART) - TWO_52
                low = float_of((extra & _LOW_12) | INTEGER_PART) - (TWO_52 - 0.5)
                fraction = (high * _TWO_12 + low) * _UNIT_64
                x, y = _normal_pair(first, words[stripe, 1, i], fraction)
                out[stripe, i], out[stripe, _PAIRS + i] = x, y


class NormalRows:
    """Rows of independent standard normal variates, each value a function of (key, row, column).

    - `key`: the secret key.

    >>> rows = NormalRows(Key.from_seed(0))
    >>> whole = rows.fill(10, 0, np.empty((3, STRIPE)))
    >>> bool((rows.fill(10, 2, np.empty((1, STRIPE))) == whole[2]).all())
    True
    """

    def __init__(self, key: Key) -> None:
        self._words, self._more = (RowWords(key, plane) for plane in (_NORMALS, _MORE_BITS))
        self._buffers = threading.local()

    def fill(self, row: int, stripe: int, out: FloatArray) -> FloatArray:
        """Set stripes to those of a row, from a stripe on, and return them.

        - `row`, `stripe`: the row and its first stripe, from 0.
        - `out`: contiguous, stripes by columns of a stripe.
        """
        words = self._buffer(len(out))
        self._words.fill(row, stripe * (STRIPE // BLOCK_WORDS), words)
        if fill_normals(words, out):
            more = np.empty((len(out), _PAIRS), dtype=np.uint64)
            complete_normals(words, self._more.fill(row, stripe * (_PAIRS // BLOCK_WORDS), more), out)
        return out

    def _buffer(self, stripes: int) -> Words:
        """Return memory for words, which each thread keeps: fresh memory costs as much as what is written to it."""
        kept: Words | None = getattr(self._buffers, "words", None)
        if kept is None or len(kept) < stripes:
            kept = self._buffers.words = np.empty((stripes, 2, _PAIRS), dtype=np.uint64)
        return kept[:stripes]
