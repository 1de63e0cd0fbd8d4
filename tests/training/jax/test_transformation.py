import os
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
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
        minsep.LambdaCGD(0.6, iterations=9),
        minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=9),
    ],
    ids=["identity", "5 bands", "banded inverse", "dense", "lambda-CGD", "buffered"],
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


@pytest.mark.parametrize("change", ["others", "permuted", "below the first"])
def test_a_row_is_not_released_with_other_sums(change):
    """The difference of the two would have no noise."""
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0, seed=2)
    state = transformation.init(jnp.zeros(5))
    with enable_x64(True):
        sums = jnp.array([1.0, 0, 0, 0, 0], dtype=jnp.float64)
        others = {"others": sums + sums, "permuted": sums[::-1], "below the first": sums[::-1]}[change]
    assert np.isfinite(transformation.update(sums, state)[0]).all()
    again = NoiseState(state.position - 1) if change == "below the first" else state
    for update in (transformation.update, jax.jit(transformation.update)):
        assert np.isnan(update(others, again)[0]).all()


def test_a_key_gives_noise_to_one_set_of_parameters():
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0)
    state = transformation.init(jnp.zeros(5))
    for again in (jnp.zeros(5), {"a": jnp.zeros(2)}):
        for init in (transformation.init, jax.jit(transformation.init)):
            with pytest.raises(RuntimeError, match="initialised before: .* Call privatize again for each use"):
                init(again)
    with pytest.raises(ValueError, match=r"sums have shapes \[\(2,\)\], but .* initialised for \[\(5,\)\]"):
        transformation.update(ones(2), state)
    unused = privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0)
    with pytest.raises(RuntimeError, match="was not initialised: call its init once"):
        unused.update(ones(5), state)


def test_groups_of_parameters_have_transformations_of_their_own():
    tree, labels = {"a": jnp.zeros(3), "b": jnp.zeros(5)}, {"a": "first", "b": "second"}
    one = privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0, seed=2)
    with pytest.raises(RuntimeError, match="another group of multi_transform"):
        optax.multi_transform({"first": one, "second": one}, labels).init(tree)
    groups = {name: privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0) for name in ("first", "second")}
    optimizer = optax.multi_transform(groups, labels)
    noisy, _ = jax.jit(optimizer.update)({"a": ones(3), "b": ones(5)}, optimizer.init(tree))
    assert np.isfinite(noisy["a"]).all()
    assert not np.isin(noisy["a"], noisy["b"]).any()


def test_a_forked_process_has_none_of_the_noise(monkeypatch):
    fresh, begun = (privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0) for _ in range(2))
    state = begun.init(jnp.zeros(5))
    for _ in range(2):
        _, state = begun.update(ones(5), state)
    monkeypatch.setattr(os, "getpid", lambda: 10**9)
    for use in (lambda: fresh.init(jnp.zeros(5)), lambda: begun.update(ones(5), NoiseState(state.position - 1))):
        with pytest.raises(RuntimeError, match="forked from it"):
            use()


def test_a_transformation_is_not_pickled():
    cell = next(cell for cell in privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0).update.__closure__)
    with pytest.raises(TypeError, match="the copy would have the same noise"):
        pickle.dumps(cell.cell_contents)


def test_sums_reach_the_host_with_all_of_their_bits():
    seen = []

    class Watching(Releases):
        def __call__(self, position, sums):
            seen.append(np.array(sums))
            return super().__call__(position, sums)

    releases = Watching(MECHANISM, MECHANISM.noise_key(1), 1.0, 1.0)
    releases.begin(np.zeros(3))
    with enable_x64(True):
        sums = jnp.array([1000 + 2.0**-20, 1 / 3, -1e-300], dtype=jnp.float64)
    jax.jit(lambda position, sums: released(releases, position, sums, np.float32))(jnp.zeros((), dtype=int), sums)
    assert_array_equal(seen[0], [1000 + 2.0**-20, 1 / 3, -1e-300])
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=1.0)
    state = transformation.init(jnp.ones(5))
    with pytest.raises(ValueError, match="has dtype float32, but it must have float64, as clipped_gradient returns"):
        transformation.update(jnp.ones(5), state)


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
    releases = Releases(MECHANISM, MECHANISM.noise_key(1), 1.0, 1.0)
    releases.begin(np.zeros(3))

    def refuse(*arguments, **options):
        raise AssertionError("an operation of JAX on the host")

    for name in ("zeros", "asarray", "array"):
        monkeypatch.setattr(jnp, name, refuse)
    assert releases(0, np.zeros(3)).shape == (3,)


def test_outside_of_compiled_code_there_is_no_callback(monkeypatch):
    transformation = privatize(MECHANISM, clip_norm=1.0, expected_batch=8.0, seed=1)
    gradients = ones(5)
    state = transformation.init(gradients)
    compiled, _ = jax.jit(transformation.update)(gradients, state)
    monkeypatch.setattr(jax, "pure_callback", None)
    plain, _ = transformation.update(gradients, state)
    assert_allclose(plain, compiled, rtol=1e-6)
