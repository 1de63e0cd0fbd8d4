"""Releases in JAX: sums go to the host, where noise is made, and come back with it."""

import hashlib
import os
import threading
from typing import Any, NamedTuple, Never

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import FloatArray
from minsep.core.state import check_process
from minsep.mechanism import Mechanism
from minsep.noise import NoiseStream
from minsep.randomness import Key
from minsep.training.jax.arrays import enable_x64


class NoiseState(NamedTuple):
    """The state of correlated noise between two steps.

    Attributes:
        position: Number of rows released so far. Past rows stay on the host.
    """

    position: jax.Array


class Releases:
    """Noisy sums as a pure function of the sums and of the number of their row. A row is released with one sum only.

    Rows in order are cheap. An earlier row, or one that was skipped to, costs all rows before it. Nothing is released
    before `begin` has said for which tree, once: two trees would be given the same noise.

    Args:
        mechanism: The mechanism that provides C and the noise multiplier.
        key: The secret key, from `Mechanism.noise_key`.
        clip_norm: Bound on the norm of the gradient of one example.
        divisor: What noisy sums are divided by.
    """

    def __init__(self, mechanism: Mechanism, key: Key, clip_norm: float, divisor: float) -> None:
        self._mechanism, self._key = mechanism, key
        self._clip_norm, self._divisor = clip_norm, divisor
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._shapes: list[tuple[int, ...]] | None = None
        self._released: dict[int, bytes] = {}

    def __reduce__(self) -> Never:
        """Refuse to be copied or pickled."""
        raise TypeError("What privatize returns cannot be pickled: the copy would have the same noise.")

    def begin(self, tree: Any) -> None:
        """Release sums of this form from now on.

        Args:
            tree: A tree of the form of the sums.
        """
        with self._lock:
            check_process(self._process)
            if self._shapes is not None:
                raise RuntimeError(
                    "The transformation of privatize was initialised before: a second set of parameters would be given "
                    "the same noise. Call privatize again for each use: for another run, or for another group of "
                    "multi_transform."
                )
            self._shapes = _shapes(tree)
            self._size = size_of(tree)
            self._stream = self._first()

    def check(self, tree: Any) -> None:
        """Refuse sums before `begin`, or of another form.

        Args:
            tree: The sums, which may be traced.
        """
        if self._shapes is None:
            raise RuntimeError("The transformation of privatize was not initialised: call its init once before update.")
        if _shapes(tree) != self._shapes:
            raise ValueError(
                f"The sums have shapes {_shapes(tree)}, but the transformation of privatize was initialised for "
                f"{self._shapes}."
            )

    def __call__(self, position: Any, sums: Any) -> FloatArray:
        """Return noisy sums over the divisor.

        They are NaN where there is no such row, where sums cannot be released, and where the row was released with
        other sums: the difference of the two would have no noise.

        Args:
            position: Number of the row, from 0.
            sums: A flat array in float64.
        """
        noisy, row = np.array(sums, dtype=np.float64), int(position)
        digest = hashlib.blake2b(noisy.data, digest_size=32).digest()
        with self._lock:
            check_process(self._process)
            if not 0 <= row < self._mechanism.iterations or self._released.setdefault(row, digest) != digest:
                return np.full_like(noisy, np.nan)
            if row < self._stream.position:
                self._stream = self._first()
            while self._stream.position < row:
                next(self._stream)
            try:
                self._stream.release_next(noisy, self._clip_norm)
            except ValueError:
                return np.full_like(noisy, np.nan)
        return noisy / self._divisor

    def _first(self) -> NoiseStream:
        mechanism = self._mechanism
        return NoiseStream(
            mechanism.strategy,
            mechanism.noise_multiplier,
            self._size,
            None,
            self._key,
            fingerprint=mechanism.fingerprint,
        )


def released(releases: Releases, position: jax.Array, sums: jax.Array, dtype: Any) -> jax.Array:
    """Return noisy sums, also within compiled code. They are computed on the host.

    Args:
        releases: The releases, which add the noise.
        position: Number of the row, from 0.
        sums: A flat vector.
        dtype: Dtype of the result.
    """

    def on_host(position: Any, words: Any) -> NDArray[Any]:
        return releases(position, np.ascontiguousarray(words).view(np.float64)[:, 0]).astype(dtype)

    if not isinstance(position, jax.core.Tracer) and not isinstance(sums, jax.core.Tracer):
        return jnp.asarray(releases(position, sums).astype(dtype))
    with enable_x64(True):
        # As pairs of words: without jax_enable_x64 a callback is given numbers of single precision.
        words = jax.lax.bitcast_convert_type(sums, jnp.uint32)
    shape = jax.ShapeDtypeStruct(sums.shape, dtype)  # type: ignore[no-untyped-call]
    result: jax.Array = jax.pure_callback(on_host, shape, position, words)
    return result


def _shapes(tree: Any) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in jax.tree.leaves(tree)]


def size_of(tree: Any) -> int:
    """Return the number of values of all leaves of a tree.

    Args:
        tree: A tree of arrays.
    """
    return sum(np.size(leaf) for leaf in jax.tree.leaves(tree))


def flattened(tree: Any) -> jax.Array:
    """Return the leaves of a tree as one vector in double precision, in or outside of compiled code.

    Args:
        tree: A tree of arrays of float64, taken in the order of `jax.tree.leaves`. Other dtypes are refused.
    """
    leaves = jax.tree.leaves(tree)
    for leaf in leaves:
        if leaf.dtype != np.float64:
            raise ValueError(
                f"A sum of clipped gradients has dtype {leaf.dtype}, but it must have float64, as clipped_gradient "
                "returns it: in single precision, rounding may exceed the clip norm."
            )
    with enable_x64(True):
        return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])


def unflattened(flat: jax.Array, like: Any) -> Any:
    """Return a tree whose leaves are parts of a vector.

    Args:
        flat: The vector.
        like: A tree of arrays of the shapes of the leaves.
    """
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = jnp.split(flat, ends[:-1])
    return jax.tree.unflatten(
        structure, [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    )
