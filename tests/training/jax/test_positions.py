"""The gradient of an example must not depend on its position in a micro-batch: an operation that does, on purpose."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from minsep.training.jax import PrivateTraining, clipped_gradient, padded
from minsep.training.jax.arrays import enable_x64
from tests.training.jax.small import mechanism_of

one_bit_up = Primitive("one_bit_up")
one_bit_up.def_abstract_eval(lambda value: value)
ad.primitive_jvps[one_bit_up] = lambda values, tangents: (one_bit_up.bind(*values), tangents[0])


def _of_several(values, dimensions):
    """Numbers of the second half of the examples are one bit larger, unless a test says otherwise."""
    (rows,) = (jnp.moveaxis(value, dimension, 0) for value, dimension in zip(values, dimensions, strict=True))
    there = (jnp.arange(len(rows)) >= (len(rows) + 1) // 2) & affected(len(rows))
    there = there.reshape(-1, *[1] * (rows.ndim - 1))
    return jnp.where(there, jnp.nextafter(rows, jnp.inf), rows), 0


batching.primitive_batchers[one_bit_up] = _of_several


def affected(examples):
    return True


def loss(weight, x, level):
    """A loss with a kink at a level: the gradient is x above it, and zero at and below it."""
    return jax.nn.relu(one_bit_up.bind(weight * x) - level)


def data():
    """Two examples at a kink, and one before them that has no gradient anywhere."""
    return np.array([-5.0, 1.0, 1.0], np.float32), np.ones(3, np.float32)


def sums(gradient, indices, micro_batch=4):
    return float(gradient(jnp.ones(()), *padded(data(), indices, micro_batch), None))


def test_an_example_without_a_gradient_does_not_move_the_gradients_of_others():
    gradient = clipped_gradient(loss, 1.0, micro_batch=4)
    with pytest.warns(UserWarning, match="in a micro-batch of 4, .* minsep takes examples one by one, which is slower"):
        without = sums(gradient, [1, 2])
    assert without == sums(gradient, [0, 1, 2]) == 0.0


@pytest.mark.parametrize(("fine", "size"), [(lambda size: size % 8 == 0, 8), (lambda size: size <= 2, 2)])
def test_a_size_at_which_bits_agree_is_chosen(fine, size, monkeypatch):
    monkeypatch.setattr(f"{__name__}.affected", lambda examples: not fine(examples))
    gradient = clipped_gradient(loss, 1.0, micro_batch=5)
    with pytest.warns(UserWarning, match=rf"in a micro-batch of 5, .* minsep takes examples {size} at a time\.$"):
        without = sums(gradient, [1, 2], 5)
    assert without == sums(gradient, [0, 1, 2], 5) == 0.0


def test_a_training_chooses_a_size_when_it_takes_its_first_step():
    trainer = PrivateTraining(
        jnp.ones(()), loss, optax.sgd(0.1), mechanism_of(), num_examples=50, clip_norm=1.0, micro_batch=4, seed=1
    )
    inputs, levels = np.ones(50, np.float32), np.ones(50, np.float32)
    indices = next(trainer.batches())
    assert indices.size
    with pytest.warns(UserWarning, match="one by one, which is slower"):
        trainer.step(inputs[indices], levels[indices])


def test_losses_without_a_gradient_run_one_by_one():
    gradient = clipped_gradient(lambda weight, x, y: 0.0 * weight * x, 1.0, micro_batch=4)
    with pytest.warns(UserWarning, match="one by one, which is slower. To see whether .* are zero or not finite"):
        assert sums(gradient, [0, 1, 2]) == 0.0


def test_double_precision_is_compared_too():
    with enable_x64(True):
        gradient = clipped_gradient(loss, 1.0, micro_batch=4)
        with pytest.warns(UserWarning, match="one by one, which is slower"):
            gradient(jnp.ones(()), *padded((np.array([-5.0, 1.0]), np.ones(2)), [0, 1], 4), None)
