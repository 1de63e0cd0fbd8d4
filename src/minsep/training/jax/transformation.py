"""The noise of a mechanism as an optax gradient transformation."""

import jax
import jax.numpy as jnp
import optax

from minsep.core import validation as validate
from minsep.mechanism import Mechanism
from minsep.noise.grid import Grid
from minsep.randomness import Key
from minsep.training.jax.clipping import Tree
from minsep.training.jax.noise import NoiseState, Releases, flattened, released, unflattened
from minsep.training.run import check_clip_norm


def privatize(
    mechanism: Mechanism, *, clip_norm: float, expected_batch: float, seed: int | None = None
) -> optax.GradientTransformation:
    """Return the transformation of sums of clipped gradients to (sum + clip_norm * row of C^-1 Z) / expected batch.

    Sums go to the host, where `minsep.release` adds the noise in double precision and rounds to a public grid, through
    a callback that is a pure function of (key, row, sums). Sums must be float64, as `clipped_gradient` returns them.

    The state is the number of the row; rows out of order are computed again from the first one. Parameters are one flat
    vector in the order of their tree. Updates are NaN beyond the last iteration, for sums that are not finite, and for
    a second update from one state with other sums: the difference of the two would have no noise. For the same reason
    `init` can be called once: call `privatize` again for another run, or another group of `optax.multi_transform`.

    Args:
        mechanism: The mechanism that provides C and the noise multiplier.
        clip_norm: The norm to which the gradients in the sums were clipped.
        expected_batch: The public divisor, never the actual batch size.
        seed: A seed that makes the noise reproducible, and is as secret as the data. None takes a fresh key from the
            operating system. Such a key cannot be saved: `PrivateTraining` has checkpoints.

    Examples:
        >>> import minsep, numpy as np
        >>> from minsep.training.jax import clipped_gradient, padded
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=10, bands=3)
        >>> mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), noise_multiplier=1.0)
        >>> optimizer = optax.chain(privatize(mechanism, clip_norm=1.0, expected_batch=8.0), optax.sgd(0.1))
        >>> weights = jnp.zeros(5)
        >>> state = optimizer.init(weights)
        >>> gradient = clipped_gradient(lambda weights, x, y: weights @ x, clip_norm=1.0, micro_batch=8)
        >>> data = np.ones((8, 5), dtype=np.float32), np.zeros(8)
        >>> sums = gradient(weights, *padded(data, np.arange(8), 8), None)
        >>> updates, state = jax.jit(optimizer.update)(sums, state)
        >>> int(state[0].position)
        1
    """
    clip_norm = check_clip_norm(clip_norm)
    expected_batch = validate.real(expected_batch=expected_batch, above=0)
    return _transformation(mechanism, clip_norm, expected_batch, mechanism.noise_key(seed))


def _transformation(
    mechanism: Mechanism, clip_norm: float, expected_batch: float, key: Key
) -> optax.GradientTransformation:
    Grid(mechanism.strategy, mechanism.noise_multiplier).unit(clip_norm)
    releases = Releases(mechanism, key, clip_norm, expected_batch)

    def init(parameters: Tree) -> NoiseState:
        releases.begin(parameters)
        return NoiseState(jnp.zeros((), dtype=jnp.int32))

    def update(sums: Tree, state: NoiseState, parameters: Tree | None = None) -> tuple[Tree, NoiseState]:
        releases.check(sums)
        noisy = released(releases, state.position, flattened(sums), jax.dtypes.canonicalize_dtype(float))
        return unflattened(noisy, sums), NoiseState(state.position + 1)

    return optax.GradientTransformation(init, update)
