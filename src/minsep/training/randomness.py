"""Random numbers of examples (augmentation, dropout): a function of (key, step, index) and of nothing else.

If examples draw one after another from one generator, an example that is sampled changes the numbers of all that
follow, and their contributions reveal it. So every example has its own random numbers. They do not depend on the
other examples of the batch, on the process or worker that draws them, or on whether the run was resumed.
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

    Args:
        key: The secret key. Each (step, index) has an independent seed under it.

    >>> seeds = ExampleSeeds(Key.from_seed(0))
    >>> seeds.of(step=3, index=7) == seeds.of(step=3, index=7)
    True
    >>> len({seeds.of(step, index) for step in range(10) for index in range(10)})
    100
    """

    key: Key

    def of(self, step: int, index: int) -> bytes:
        """Return the seed of an example in a step: 32 bytes.

        Args:
            step: Number of the step, from 0.
            index: Number of the example in the dataset.
        """
        return self._hash(b"example %d %d" % (step, index))

    def words(self, step: int, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return short seeds of several examples: two words for each, in rows.

        Args:
            step: Number of the step, from 0.
            indices: Numbers of the examples in the dataset.
        """
        digests = b"".join(self.of(step, int(index))[:8] for index in indices)
        return np.frombuffer(digests, dtype="<u4").astype(np.uint32).reshape(-1, 2)

    def _hash(self, what: bytes) -> bytes:
        return hashlib.blake2b(what, key=self.key.secret, digest_size=32).digest()


def seed_numpy_and_python(seed: bytes) -> None:
    """Seed the global generators of NumPy and of `random`.

    Args:
        seed: 32 bytes.
    """
    np.random.seed(np.frombuffer(seed, dtype="<u4").astype(np.uint32))  # noqa: NPY002 users' datasets draw from it
    random.seed(seed)


@contextmanager
def numpy_and_python_kept() -> Iterator[None]:
    """Restore the global generators of NumPy and of `random` at the end of a block."""
    of_numpy, of_python = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)


@contextmanager
def refusing_shared_draws() -> Iterator[None]:
    """Refuse a block of code for many examples that draws from the global generators of NumPy or of `random`."""
    before = _positions()
    yield
    for name, old, new in zip(("np.random", "random"), before, _positions(), strict=True):
        if old != new:
            raise ValueError(
                f"The model or its loss draws from {name}, whose numbers the examples of a micro-batch would share and "
                "so reveal each other: draw with the framework's own functions, or when examples are loaded."
            )


def _positions() -> tuple[object, object]:
    # As text, because a user may have replaced the generator by one with another kind of state.
    with np.printoptions(threshold=sys.maxsize):
        return str(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002
