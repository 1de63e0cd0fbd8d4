"""A small model in JAX, and data for it."""

import jax
import jax.numpy as jnp
import numpy as np

import minsep

EXAMPLES, CLIP = 50, 0.8


def mechanism_of(iterations=10, bands=4, rate=0.08):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=rate, min_sep=bands), noise_multiplier=0.9)


def data():
    generator = np.random.default_rng(0)
    return generator.standard_normal((EXAMPLES, 5)).astype(np.float32), generator.integers(0, 3, EXAMPLES)


def weights():
    generator = np.random.default_rng(1)
    return [0.5 * generator.standard_normal(shape).astype(np.float32) for shape in ((4, 5), (4,), (3, 4), (3,))]


def loss(parameters, x, y):
    first, bias, second, second_bias = parameters
    return -jax.nn.log_softmax(second @ jnp.tanh(first @ x + bias) + second_bias)[y]
