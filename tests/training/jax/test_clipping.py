import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from minsep.training.jax import clipped_gradient, padded
from tests.training.jax.small import CLIP, data, loss, weights


@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_sum_equals_a_loop_over_examples(count):
    inputs, targets = data()
    gradient = clipped_gradient(loss, CLIP, micro_batch=4)
    found = gradient(weights(), *padded((inputs[:count], targets[:count]), count, 4), None)
    total = [np.zeros_like(value) for value in weights()]
    for x, y in zip(inputs[:count], targets[:count], strict=True):
        one = jax.grad(loss)(weights(), x, y)
        norm = np.sqrt(sum(float(jnp.sum(part**2)) for part in one))
        total = [so_far + part * min(1.0, (1 - 2**-14) * CLIP / norm) for so_far, part in zip(total, one, strict=True)]
    for one, other in zip(found, total, strict=True):
        assert_allclose(one, other, atol=1e-6)


def test_padding_counts_for_nothing_even_if_it_is_not_finite():
    inputs, targets = data()
    gradient = clipped_gradient(loss, CLIP, micro_batch=4)
    some, their_targets, mask = padded((inputs[:3], targets[:3]), 3, 4)
    clean = gradient(weights(), some, their_targets, mask, None)
    some[3] = np.nan
    for one, other in zip(clean, gradient(weights(), some, their_targets, mask, None), strict=True):
        assert_array_equal(one, other)


def test_norms_of_long_gradients_are_not_too_small():
    # Eight large entries and many small ones: squares of the small ones are lost in a sum of single precision.
    row = np.full(1 << 20, 2.43e-4, dtype=np.float32)
    row[:8] = 1.0
    gradient = clipped_gradient(lambda weight, x, y: (weight * x).sum(), CLIP, micro_batch=1)
    sums = np.asarray(gradient(np.zeros(1 << 20, np.float32), row[None], np.zeros(1), np.array([True]), None))
    assert CLIP * (1 - 2**-13) < np.linalg.norm(sums.astype(np.float64)) <= CLIP
