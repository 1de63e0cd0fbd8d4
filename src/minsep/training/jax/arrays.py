"""Double precision in JAX, and conversion of its arrays to NumPy and back, bit by bit."""

from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

# A block with or without double precision, under the name that it has in this version of JAX.
enable_x64: Any = getattr(jax if hasattr(jax, "enable_x64") else jax.experimental, "enable_x64")  # noqa: B009


def to_array(value: Any) -> tuple[NDArray[Any], str] | None:
    """Return a JAX array as a NumPy array and the name of its dtype; None for any other value.

    Args:
        value: A JAX array. NumPy lacks some of its dtypes: their bits are kept as integers.

    >>> array, dtype = to_array(jnp.array([1.0, 2.0], dtype=jnp.bfloat16))
    >>> from_array(array, dtype)
    Array([1, 2], dtype=bfloat16)
    """
    if not isinstance(value, jax.Array):
        return None
    array = np.asarray(value)
    name = array.dtype.name
    return (array if hasattr(np, name) else array.view(f"u{array.dtype.itemsize}")), name


def from_array(array: NDArray[Any], name: str) -> jax.Array:
    """Return the JAX array that `to_array` was given.

    Args:
        array: The NumPy array.
        name: The name of the dtype.
    """
    return jnp.asarray(array.view(jnp.dtype(name)))
