"""Random words as a function of (key, stream, position): AES-256 in counter mode, by OpenSSL.

A stream is addressed, never consumed: any part of it can be computed at any time, in any order and from any thread, and
is always the same. So results do not depend on the number of workers, and a run can resume anywhere.
"""

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from minsep.core import validation as validate

WORD_BYTES = 8
_CIPHER_BLOCK_WORDS = 2
_ZEROS = bytes(1 << 20)


@dataclass(frozen=True)
class Key:
    """A 256-bit secret from which streams of random words are derived.

    Anyone who knows the key knows every past and future batch and noise value derived from it.

    >>> Key.from_seed(7) == Key.from_seed(7)
    True
    >>> Key.fresh() == Key.fresh()
    False
    >>> Key.fresh()
    Key(secret)
    """

    secret: bytes = field(repr=False)

    def __repr__(self) -> str:
        return "Key(secret)"

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != 32:
            raise ValueError("The key must be 32 bytes.")

    @classmethod
    def fresh(cls) -> "Key":
        """Draw a key from the operating system's entropy."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_seed(cls, seed: int) -> "Key":
        """Derive a key from a seed of any size: reproducible, and only as secret as the seed."""
        seed = validate.integer(seed=seed, at_least=0)
        return cls(hashlib.sha256(b"minsep seed " + str(seed).encode()).digest())

    @classmethod
    def of(cls, seed: int | None) -> "Key":
        """Return the key of a seed, or a fresh key if there is no seed."""
        return cls.fresh() if seed is None else cls.from_seed(seed)

    @classmethod
    def from_hex(cls, text: str) -> "Key":
        """Read a key from its text in a saved state."""
        try:
            return cls(bytes.fromhex(text))
        except (TypeError, ValueError):
            raise ValueError("The key must be 32 bytes, written as 64 hexadecimal digits.") from None

    def hex(self) -> str:
        """Return the key as text, for a saved state."""
        return self.secret.hex()

    def derive(self, purpose: str) -> "Key":
        """Return an independent key for another purpose."""
        return Key(hashlib.blake2b(purpose.encode(), key=self.secret, digest_size=32).digest())


class KeyedWords:
    """Streams of uniform 64-bit words under one key, numbered from 0 to 2**64 - 1.

    >>> words = KeyedWords(Key.from_seed(0))
    >>> whole = words.take(stream=3, count=1000)
    >>> part = words.take(stream=3, count=10, start=990)
    >>> bool((whole[990:] == part).all())
    True
    """

    def __init__(self, key: Key) -> None:
        self._algorithm = algorithms.AES256(key.secret)

    def take(self, stream: int, count: int, start: int = 0) -> NDArray[np.uint64]:
        """Return `count` words of a stream from word `start` on, which must be even."""
        words = np.empty(count + _CIPHER_BLOCK_WORDS, dtype=np.uint64)
        return self.fill(stream, words, start)[:count]

    def fill(self, stream: int, buffer: NDArray[np.uint64], start: int = 0) -> NDArray[np.uint64]:
        """Fill all but the last two words of a contiguous buffer, and return them."""
        if start % _CIPHER_BLOCK_WORDS:
            raise ValueError(f"start is {start}, but it must be even: the cipher gives two words at a time.")
        counter = (stream << 64) + start // _CIPHER_BLOCK_WORDS
        encryptor = Cipher(self._algorithm, modes.CTR(counter.to_bytes(16, "big"))).encryptor()
        target = buffer.view(np.uint8).data
        length = len(target) - _CIPHER_BLOCK_WORDS * WORD_BYTES
        for offset in range(0, length, len(_ZEROS)):
            size = min(len(_ZEROS), length - offset)
            # OpenSSL needs room for one more cipher block than it writes.
            encryptor.update_into(memoryview(_ZEROS)[:size], target[offset:])
        return buffer[:-_CIPHER_BLOCK_WORDS]
