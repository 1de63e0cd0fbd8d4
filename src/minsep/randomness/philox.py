"""Normal variates for accounting: the counter-based generator Philox4x32-7, compiled into the transform.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). It is statistically strong and,
unlike the cipher behind `KeyedWords`, runs without Python's global lock. It is not meant for noise that is released.
"""

import math

import numba
import numpy as np

from minsep.core.arrays import Rows
from minsep.core.numerics import INTEGER_PART, ONE, TWO_52, bits_of, cosine, float_of, log_positive, sine
from minsep.randomness.keys import Key

_ROUNDS = 7  # the fewest with which its authors found no failure in any test of TestU01's BigCrush
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
_BITS_1, _BITS_12, _BITS_63 = (np.uint64(n) for n in (1, 12, 63))


def add_keyed_normals(rows: Rows, width: int, scale: float, key: Key, stream: int) -> None:
    """Add `scale` times standard normal variates to the first `width` entries, an even number, of contiguous rows.

    They are a function of (key, stream, row, width).

    >>> rows = np.zeros((2, 4))
    >>> add_keyed_normals(rows, 4, 1.0, Key.from_seed(0), stream=0)
    >>> again = np.zeros((1, 4))
    >>> add_keyed_normals(again, 4, 1.0, Key.from_seed(0), stream=0)
    >>> bool((again[0] == rows[0]).all())
    True
    """
    word = int.from_bytes(key.secret[:8], "little")
    add_philox_normals(rows, width // 2, scale, np.uint64(word), np.uint64(stream))


@numba.njit(inline="always")
def philox(position, stream, key):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the two 64-bit words of a block of the generator."""
    c0, c1, c2, c3 = position & _LOW, position >> _HALF_WORD, stream & _LOW, stream >> _HALF_WORD
    k0, k1 = key & _LOW, key >> _HALF_WORD
    for _ in range(_ROUNDS):
        even, odd = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (odd >> _HALF_WORD) ^ c1 ^ k0, odd & _LOW, (even >> _HALF_WORD) ^ c3 ^ k1, even & _LOW
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return c0 | (c1 << _HALF_WORD), c2 | (c3 << _HALF_WORD)


@numba.njit(inline="always")
def normal_pair(first, second):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return two independent standard normal variates from two words, up to 8.57 in size (docs/certified-sampling.md).

    Certificates repeat these numbers. Noise that is released has finer ones: `minsep.randomness.normals`.
    """
    # (k + 1/2) / 2**52 with k uniform on 52 bits: exact, and never 0 or 1.
    u = (float_of((first >> _BITS_12) | INTEGER_PART) - (TWO_52 - 0.5)) * (1.0 / TWO_52)
    half_radius = math.sqrt(-log_positive(u))
    # The angle is pi/4 + turn, within the first quadrant; two signs move it to any of the four.
    turn = (math.pi / 2) * (float_of((second >> _BITS_12) | ONE) - 1.5)
    x = float_of(bits_of(half_radius * (cosine(turn) - sine(turn))) ^ (second << _BITS_63))
    y = float_of(bits_of(half_radius * (cosine(turn) + sine(turn))) ^ ((second >> _BITS_1) << _BITS_63))
    return x, y


@numba.njit(nogil=True, cache=True, error_model="numpy")
def add_philox_normals(rows, half, scale, key, stream):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add `scale` times standard normal variates to rows."""
    for q in range(rows.shape[0]):
        first = np.uint64(q * half)
        lower, upper = rows[q, :half], rows[q, half : 2 * half]
        for i in range(half):
            one, two = philox(first + np.uint64(i), stream, key)
            x, y = normal_pair(one, two)
            lower[i] += scale * x
            upper[i] += scale * y
