"""ChaCha20 (RFC 8439): random words of released noise, as a function of (key, row, position).

Compiled, many blocks at a time and without Python's global lock; OpenSSL, which is as fast, holds it. Operations are
additions, exclusive ors and rotations of 32-bit words, which take the same time whatever the key. A graphics card can
do them too, so noise made there is the noise made here.
"""

import numba
import numpy as np
from numpy.typing import NDArray

BLOCK_WORDS = 16
"""Words of 32 bits in a block."""
MOST_BLOCKS = 1 << 32
"""Blocks of one row: the cipher counts them in 32 bits."""

_WORD = np.uint32
_CONSTANTS = tuple(_WORD(int.from_bytes(b"expand 32-byte k"[i : i + 4], "little")) for i in range(0, 16, 4))
_C0, _C1, _C2, _C3 = _CONSTANTS
_16, _12, _8, _7 = (_WORD(turn) for turn in (16, 12, 8, 7))
_20, _24, _25 = (_WORD(32 - turn) for turn in (12, 8, 7))


def key_words(secret: bytes) -> NDArray[np.uint32]:
    """Return the eight words of a key of 32 bytes.

    >>> key_words(bytes(32)).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0]
    """
    return np.frombuffer(secret, dtype="<u4").astype(np.uint32)


@numba.njit(inline="always")
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]  # pragma: no cover
    a = _WORD(a + b)
    d = _WORD(d ^ a)
    d = _WORD((d << _16) | (d >> _16))
    c = _WORD(c + d)
    b = _WORD(b ^ c)
    b = _WORD((b << _12) | (b >> _20))
    a = _WORD(a + b)
    d = _WORD(d ^ a)
    d = _WORD((d << _8) | (d >> _24))
    c = _WORD(c + d)
    b = _WORD(b ^ c)
    b = _WORD((b << _7) | (b >> _25))
    return a, b, c, d


@numba.njit(inline="always")
def _double_round(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Mix the columns, and then the diagonals, of the sixteen words of a block."""
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = x
    x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
    x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
    x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
    x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
    x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
    x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
    x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
    x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_blocks(key, first, row, plane, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set an array, words by blocks, to blocks `first`, `first + 1`, ... of a row in a plane.

    The nonce is the row, of 64 bits, and the plane. A block is a column of the array, so that the loop over blocks is
    turned into vector instructions.
    """
    k0, k1, k2, k3, k4, k5, k6, k7 = key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]
    n0, n1, n2 = _WORD(row & 0xFFFFFFFF), _WORD(row >> 32), _WORD(plane)
    o0, o1, o2, o3, o4, o5, o6, o7 = out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7]
    o8, o9, o10, o11, o12, o13, o14, o15 = out[8], out[9], out[10], out[11], out[12], out[13], out[14], out[15]
    start = _WORD(first)
    for b in range(o0.size):
        count = _WORD(start + _WORD(b))
        x = (_C0, _C1, _C2, _C3, k0, k1, k2, k3, k4, k5, k6, k7, count, n0, n1, n2)
        # Ten times, and not in a loop, which would keep the one over blocks from being vectorised.
        x = _double_round(_double_round(_double_round(_double_round(_double_round(x)))))
        x = _double_round(_double_round(_double_round(_double_round(_double_round(x)))))
        o0[b], o1[b], o2[b], o3[b] = _WORD(x[0] + _C0), _WORD(x[1] + _C1), _WORD(x[2] + _C2), _WORD(x[3] + _C3)
        o4[b], o5[b], o6[b], o7[b] = _WORD(x[4] + k0), _WORD(x[5] + k1), _WORD(x[6] + k2), _WORD(x[7] + k3)
        o8[b], o9[b], o10[b], o11[b] = _WORD(x[8] + k4), _WORD(x[9] + k5), _WORD(x[10] + k6), _WORD(x[11] + k7)
        o12[b], o13[b] = _WORD(x[12] + count), _WORD(x[13] + n0)
        o14[b], o15[b] = _WORD(x[14] + n1), _WORD(x[15] + n2)
