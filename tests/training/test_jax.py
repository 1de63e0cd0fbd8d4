import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

import minsep
from minsep.training import LinearDecay
from minsep.training.jax import PrivateTraining, clipped_gradient, linear_decay, padded, privatize
from minsep.training.torch import PrivateTraining as TorchTraining
from minsep.training.torch import ScaleThenPrivatize
from minsep.training.torch.clipping import ClippedSum
from tests.training.small import seeds_of

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


def torch_model():
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    for parameter, value in zip(model.parameters(), weights(), strict=True):
        parameter.data = torch.from_numpy(value)
    return model


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


def test_layers_are_clipped_by_themselves():
    inputs, targets = data()
    first, bias, second, second_bias = weights()
    layers = {"one": {"kernel": first, "bias": bias}, "two": {"kernel": second, "bias": second_bias}}

    def loss_of_layers(layers, x, y):
        one, two = layers["one"], layers["two"]
        return loss([one["kernel"], one["bias"], two["kernel"], two["bias"]], x, y)

    gradient = clipped_gradient(loss_of_layers, CLIP, micro_batch=4, per_layer=True)
    found = gradient(layers, *padded((inputs[:7], targets[:7]), 7, 4), None)
    clipped = ClippedSum(torch_model(), nn.functional.cross_entropy, CLIP, micro_batch=4, per_layer=True)
    flat = torch.zeros(clipped.size)
    clipped.add_to(flat, torch.from_numpy(inputs[:7]), torch.from_numpy(targets[:7]), None, seeds_of)
    order = [found["one"]["kernel"], found["one"]["bias"], found["two"]["kernel"], found["two"]["bias"]]
    assert_allclose(np.concatenate([np.ravel(part) for part in order]), flat, atol=1e-6)


def test_padding_counts_for_nothing_even_if_it_is_not_finite():
    inputs, targets = data()
    gradient = clipped_gradient(loss, CLIP, micro_batch=4)
    some, their_targets, mask = padded((inputs[:3], targets[:3]), 3, 4)
    clean = gradient(weights(), some, their_targets, mask, None)
    some[3] = np.nan
    for one, other in zip(clean, gradient(weights(), some, their_targets, mask, None), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        (minsep.BandedToeplitz.identity(iterations=9), 0),
        (minsep.BandedToeplitz.optimal(iterations=9, bands=2), 1),
        (minsep.BandedToeplitz.optimal(iterations=9, bands=5), 4),
        (minsep.BandedInverseToeplitz.square_root(iterations=9, bands=4), 3),
    ],
    ids=["identity", "2 bands", "5 bands", "banded inverse"],
)
def test_noise_is_that_of_numpy_and_of_the_dense_matrix(strategy, kept):
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), noise_multiplier=1.3)
    tree = {"a": jnp.zeros((3, 2)), "b": jnp.zeros(4)}
    normals = np.random.default_rng(0).standard_normal((9, 10)).astype(np.float32)
    given = privatize(mechanism, clip_norm=2.0, expected_batch=4.0, normals=lambda row: normals[row % 9])
    drawn = privatize(mechanism, clip_norm=2.0, expected_batch=4.0, seed=6)
    streams = [mechanism.noise(10, seed=6), iter(strategy.solve(normals))]
    for transformation, rows in zip((drawn, given), streams, strict=True):
        update, state = jax.jit(transformation.update), transformation.init(tree)
        assert state.past.shape == (kept, 10)
        for row in rows:
            changed, state = update(jax.tree.map(jnp.ones_like, tree), state)
            flat = np.concatenate([changed["a"].ravel(), changed["b"]])
            assert_allclose(flat, (1 + 2.0 * row) / 4.0, atol=2e-6)
        beyond, _ = update(tree, state)
        assert np.isnan(beyond["b"]).all()


@pytest.mark.parametrize("adam", [False, True])
def test_jax_and_torch_agree(adam):
    inputs, targets = data()
    mechanism, model = mechanism_of(), torch_model()
    options = {"num_examples": EXAMPLES, "clip_norm": CLIP, "micro_batch": 4, "seed": 3}
    if adam:
        torch_optimizer = torch.optim.Adam(model.parameters(), lr=0.05, eps=1e-6)
        jax_optimizer = optax.adam(0.05, eps=1e-6)
        torch_options = {"scaling": ScaleThenPrivatize(0.02)}
        jax_options = {"scale_stability": 0.02}
    else:
        torch_optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.95)
        jax_optimizer = optax.sgd(linear_decay(0.1, 10), momentum=0.95)
        torch_options, jax_options = {"schedule": LinearDecay(10)}, {}
    in_torch = TorchTraining(model, nn.functional.cross_entropy, torch_optimizer, mechanism, **options, **torch_options)
    in_jax = PrivateTraining(weights(), loss, jax_optimizer, mechanism, **options, **jax_options)
    for ours, theirs in zip(in_torch.batches(), in_jax.batches(), strict=True):
        assert_array_equal(ours, theirs)
        in_torch.step(torch.from_numpy(inputs[ours]), torch.from_numpy(targets[ours]))
        in_jax.step(inputs[ours], targets[ours])
        # Momentum in torch applies the learning rate outside, in optax as well: the same up to rounding.
        for one, other in zip(in_jax.parameters, model.parameters(), strict=True):
            assert_allclose(one, other.detach(), atol=1e-4)


