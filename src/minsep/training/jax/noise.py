"""Correlated noise in JAX: rows of C^-1 Z by the recursion, with past rows in a ring buffer."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from minsep.mechanism import Mechanism
from minsep.randomness import Key, NormalRows
from minsep.strategy import BandedInverseToeplitz, BandedToeplitz

Row = NDArray[np.floating[Any]]
Normals = Callable[[int], Row]
"""Return a row of Z, from its number: independent normals with the noise multiplier as standard deviation."""


class NoiseState(NamedTuple):
    """The state of correlated noise between two steps.

    - `past`: past rows (of C^-1 Z for a banded C, of Z for a banded C^-1), each at its position modulo their number.
    - `position`: number of rows drawn so far.
    """

    past: jax.Array
    position: jax.Array


def noise_dtype() -> np.dtype[Any]:
    """Return the dtype of noise and of sums of gradients: float64 if jax_enable_x64 is set, and float32 otherwise.

    Noise on a coarser grid than the sums would reveal the last bits of the sums.
    """
    # Asked for without an operation: it is called on the host within compiled code, where one may wait for ever.
    return np.dtype(jax.dtypes.canonicalize_dtype(float))


def secure_normals(mechanism: Mechanism, size: int, key: Key) -> Normals:
    """Return the rows of Z that `Mechanism.noise` uses under the same key, as a function of their number.

    - `mechanism`: provides the noise multiplier.
    - `size`: length of a row.
    - `key`: the secret key, from `Mechanism.noise_key`.
    """
    rows = NormalRows(key)

    def row(position: int) -> Row:
        out: Row = np.zeros(size, dtype=noise_dtype())
        rows.add_to(out[None], position, mechanism.noise_multiplier)
        return out

    return row


def first_state(mechanism: Mechanism, size: int) -> NoiseState:
    """Return the state before the first row: `bands - 1` rows of zeros.

    - `mechanism`: its strategy must be banded or have a banded inverse.
    - `size`: length of a row.
    """
    past = jnp.zeros((_coefficients(mechanism).size - 1, size), dtype=noise_dtype())
    return NoiseState(past, jnp.zeros((), dtype=jnp.int32))


def next_row(mechanism: Mechanism, normals: jax.Array, state: NoiseState) -> tuple[jax.Array, NoiseState]:
    """Return the next row of C^-1 Z, and the state after it. Rows beyond the last one are NaN.

    - `mechanism`: provides C.
    - `normals`: the next row of Z.
    - `state`: the state after the previous row.
    """
    first, *later = _coefficients(mechanism)
    count = len(later)
    slots = jnp.arange(count)
    weights = jnp.asarray(np.array(later, dtype=noise_dtype()))[(state.position - 1 - slots) % max(count, 1)]
    reach_back = jnp.matmul(weights, state.past, precision=jax.lax.Precision.HIGHEST)
    if isinstance(mechanism.strategy, BandedToeplitz):
        row = kept = (normals - reach_back) / noise_dtype().type(first)
    else:
        row, kept = noise_dtype().type(first) * normals + reach_back, normals
    past = state.past.at[state.position % count].set(kept) if count else state.past
    row = jnp.where(state.position < mechanism.iterations, row, jnp.nan)
    return row, NoiseState(past, state.position + 1)


def draw(normals: Normals, size: int, position: jax.Array) -> jax.Array:
    """Return a row of Z, also within compiled code. It is computed on the host.

    - `normals`: a pure function from the number of a row to its values.
    - `size`: length of the row.
    - `position`: number of the row, from 0.
    """

    def on_host(position: Any) -> Row:
        return normals(int(position))

    if not isinstance(position, jax.core.Tracer):
        return jnp.asarray(on_host(position))
    shape = jax.ShapeDtypeStruct((size,), noise_dtype())  # type: ignore[no-untyped-call]
    row: jax.Array = jax.pure_callback(on_host, shape, position)
    return row


def _coefficients(mechanism: Mechanism) -> NDArray[np.float64]:
    match mechanism.strategy:
        case BandedToeplitz() as strategy:
            return strategy.coefficients
        case BandedInverseToeplitz() as strategy:
            return strategy.noise_coefficients
    raise ValueError(
        f"strategy is {mechanism.strategy!r}, but in JAX it must be a BandedToeplitz or BandedInverseToeplitz."
    )
