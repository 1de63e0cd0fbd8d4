"""Random words of released noise, as a function of (key, row, position): ChaCha20 (RFC 8439), by OpenSSL.

A graphics card can compute the same cipher in integer operations, so noise made there is the noise made here.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from minsep.arrays import Words
from minsep.randomness.keys import Key

BLOCK_WORDS = 8
"""Words of 64 bits in one block of the cipher."""
MOST_BLOCKS = 1 << 32
"""Blocks of one row: the cipher counts them in 32 bits."""

_WORD_BYTES = 8
_ZEROS = bytes(1 << 20)


class RowWords:
    """Rows of uniform 64-bit words under one key.

    - `key`: the secret key.
    - `plane`: a number below 2**32. Rows of different planes are independent.

    >>> words = RowWords(Key.from_seed(0), plane=0)
    >>> whole = words.fill(3, 0, np.empty(64, dtype=np.uint64)).copy()
    >>> bool((words.fill(3, 6, np.empty(16, dtype=np.uint64)) == whole[48:]).all())
    True
    """

    def __init__(self, key: Key, plane: int) -> None:
        self._secret, self._plane = key.secret, plane

    def fill(self, row: int, block: int, out: Words) -> Words:
        """Fill a contiguous array with the words of a row, from a block of the cipher on, and return it."""
        if block + -(-out.size // BLOCK_WORDS) > MOST_BLOCKS:
            raise ValueError(f"A row of noise has too many values: it must end before block {MOST_BLOCKS}.")
        nonce = block.to_bytes(4, "little") + row.to_bytes(8, "little") + self._plane.to_bytes(4, "little")
        encryptor = Cipher(algorithms.ChaCha20(self._secret, nonce), None).encryptor()
        target = out.reshape(-1).view(np.uint8).data
        for offset in range(0, len(target), len(_ZEROS)):
            part = target[offset : offset + len(_ZEROS)]
            encryptor.update_into(memoryview(_ZEROS)[: len(part)], part)
        return out