def test_a_run_resumes_and_others_are_refused(tmp_path):
    inputs, targets = data()

    def trainer(path=None, mechanism=None, optimizer=None, **changes):
        options = {"num_examples": EXAMPLES, "clip_norm": CLIP, "micro_batch": 8, **changes}
        arguments = (weights(), loss, optimizer or optax.adam(0.1), mechanism or mechanism_of())
        if path is None:
            return PrivateTraining(*arguments, seed=4, **options)
        return PrivateTraining.resume(path, *arguments, **options)

    straight, halfway = trainer(), trainer()
    for indices in straight.batches():
        straight.step(inputs[indices], targets[indices])
    for indices in halfway.batches():
        halfway.step(inputs[indices], targets[indices])
        if halfway.steps == 6:
            break
    halfway.save(tmp_path / "run")
    resumed = trainer(tmp_path / "run")
    for indices in resumed.batches():
        resumed.step(inputs[indices], targets[indices])
    for one, other in zip(resumed.parameters, straight.parameters, strict=True):
        assert_array_equal(one, other)
    for changes in ({"clip_norm": 1.0}, {"num_examples": 51}, {"mechanism": mechanism_of(bands=3)}):
        with pytest.raises(ValueError, match=next(iter(changes))):
            trainer(tmp_path / "run", **changes)
    with pytest.raises(ValueError, match="has structure"):
        trainer(tmp_path / "run", optimizer=optax.adabelief(0.1))


def test_a_gradient_that_is_not_finite_is_refused_with_the_step():
    inputs, targets = data()
    trainer = PrivateTraining(
        weights(), loss, optax.sgd(0.1), mechanism_of(rate=0.2), num_examples=EXAMPLES, clip_norm=CLIP, seed=0
    )
    indices = next(trainer.batches())
    poisoned = inputs[indices].copy()
    poisoned[0] = np.inf
    with pytest.raises(ValueError, match="Step 1 has an example whose gradient is not finite"):
        trainer.step(poisoned, targets[indices])
    for one, other in zip(trainer.parameters, weights(), strict=True):
        assert_array_equal(one, other)


def test_scaling_needs_second_moments_and_noise_a_banded_strategy():
    with pytest.raises(ValueError, match="scale_stability needs"):
        PrivateTraining(
            weights(), loss, optax.sgd(0.1), mechanism_of(), num_examples=EXAMPLES, clip_norm=CLIP, scale_stability=0.1
        )
    dense = minsep.Mechanism(minsep.Dense(np.eye(3)), minsep.Poisson(rate=0.1), noise_multiplier=1.0)
    with pytest.raises(ValueError, match="noise in JAX is known for"):
        privatize(dense, clip_norm=1.0, expected_batch=1.0).init(jnp.zeros(3))


def test_schedules_agree():
    schedule, decay = linear_decay(0.3, 40), LinearDecay(40)
    assert_allclose([float(schedule(step)) for step in range(40)], [0.3 * decay(step) for step in range(40)], rtol=1e-6)


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


def test_norms_of_long_gradients_are_not_too_small():
    # Eight large entries and many small ones: squares of the small ones are lost in a sum of single precision.
    row = np.full(1 << 20, 2.43e-4, dtype=np.float32)
    row[:8] = 1.0
    gradient = clipped_gradient(lambda weight, x, y: (weight * x).sum(), CLIP, micro_batch=1)
    sums = np.asarray(gradient(np.zeros(1 << 20, np.float32), row[None], np.zeros(1), np.array([True]), None))
    assert CLIP * (1 - 2**-13) < np.linalg.norm(sums.astype(np.float64)) <= CLIP


def test_strategies_whose_inverse_grows_are_refused():
    strategy = minsep.BandedToeplitz.from_coefficients([1, 2], iterations=40)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.01, min_sep=2), noise_multiplier=1.0)
    with pytest.raises(ValueError, match=r"C\^-1 has entries up to .* dtype float32 .* dtype float64 would do"):
        privatize(mechanism, clip_norm=1.0, expected_batch=1.0)


X64 = """
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, numpy as np, optax, minsep
from minsep.training.jax import PrivateTraining
identity = minsep.BandedToeplitz.identity(iterations=30)
mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.5), noise_multiplier=5.0)
trainer = PrivateTraining(
    jnp.zeros(4), lambda w, x, y: w @ x, optax.sgd(1.0), mechanism, num_examples=1, clip_norm=1.0, expected_batch=1.0,
    seed=0,
)
single = 0
for indices in trainer.batches():
    before = np.asarray(trainer.parameters)
    trainer.step(np.full((1, 4), 1 / 3)[indices], np.zeros(1)[indices])
    released = before - np.asarray(trainer.parameters)
    single += int((released.astype(np.float32) == released).all())
assert released.dtype == np.float64, released.dtype
assert single == 0, single  # noise of single precision would show who was there
"""


def test_with_64_bits_the_noise_has_them_too():
    assert subprocess.run([sys.executable, "-c", X64], timeout=120).returncode == 0
