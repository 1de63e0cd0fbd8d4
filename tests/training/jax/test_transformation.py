import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import minsep
from minsep.training.jax import privatize
from minsep.training.jax.noise import secure_normals

MECHANISM = minsep.Mechanism(
    minsep.BandedToeplitz.optimal(iterations=9, bands=3), minsep.Poisson(rate=0.1), noise_multiplier=1.3
)


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


def test_strategies_whose_inverse_grows_are_refused():
    strategy = minsep.BandedToeplitz.from_coefficients([1, 2], iterations=40)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.01, min_sep=2), noise_multiplier=1.0)
    with pytest.raises(ValueError, match=r"C\^-1 has entries up to .* dtype float32.* dtype float64 is sufficient"):
        privatize(mechanism, clip_norm=1.0, expected_batch=1.0)


def test_noise_needs_a_banded_strategy():
    dense = minsep.Mechanism(minsep.Dense(np.eye(3)), minsep.Poisson(rate=0.1), noise_multiplier=1.0)
    with pytest.raises(ValueError, match="but in JAX it must be"):
        privatize(dense, clip_norm=1.0, expected_batch=1.0).init(jnp.zeros(3))


def test_the_host_computes_rows_without_jax(monkeypatch):
    """Within compiled code an operation of JAX on the host may wait for the one that waits for it."""
    rows = secure_normals(MECHANISM, 3, MECHANISM.noise_key(1))

    def refuse(*arguments, **options):
        raise AssertionError("an operation of JAX on the host")

    for name in ("zeros", "asarray", "array"):
        monkeypatch.setattr(jnp, name, refuse)
    assert rows(0).shape == (3,)


def test_outside_of_compiled_code_there_is_no_callback(monkeypatch):
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=8.0, seed=1)
    gradients = jnp.ones(5)
    compiled, _ = jax.jit(transformation.update)(gradients, transformation.init(gradients))
    monkeypatch.setattr(jax, "pure_callback", None)
    plain, _ = transformation.update(gradients, transformation.init(gradients))
    assert_allclose(plain, compiled, rtol=1e-6)
