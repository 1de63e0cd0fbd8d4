"""Private training in JAX: an optax transformation that adds the noise, and a training loop around it."""

try:
    import jax  # noqa: F401
    import optax  # noqa: F401
except ModuleNotFoundError as error:
    from minsep.core.install import install_command

    raise ImportError(f"minsep.training.jax needs JAX and optax: {install_command('jax')}") from error

from minsep.training.jax.clipping import clipped_gradient, padded
from minsep.training.jax.noise import NoiseState
from minsep.training.jax.training import PrivateTraining
from minsep.training.jax.transformation import privatize

__all__ = ["NoiseState", "PrivateTraining", "clipped_gradient", "padded", "privatize"]
