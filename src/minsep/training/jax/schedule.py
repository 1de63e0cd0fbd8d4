"""Learning-rate schedules for optax, as functions of the step alone."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from minsep.training.schedule import LinearDecay


def linear_decay(learning_rate: float, iterations: int) -> optax.Schedule:
    """Return `LinearDecay` as an optax schedule.

    - `learning_rate`: the learning rate before the decay.
    - `iterations`: number of steps of the run.

    >>> schedule = linear_decay(0.2, iterations=1000)
    >>> [round(float(schedule(step)), 4) for step in (0, 250, 500, 750, 999)]
    [0.2, 0.2, 0.105, 0.01, 0.01]
    """
    decay = LinearDecay(iterations)

    def schedule(step: Any) -> jax.Array:
        done = jnp.clip((step - decay.begin) / decay.length, 0.0, 1.0)
        return learning_rate * ((1.0 - done) + decay.final * done)

    return schedule
