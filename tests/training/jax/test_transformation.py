import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import minsep
from minsep.training.jax import privatize
from minsep.training.jax.arrays import enable_x64
from minsep.training.jax.noise import NoiseState, Releases, released

MECHANISM = minsep.Mechanism(
    minsep.BandedToeplitz.optimal(iterations=9, bands=3), minsep.Poisson(rate=0.1), noise_multiplier=1.3
)


def ones(*shape):
    with enable_x64(True):
        return jnp.ones(shape, dtype=jnp.float64)


@pytest.mark.parametrize(
    "strategy",
    [
        minsep.BandedToeplitz.identity(iterations=9),
        minsep.BandedToeplitz.optimal(iterations=9, bands=5),
        minsep.BandedInverseToeplitz.square_root(iterations=9, bands=4),
        minsep.Dense(np.tril(np.ones((9, 9))) + 3 * np.eye(9)),
    ],
    ids=["identity", "5 bands", "banded inverse", "dense"],
)
def test_releases_are_those_of_numpy(strategy):
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), noise_multiplier=1.3)
    tree = {"a": jnp.zeros((3, 2)), "b": jnp.zeros(4)}
    transformation = privatize(mechanism, clip_norm=2.0, expected_batch=4.0, seed=6)
    update, state = jax.jit(transformation.update), transformation.init(tree)
    for row in mechanism.noise(10, seed=6):
        changed, state = update({"a": ones(3, 2), "b": ones(4)}, state)
        flat = np.concatenate([changed["a"].ravel(), changed["b"]])
        assert_array_equal(flat, (minsep.release(np.ones(10), row, 2.0) / 4.0).astype(np.float32))
    beyond, _ = update({"a": ones(3, 2), "b": ones(4)}, state)
    assert np.isnan(beyond["b"]).all()


def test_a_state_gives_the_same_noise_at_any_time():
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0, seed=2)
    sums, state = ones(5), transformation.init(jnp.zeros(5))
    rows, states = [], []
    for _ in range(9):
        states.append(state)
        row, state = transformation.update(sums, state)
        rows.append(row)
    for place in (4, 4, 0, 8, 3):
        assert_array_equal(transformation.update(sums, states[place])[0], rows[place])
    # The same row under other sums: the difference would have no noise.
    assert np.isnan(transformation.update(sums + sums, states[3])[0]).all()


def test_sums_reach_the_host_with_all_of_their_bits():
    seen = []

    class Watching(Releases):
        def __call__(self, position, sums):
            seen.append(np.array(sums))
            return super().__call__(position, sums)

    releases = Watching(MECHANISM, 3, MECHANISM.noise_key(1), 1.0, 1.0)
    with enable_x64(True):
        sums = jnp.array([1000 + 2.0**-20, 1 / 3, -1e-300], dtype=jnp.float64)
    jax.jit(lambda position, sums: released(releases, position, sums, np.float32))(jnp.zeros((), dtype=int), sums)
    assert_array_equal(seen[0], [1000 + 2.0**-20, 1 / 3, -1e-300])
    with pytest.raises(ValueError, match="has dtype float32, but it must have float64, as clipped_gradient returns"):
        privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0).update(
            jnp.ones(5), NoiseState(jnp.zeros((), dtype=int))
        )


def test_sums_that_are_not_finite_release_nothing():
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0, seed=2)
    noisy, _ = transformation.update(np.array([1.0, np.inf, 2.0]), transformation.init(jnp.zeros(3)))
    assert np.isnan(noisy).all()


def test_strategies_whose_inverse_grows_are_refused():
    strategy = minsep.BandedToeplitz.from_coefficients([1, 2], iterations=40)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.01, min_sep=2), noise_multiplier=1.0)
    with pytest.raises(ValueError, match=r"C\^-1 has rows of norm up to"):
        privatize(mechanism, clip_norm=1.0, expected_batch=1.0)


def test_the_host_releases_without_jax(monkeypatch):
    """Within compiled code an operation of JAX on the host may wait for the one that waits for it."""
    releases = Releases(MECHANISM, 3, MECHANISM.noise_key(1), 1.0, 1.0)

    def refuse(*arguments, **options):
        raise AssertionError("an operation of JAX on the host")

    for name in ("zeros", "asarray", "array"):
        monkeypatch.setattr(jnp, name, refuse)
    assert releases(0, np.zeros(3)).shape == (3,)


def test_outside_of_compiled_code_there_is_no_callback(monkeypatch):
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=8.0, seed=1)
    gradients = ones(5)
    compiled, _ = jax.jit(transformation.update)(gradients, transformation.init(gradients))
    monkeypatch.setattr(jax, "pure_callback", None)
    plain, _ = transformation.update(gradients, transformation.init(gradients))
    assert_allclose(plain, compiled, rtol=1e-6)
