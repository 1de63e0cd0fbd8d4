"""ChaCha20 (RFC 8439): random words of released noise, as a function of (key, row, position).

Compiled, many blocks at a time and without Python's global lock; OpenSSL, which is as fast, holds it. Operations are
additions, exclusive ors and rotations of 32-bit words, which take the same time whatever the key. A graphics card can
do them too, so noise made there is the noise made here.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic
from numpy.typing import NDArray

BLOCK_WORDS = 16
"""Words of 32 bits in a block."""
MOST_BLOCKS = 1 << 32
"""Blocks of one row: the cipher counts them in 32 bits."""

_WORD = np.uint32
CONSTANTS = tuple(_WORD(int.from_bytes(b"expand 32-byte k"[i : i + 4], "little")) for i in range(0, 16, 4))
_C0, _C1, _C2, _C3 = CONSTANTS
DOUBLE_ROUNDS = 10
_COLUMNS = tuple((i, i + 4, i + 8, i + 12) for i in range(4))
_DIAGONALS = tuple((i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4))


def key_words(secret: bytes) -> NDArray[np.uint32]:
    """Return the eight words of a key of 32 bytes.

    >>> key_words(bytes(32)).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0]
    """
    return np.frombuffer(secret, dtype="<u4").astype(np.uint32)


def _rounds(_context: Any, words: Any) -> Any:
    """Return the type and the code of ten double rounds of the sixteen words of a block, without a loop.

    A loop of rounds would keep the loop over blocks from being vectorised, and numba takes long to type so many lines.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x = [builder.extract_value(arguments[0], place) for place in range(BLOCK_WORDS)]

        def mix(first: int, second: int, third: int, turn: int) -> None:
            x[first] = builder.add(x[first], x[second])
            mixed = builder.xor(x[third], x[first])
            left, right = (ir.Constant(mixed.type, count) for count in (turn, 32 - turn))
            x[third] = builder.or_(builder.shl(mixed, left), builder.lshr(mixed, right))

        for _ in range(DOUBLE_ROUNDS):
            for a, b, c, d in _COLUMNS + _DIAGONALS:
                mix(a, b, d, 16)
                mix(c, d, b, 12)
                mix(a, b, d, 8)
                mix(c, d, b, 7)
        return context.make_tuple(builder, signature.return_type, x)

    return words(words), generate


_mixed: Any = intrinsic(_rounds)


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
        x = _mixed(x)
        o0[b], o1[b], o2[b], o3[b] = _WORD(x[0] + _C0), _WORD(x[1] + _C1), _WORD(x[2] + _C2), _WORD(x[3] + _C3)
        o4[b], o5[b], o6[b], o7[b] = _WORD(x[4] + k0), _WORD(x[5] + k1), _WORD(x[6] + k2), _WORD(x[7] + k3)
        o8[b], o9[b], o10[b], o11[b] = _WORD(x[8] + k4), _WORD(x[9] + k5), _WORD(x[10] + k6), _WORD(x[11] + k7)
        o12[b], o13[b] = _WORD(x[12] + count), _WORD(x[13] + n0)
        o14[b], o15[b] = _WORD(x[14] + n1), _WORD(x[15] + n2)
