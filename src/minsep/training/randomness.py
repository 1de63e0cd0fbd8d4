"""Randomness of examples on their way (augmentation, dropout): a function of (key, step, index) and of nothing else.

Examples that draw one after another from one generator tell who came before them: when an example is sampled, all that
follow it draw other numbers, and their contributions show that. So every example has numbers of its own. They are then
the same whoever else is in the batch, whatever process or worker draws them, and when a run is resumed.
"""

import hashlib
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minsep.randomness import Key


@dataclass(frozen=True)
class ExampleSeeds:
    """Seeds of single examples under one secret key.

    >>> seeds = ExampleSeeds(Key.from_seed(0))
    >>> seeds.of(step=3, index=7) == seeds.of(step=3, index=7)
    True
    >>> len({seeds.of(step, index) for step in range(10) for index in range(10)})
    100
    """

    key: Key

    def of(self, step: int, index: int) -> bytes:
        """Return the 32 bytes of an example in a step."""
        return self._hash(b"example %d %d" % (step, index))

    def of_batch(self, step: int) -> bytes:
        """Return the 32 bytes of a step as a whole."""
        return self._hash(b"batch %d" % step)

    def words(self, step: int, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return two words for each of several examples, in rows."""
        digests = b"".join(self.of(step, int(index))[:8] for index in indices)
        return np.frombuffer(digests, dtype="<u4").astype(np.uint32).reshape(-1, 2)

    def _hash(self, what: bytes) -> bytes:
        return hashlib.blake2b(what, key=self.key.secret, digest_size=32).digest()


def seed_numpy_and_python(seed: bytes) -> None:
    """Set the global generators of NumPy and of `random`."""
    np.random.seed(np.frombuffer(seed, dtype="<u4").astype(np.uint32))  # noqa: NPY002 what users' datasets draw from
    random.seed(seed)


@contextmanager
def numpy_and_python_kept() -> Iterator[None]:
    """Leave the global generators of NumPy and of `random` as they were."""
    of_numpy, of_python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)


@contextmanager
def refusing_shared_draws() -> Iterator[None]:
    """Refuse code for many examples at once that draws from the global generator of NumPy or of `random`."""
    before = _positions()
    yield
    for name, old, new in zip(("np.random", "random"), before, _positions(), strict=True):
        if old != new:
            raise ValueError(
                f"The model or its loss draws from {name}, whose numbers the examples of a micro-batch share, so that "
                "they would tell of each other: draw by the framework's own functions, or when examples are loaded."
            )


def _positions() -> tuple[object, object]:
    # As text, because a user may have put another generator with another state in its place.
    with np.printoptions(threshold=sys.maxsize):
        return str(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002
