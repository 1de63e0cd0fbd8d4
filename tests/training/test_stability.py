"""Adam's second moments under scale-then-privatize: bounded below the condition of docs/adam.md, exploding above it."""

import warnings

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

import minsep
from minsep.training import jax as in_jax
from minsep.training.stability import largest_stable_clip_norm, warn_if_unstable
from minsep.training.torch import PrivateTraining, ScaleThenPrivatize

EXAMPLES, DECAY, STABILITY, SIZE = 20, 0.9, 1e-3, 300
STRATEGIES = {
    "independent": minsep.BandedToeplitz.identity(iterations=120),
    "correlated": minsep.BandedToeplitz.optimal(iterations=120, bands=6),
}


def mechanism_of(strategy, noise_multiplier=2.0):
    return minsep.Mechanism(STRATEGIES[strategy], minsep.Poisson(rate=0.5), noise_multiplier)


def trained(strategy, ratio, gradients=0.0):
    """Train on gradients of one size at a ratio to the largest stable clip norm; return the second moments."""
    mechanism = mechanism_of(strategy)
    clip_norm = ratio * largest_stable_clip_norm(mechanism, 0.5 * EXAMPLES)
    model = nn.Linear(SIZE, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, DECAY))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = PrivateTraining(
            model, lambda output, target: (output * target).sum(), optimizer, mechanism,
            num_examples=EXAMPLES, clip_norm=clip_norm, scaling=ScaleThenPrivatize(STABILITY), seed=1,
        )  # fmt: skip
    inputs = torch.full((EXAMPLES, SIZE), gradients)
    for indices in trainer.batches():
        trainer.step(inputs[indices], torch.ones(len(indices), 1))
    return optimizer.state[next(model.parameters())]["exp_avg_sq"].numpy().ravel()


@pytest.mark.parametrize(
    ("strategy", "gradients"),
    [
        ("correlated", 0.0),
        ("independent", 0.1),
        pytest.param("correlated", 0.1, marks=pytest.mark.slow),
        pytest.param("independent", 0.0, marks=pytest.mark.slow),
    ],
)
def test_second_moments_explode_above_the_condition_and_not_below(strategy, gradients):
    below = trained(strategy, 0.8, gradients)
    above = trained(strategy, 2.5, gradients)
    assert np.median(below) < 30 * (gradients**2 + STABILITY**2)
    assert np.median(above) > 1e6 * (gradients**2 + STABILITY**2)


def test_the_mean_is_bounded_as_proven():
    """Theorem 1 of docs/adam.md, for clip norms at 0.8 of the condition and gradients of 0.1 in batches of about 10."""
    ratio, bound_of_gradients, batch_factor = 0.8, 0.1, 1 + 1 / 10
    constant = batch_factor * bound_of_gradients**2 + ratio**2 * STABILITY**2 / (1 - ratio)
    assert trained("independent", ratio, bound_of_gradients).mean() < constant / (1 - ratio)


def test_the_mean_grows_at_least_as_proven():
    """At a ratio of 1.2 paths grow slowly and their mean faster: 10,000 paths of the recursion without data."""
    ratio, steps = 1.2, 40
    generator = np.random.default_rng(0)
    moments = np.zeros(10_000)
    for _ in range(steps):
        gradient = (np.sqrt(moments) + STABILITY) * ratio * generator.standard_normal(moments.size)
        moments = DECAY * moments + (1 - DECAY) * gradient**2
    growth = 1 + (1 - DECAY) * (ratio**2 - 1)
    least = ratio**2 * STABILITY**2 / (ratio**2 - 1) * (growth**steps - 1)
    assert moments.mean() > least


def test_noise_of_a_step_is_that_of_the_longest_row_of_the_inverse():
    for strategy in (*STRATEGIES.values(), minsep.Dense([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.5, 1.0, 2.0]])):
        rows = np.linalg.norm(np.linalg.inv(strategy.dense()), axis=1)
        assert np.isclose(strategy.largest_inverse_row_norm, rows.max())
    assert np.isclose(mechanism_of("correlated", 3.0).step_noise, 3 * STRATEGIES["correlated"].largest_inverse_row_norm)


def test_the_warning_names_the_largest_stable_clip_norm():
    mechanism = mechanism_of("independent")
    model = nn.Linear(3, 1)
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, DECAY))
    options = {"num_examples": EXAMPLES, "scaling": ScaleThenPrivatize()}
    with pytest.warns(UserWarning, match=r"clip_norm is 10, but with scaling it should be at most 5 .* 10\^13\.7 over"):
        PrivateTraining(model, nn.functional.mse_loss, adam, mechanism, clip_norm=10.0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateTraining(model, nn.functional.mse_loss, adam, mechanism, clip_norm=5.0, **options)
        PrivateTraining(model, nn.functional.mse_loss, adam, mechanism, clip_norm=10.0, num_examples=EXAMPLES)
        warn_if_unstable(mechanism, 5.0, 10.0)
    with pytest.warns(UserWarning, match="at most 5 for this noise and batch"):
        in_jax.PrivateTraining(
            jnp.zeros(3), lambda weights, x, y: weights @ x, optax.adam(0.1), mechanism,
            num_examples=EXAMPLES, clip_norm=10.0, scale_stability=1e-3,
        )  # fmt: skip
