import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_array_equal

from minsep.training.jax import PrivateTraining
from tests.training.jax.small import CLIP, EXAMPLES, data, loss, mechanism_of, weights


def test_an_optimizer_with_the_same_arrays_in_another_structure_is_refused(tmp_path):
    options = {"num_examples": EXAMPLES, "clip_norm": CLIP}
    PrivateTraining(weights(), loss, optax.adam(0.1), mechanism_of(), **options).save(tmp_path / "run")
    with pytest.raises(ValueError, match="has structure"):
        PrivateTraining.resume(tmp_path / "run", weights(), loss, optax.adabelief(0.1), mechanism_of(), **options)


def test_scaling_needs_second_moments():
    with pytest.raises(ValueError, match="scale_stability needs"):
        PrivateTraining(
            weights(), loss, optax.sgd(0.1), mechanism_of(), num_examples=EXAMPLES, clip_norm=CLIP, scale_stability=0.1
        )


def dropout_loss(parameters, x, y):
    inputs, key = x
    return loss(parameters, jnp.where(jax.random.bernoulli(key, 0.5, inputs.shape), 2 * inputs, 0.0), y)


def dropout_training():
    return PrivateTraining(
        weights(), dropout_loss, optax.sgd(0.1), mechanism_of(rate=0.2), num_examples=EXAMPLES, clip_norm=CLIP, seed=3
    )


def dropout_steps(trainer, until=10):
    inputs, targets = data()
    for indices in trainer.batches():
        trainer.step((inputs[indices], trainer.seeds(indices)), targets[indices])
        if trainer.steps == until:
            break
    return [np.asarray(leaf) for leaf in trainer.parameters]


def test_seeds_of_examples_are_keys_of_jax_and_a_run_with_dropout_resumes_bit_by_bit(tmp_path):
    straight = dropout_steps(dropout_training())
    first = dropout_training()
    dropout_steps(first, until=4)
    first.save(tmp_path / "run.checkpoint")
    resumed = PrivateTraining.resume(
        tmp_path / "run.checkpoint", weights(), dropout_loss, optax.sgd(0.1), mechanism_of(rate=0.2),
        num_examples=EXAMPLES, clip_norm=CLIP,
    )  # fmt: skip
    for one, other in zip(straight, dropout_steps(resumed), strict=True):
        assert_array_equal(one, other)


def test_a_loss_that_draws_from_numpy_when_it_is_traced_is_refused():
    def drawing(parameters, x, y):
        return loss(parameters, x * np.random.random(), y)  # noqa: NPY002

    trainer = PrivateTraining(
        weights(), drawing, optax.sgd(0.1), mechanism_of(rate=0.2), num_examples=EXAMPLES, clip_norm=CLIP
    )
    inputs, targets = data()
    indices = next(trainer.batches())
    with pytest.raises(ValueError, match="draws from np.random"):
        trainer.step(inputs[indices], targets[indices])
