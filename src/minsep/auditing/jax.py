"""The JAX adapter under audit: `minsep.training.jax.PrivateTraining` on a linear model."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from minsep.auditing.canaries import CanaryRun, is_resumed, layer_sizes
from minsep.training.jax import PrivateTraining


@dataclass(frozen=True)
class JaxLoop:
    """A loop that trains with `minsep.training.jax.PrivateTraining`. Each run compiles its step anew.

    Args:
        micro_batch: Number of examples whose gradients `PrivateTraining` holds in memory at once. None is all examples,
            so that all batches have one shape.
        resume_every: Of so many runs, one on average is interrupted and resumed from its checkpoint, so that some steps
            are repeated. A coin of each run decides. 0 is never.

    Examples:
        >>> import minsep
        >>> from minsep.auditing import Canaries, CanaryRun
        >>> identity = minsep.BandedToeplitz.identity(iterations=4)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.5), noise_multiplier=1.0)
        >>> run = CanaryRun(mechanism, Canaries.draw(3), num_examples=3, clip_norm=1.0)
        >>> JaxLoop()(run)
        >>> run.observed().releases.shape
        (64, 4)
    """

    micro_batch: int | None = None
    resume_every: int = 4

    def __call__(self, run: CanaryRun) -> None:
        """Take a run from its first step to its last.

        Args:
            run: The run, which provides the mechanism and the examples, and records what the loop releases.
        """
        layers = [jnp.zeros(size) for size in layer_sizes(run.dimension)]
        arguments = layers, _loss, _released(), run.mechanism
        options: dict[str, Any] = {
            "num_examples": run.num_examples,
            "clip_norm": run.clip_norm,
            "micro_batch": self.micro_batch or run.num_examples,
        }
        n = run.mechanism.iterations
        trainer = PrivateTraining(*arguments, seed=run.seed, **options)
        if not is_resumed(run, self.resume_every):
            _train(run, trainer, n)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.checkpoint"
            _train(run, trainer, n // 3)
            trainer.save(path)
            _train(run, trainer, 2 * n // 3)
            resumed = PrivateTraining.resume(path, *arguments, **options)
        _train(run, resumed, n)


def _loss(layers: list[jax.Array], example: jax.Array, target: jax.Array) -> jax.Array:
    return jnp.concatenate(layers) @ example


def _released() -> optax.GradientTransformation:
    """Return an optimiser that sets the weights to the gradient that it is given."""
    return optax.stateless(lambda gradient, weights: jax.tree.map(jnp.subtract, gradient, weights))


def _train(run: CanaryRun, trainer: PrivateTraining, until: int) -> None:
    while trainer.steps < until:
        step, indices = trainer.steps, next(trainer.batches())
        examples = run.examples(step, indices)
        trainer.step(examples, np.zeros(len(examples), dtype=np.float32))
        run.release(step, np.concatenate([np.asarray(layer, dtype=np.float64) for layer in trainer.parameters]))
