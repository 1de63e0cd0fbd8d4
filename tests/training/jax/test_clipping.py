import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import minsep
from minsep.training.jax import PrivateTraining, clipped_gradient, padded
from tests.training.jax.small import CLIP, EXAMPLES, data, loss, mechanism_of, weights


@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_sum_equals_a_loop_over_examples(count):
    inputs, targets = data()
    gradient = clipped_gradient(loss, CLIP, micro_batch=4)
    found = gradient(weights(), *padded((inputs, targets), np.arange(count), 4), None)
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
    some, their_targets, mask = padded((inputs, targets), range(3), 4)
    clean = gradient(weights(), some, their_targets, mask, None)
    some[3] = np.nan
    for one, other in zip(clean, gradient(weights(), some, their_targets, mask, None), strict=True):
        assert_array_equal(one, other)


def test_padding_takes_the_rows_of_a_batch_and_refuses_what_is_none():
    inputs, targets = data()
    some, their_targets, mask = padded((inputs, {"of": targets}), [7, 2, 9], 4)
    assert_array_equal(some, inputs[[7, 2, 9, 7]])
    assert_array_equal(their_targets["of"], targets[[7, 2, 9, 7]])
    assert_array_equal(mask, [True, True, True, False])
    for indices, sentence in (
        ([3, -1, -1], "from -1 to 3, but with 50 examples they must be from 0 to 49: leave padding out"),
        ([3, 50], "from 3 to 50, but"),
        ([3, 3], "the same example more than once"),
        (5, r"shape \(\)"),
        (np.ones(50, dtype=bool), "dtype bool"),
    ):
        for array in (inputs, jnp.asarray(inputs)):
            with pytest.raises(ValueError, match=sentence):
                padded((array,), indices, 4)


def test_examples_of_truncated_batches_count_once():
    """A gradient of clip norm 1 along a coordinate for each example: what it is counted for is its coordinate."""
    cut = minsep.Truncation(batch_size=8)
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=20), minsep.Poisson(rate=0.1), 1.0, cut)
    gradient = clipped_gradient(lambda weights, x, y: weights @ x, 1.0, micro_batch=8)
    examples = np.eye(60, dtype=np.float32)
    sizes = set()
    for indices in mechanism.batches(num_examples=60, seed=1):
        sums = gradient(jnp.zeros(60), *padded((examples, np.zeros(60)), indices, 8), None)
        assert_allclose(sums, np.isin(np.arange(60), indices), atol=1e-4)
        sizes.add(indices.size)
    assert min(sizes) < max(sizes) == 8


@pytest.mark.parametrize("parameters", [[jnp.ones(2), jnp.ones(2, complex)], [jnp.ones(2), jnp.ones(2, int)]])
def test_parameters_that_are_not_real_are_refused(parameters):
    def loss_of_parts(parameters, x, y):
        return jnp.sum(jnp.abs(parameters[0] * parameters[1] - x) ** 2)

    sentence = r"parameters\[1\] has dtype (complex64|int32), but it must have a real floating-point dtype"
    gradient = clipped_gradient(loss_of_parts, CLIP, micro_batch=1)
    with pytest.raises(ValueError, match=sentence):
        gradient(parameters, np.ones((1, 2)), np.ones(1), np.array([True]), None)
    with pytest.raises(ValueError, match=sentence):
        PrivateTraining(
            parameters, loss_of_parts, optax.sgd(0.1), mechanism_of(), num_examples=EXAMPLES, clip_norm=CLIP
        )


@jax.custom_batching.custom_vmap
def mixed(x):
    return x


@mixed.def_vmap
def _(size, batched, x):
    return x + x.sum(axis=0), True


def on_host(function, x, method):
    return jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=method)


@jax.custom_vjp
def hiding(x):
    return x


hiding.defvjp(lambda x: (on_host(np.copy, x, "expand_dims"), None), lambda _, gradient: (gradient,))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (mixed, "custom_vmap"),
        (jax.jit(mixed), "custom_vmap"),
        (lambda x: jax.lax.cond(x[0] > 0, mixed, jnp.sin, x), "custom_vmap"),
        (lambda x: jax.lax.scan(lambda so_far, one: (so_far, mixed(one)), 0.0, x)[1], "custom_vmap"),
        (lambda x: on_host(np.copy, x, "expand_dims"), "pure_callback"),
        (lambda x: on_host(np.copy, x, "broadcast_all"), "pure_callback"),
        (lambda x: on_host(np.copy, x, None), "pure_callback"),
        (lambda x: jax.experimental.io_callback(np.copy, jax.ShapeDtypeStruct(x.shape, x.dtype), x), "io_callback"),
    ],
)
def test_a_loss_that_may_mix_examples_is_refused(change, name):
    inputs, targets = data()
    gradient = clipped_gradient(lambda weights, x, y: weights @ change(x), CLIP, micro_batch=4)
    with pytest.raises(ValueError, match=f"loss uses {name}, which may mix examples"):
        gradient(jnp.ones(5), *padded((inputs, targets), range(3), 4), None)


def test_what_hides_in_the_gradient_is_refused_and_what_runs_one_by_one_is_not():
    inputs, targets = data()
    gradient = clipped_gradient(lambda weights, x, y: hiding(weights) @ x, CLIP, micro_batch=4)
    with pytest.raises(ValueError, match="loss uses pure_callback"):
        gradient(jnp.ones(5), *padded((inputs, targets), range(3), 4), None)
    apart = clipped_gradient(lambda weights, x, y: weights @ on_host(np.copy, x, "sequential"), CLIP, micro_batch=4)
    plain = clipped_gradient(lambda weights, x, y: weights @ x, CLIP, micro_batch=4)
    sums = [one(jnp.ones(5), *padded((inputs, targets), range(3), 4), None) for one in (apart, plain)]
    assert_array_equal(*sums)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_gradient_of_a_single_number_is_clipped(shape, per_layer, sign):
    """One parameter, or a layer of one, has no row of squares to add up, and its norm is not its negative value."""
    parameters = {"own": {"scale": jnp.ones(shape)}}
    if per_layer:
        parameters["other"] = {"weights": jnp.ones(3)}

    def steep(parameters, x, y):
        return 1000.0 * sign * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(parameters))

    gradient = clipped_gradient(steep, CLIP, micro_batch=1, per_layer=per_layer)
    sums = gradient(parameters, np.ones((1, 2)), np.ones(1), np.array([True]), None)
    own = np.asarray(sums["own"]["scale"])
    most = CLIP / len(parameters) ** 0.5
    assert_allclose(own, np.full(shape, sign * most), rtol=1e-3)
    assert (abs(own) < most).all()


def test_norms_of_long_gradients_are_not_too_small():
    # Eight large entries and many small ones: squares of the small ones are lost in a sum of single precision.
    row = np.full(1 << 20, 2.43e-4, dtype=np.float32)
    row[:8] = 1.0
    gradient = clipped_gradient(lambda weight, x, y: (weight * x).sum(), CLIP, micro_batch=1)
    sums = np.asarray(gradient(np.zeros(1 << 20, np.float32), row[None], np.zeros(1), np.array([True]), None))
    assert CLIP * (1 - 2**-13) < np.linalg.norm(sums.astype(np.float64)) <= CLIP
