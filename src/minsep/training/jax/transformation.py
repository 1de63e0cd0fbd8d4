"""The noise of a mechanism as an optax gradient transformation."""

import jax
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from minsep import _validation as validate
from minsep.mechanism import Mechanism
from minsep.noise.stability import check_stable
from minsep.randomness import Key
from minsep.training.jax.clipping import Tree
from minsep.training.jax.noise import NoiseState, Normals, draw, first_state, next_row, noise_dtype, secure_normals
from minsep.training.run import check_clip_norm


def privatize(
    mechanism: Mechanism,
    *,
    clip_norm: float,
    expected_batch: float,
    seed: int | None = None,
    normals: Normals | None = None,
) -> optax.GradientTransformation:
    """Return the transformation of sums of clipped gradients to (sum + clip_norm * row of C^-1 Z) / expected batch.

    - `mechanism`: provides C and the noise multiplier. Its strategy must be banded or have a banded inverse.
    - `clip_norm`: the norm to which the gradients in the sums were clipped.
    - `expected_batch`: the public divisor, never the actual batch size.
    - `seed`: makes the noise reproducible, and is as secret as the data. None is a fresh key from the operating system.
      Such a key cannot be saved: `PrivateTraining` has checkpoints.
    - `normals`: a function from the number of a row to its values, noise multiplier included, that replaces Z.

    The state is the past rows of noise (bands - 1 of them, float32, or float64 with jax_enable_x64) and the position.
    It is as secret as the data. Rows of Z come from a cryptographic generator on the host, through a callback that is a
    pure function of (key, row). Parameters are one flat vector in the order of their tree. Updates beyond the last
    iteration are NaN.

    >>> import jax.numpy as jnp, minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=10, bands=3)
    >>> mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), noise_multiplier=1.0)
    >>> optimizer = optax.chain(privatize(mechanism, clip_norm=1.0, expected_batch=8.0), optax.sgd(0.1))
    >>> weights = jnp.zeros(5)
    >>> state = optimizer.init(weights)
    >>> updates, state = jax.jit(optimizer.update)(jnp.ones(5), state)
    >>> state[0].past.shape, int(state[0].position)
    ((2, 5), 1)
    """
    clip_norm = check_clip_norm(clip_norm)
    expected_batch = validate.real(expected_batch=expected_batch, above=0)
    return transformation(mechanism, clip_norm, expected_batch, normals, mechanism.noise_key(seed))


def transformation(
    mechanism: Mechanism, clip_norm: float, expected_batch: float, normals: Normals | None, key: Key
) -> optax.GradientTransformation:
    """Return the transformation of `privatize` under a given key.

    - `mechanism`, `clip_norm`, `expected_batch`, `normals`: as for `privatize`.
    - `key`: the secret key of the rows of Z, unused if there are `normals`.
    """
    check_stable(mechanism.strategy, noise_dtype())

    def init(parameters: Tree) -> NoiseState:
        return first_state(mechanism, _size(parameters))

    def update(sums: Tree, state: NoiseState, parameters: Tree | None = None) -> tuple[Tree, NoiseState]:
        size = _size(sums)
        flat, shaped = ravel_pytree(jax.tree.map(lambda leaf: leaf.astype(noise_dtype()), sums))
        row = draw(normals or secure_normals(mechanism, size, key), size, state.position)
        noise, state = next_row(mechanism, row, state)
        return shaped((flat + clip_norm * noise) / expected_batch), state

    return optax.GradientTransformation(init, update)


def _size(tree: Tree) -> int:
    return sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree.leaves(tree))
