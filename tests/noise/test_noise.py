import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import minsep
from minsep.randomness import Key, NormalRows

FALSE_ALARM = 1e-7
SIGMA = 1.7

STRATEGIES = [
    *(minsep.BandedToeplitz.optimal(iterations=23, bands=bands) for bands in (1, 2, 3, 5, 12, 23)),
    *(minsep.BandedInverseToeplitz.square_root(iterations=23, bands=bands) for bands in (1, 2, 3, 5, 23)),
    minsep.Dense(np.tril(np.random.default_rng(0).random((70, 70))) + 20 * np.eye(70)),
]


def mechanism(strategy):
    return minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), SIGMA)


def normals(iterations, size, key):
    z = np.zeros((iterations, size))
    NormalRows(key).add_to(z, 0, SIGMA)
    return z


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_rows_equal_the_dense_solve(strategy, dtype, tolerance):
    stream = mechanism(strategy).noise((7,), dtype, seed=3)
    z = normals(strategy.iterations, 7, Key.from_hex(stream.state_dict()["key"]))
    noise = np.stack(list(stream))
    assert noise.dtype == dtype
    expected = np.linalg.solve(strategy.dense(), z)
    assert_allclose(noise, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("strategy", STRATEGIES[:5] + STRATEGIES[7:8], ids=repr)
def test_covariance_across_iterations(strategy):
    """Each entry of C X / sigma is standard normal and independent: X has covariance sigma^2 (C^T C)^-1."""
    size = 40_000
    noise = np.stack([row.ravel() for row in mechanism(strategy).noise((size // 4, 4), np.float64, seed=1)])
    white = strategy.dense() @ noise / SIGMA
    n = strategy.iterations
    covariance = white @ white.T / size
    # Off the diagonal a product of independent normals, on it a square less 1: variances 1 and 2.
    deviations = np.sqrt(size) * (covariance - np.eye(n)) / np.sqrt(1 + np.eye(n))
    assert np.abs(deviations).max() < stats.norm.isf(FALSE_ALARM / (2 * n * n))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_stream_resumes_anywhere(strategy):
    mech = mechanism(strategy)
    whole = list(mech.noise((3, 2), seed=2))
    assert len(whole) == strategy.iterations
    for position in range(strategy.iterations + 1):
        stream = mech.noise((3, 2), seed=2)
        for _ in range(position):
            next(stream)
        state = stream.state_dict()
        resumed = mech.noise((3, 2))
        next(resumed)
        resumed.load_state_dict(state)
        rest = list(resumed)
        assert len(rest) == len(whole) - position
        assert_array_equal(np.array(rest).reshape(-1, 3, 2), np.array(whole[position:]).reshape(-1, 3, 2))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_rows_that_are_held_never_change(strategy):
    kept, copies = [], []
    for row in mechanism(strategy).noise((5,), seed=4):
        kept.append(row)
        copies.append(row.copy())
    assert_array_equal(kept, copies)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_rows_are_the_callers_own(strategy):
    whole = list(mechanism(strategy).noise((5,), seed=4))
    for row, expected in zip(mechanism(strategy).noise((5,), seed=4), whole, strict=True):
        assert_array_equal(row, expected)
        row *= 100.0


def test_rows_that_are_dropped_leave_one_array():
    stream = mechanism(minsep.BandedToeplitz.optimal(iterations=40, bands=5)).noise((1000,))
    arrays = set()
    for row in stream:
        assert row.shape == (1000,)
        arrays.add(stream._handed_out.ctypes.data)
    assert len(arrays) == 1


def test_an_interrupted_stream_does_not_go_on():
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=40, bands=5))
    stream = mech.noise((6,), seed=0)
    rows = [next(stream) for _ in range(4)]
    state = stream.state_dict()
    add, stream._add_normals = stream._add_normals, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    stream._add_normals = add
    for go_on in (lambda: next(stream), stream.state_dict):
        with pytest.raises(RuntimeError, match="interrupted in the middle of a step"):
            go_on()
    stream.load_state_dict(state)
    assert_array_equal(list(stream), list(mech.noise((6,), seed=0))[len(rows) :])


def test_noise_of_a_strategy_whose_inverse_grows():
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 2.0, *[0.0] * 38], iterations=40)
    stream = mechanism(strategy).noise((3,), np.float64, seed=1)
    z = normals(40, 3, Key.from_hex(stream.state_dict()["key"]))
    assert_allclose(list(stream), strategy.solve(z), rtol=1e-12)
    assert_allclose(strategy.prefix_variances[:2], [5.0, 10.0])


def _dense_of(coefficients, iterations):
    return minsep.Dense(minsep.BandedToeplitz.from_coefficients(coefficients, iterations=iterations).dense())


GROWING = {
    "banded": minsep.BandedToeplitz.from_coefficients([1, 2], iterations=30),
    "banded inverse": minsep.BandedInverseToeplitz.from_noise_coefficients([1, -1.9], iterations=30),
    "dense": _dense_of([1, 2], 30),
}


@pytest.mark.parametrize("strategy", GROWING.values(), ids=GROWING)
def test_noise_that_its_dtype_would_round_away_is_refused(strategy):
    with pytest.raises(ValueError, match=r"C\^-1 has entries up to .* dtype float32.* dtype float64 is sufficient"):
        mechanism(strategy).noise((3,))
    mechanism(strategy).noise((3,), np.float64)
    for iterations in (60, 5000):
        with pytest.raises(ValueError, match=r"No dtype is sufficient: use coefficients"):
            mechanism(minsep.BandedToeplitz.from_coefficients([1, 2], iterations=iterations)).noise((3,), np.float64)


@pytest.mark.parametrize(
    "strategy",
    [
        minsep.BandedToeplitz.optimal(iterations=7200, bands=256),
        minsep.BandedToeplitz.optimal(iterations=500, bands=500),
        minsep.BandedInverseToeplitz.optimal(iterations=2000, bands=16),
        minsep.BandedToeplitz.from_coefficients([1, 1], iterations=1000),
    ],
)
def test_rows_that_are_not_refused_are_within_a_little_of_the_noise_they_stand_for(strategy):
    n, size = strategy.iterations, 3
    stream = mechanism(strategy).noise((size,), np.float32, seed=1)
    key = Key.from_hex(stream.state_dict()["key"])
    rows = np.array(list(stream), dtype=np.float64)
    through = np.array([np.convolve(strategy.coefficients, rows[:, k])[:n] for k in range(size)]).T
    # C times the computed rows is Z but for rounding: what an adversary could tell from ideal noise.
    assert np.abs(through - normals(n, size, key)).max() < 1e-4 * SIGMA


def test_a_moved_noise_state_is_refused():
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=40, bands=5))
    stream = mech.noise((6,), seed=0)
    rows = [next(stream) for _ in range(6)]
    state = stream.state_dict()
    for position in (0, 3, 4, 9):
        with pytest.raises(ValueError, match=f"position is {position}, but its memory belongs to another block"):
            mech.noise((6,)).load_state_dict(state | {"position": position})
    with pytest.raises(ValueError, match="finite"):
        stream.load_state_dict(state | {"memory": state["memory"] * np.nan})
    assert stream.position == len(rows)


def test_streams_are_not_copied():
    mech = mechanism(STRATEGIES[2])
    for stream in (mech.noise(3), mech.batches(3)):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled: use state_dict"):
                duplicate(stream)


def test_scalars_integers_and_tuples_are_shapes():
    mech = mechanism(STRATEGIES[2])
    assert next(mech.noise(())).shape == ()
    assert next(mech.noise(4)).shape == (4,)
    assert next(mech.noise((2, 3))).shape == (2, 3)
    assert_array_equal(next(mech.noise(6, seed=1)), next(mech.noise((2, 3), seed=1)).ravel())
    for sigma in (1e-46, 1e39):
        with pytest.raises(ValueError, match="noise_multiplier is .* but for noise of dtype float32 it must be"):
            mech.with_noise_multiplier(sigma).noise(3)


def test_batches_and_noise_of_one_seed_are_independent():
    state = mechanism(STRATEGIES[0])
    assert state.batches(10, seed=0).state_dict()["key"] != state.noise(1, seed=0).state_dict()["key"]


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((3,), np.float16, "dtype is float16, but it must be float32 or float64"),
        ((3,), ">f4", "dtype is >f4"),
        ((3,), "foo", "dtype is 'foo'"),
        (None, np.float32, "shape is None"),
        (2.5, np.float32, "shape is 2.5"),
        ((3,), np.int64, "dtype is int64"),
        ((0,), np.float32, "shape is 0, .* at least 1"),
        ((-1, 3), np.float32, "shape is -1"),
        ((2.5,), np.float32, "shape is 2.5"),
    ],
)
def test_bad_input_is_refused(shape, dtype, message):
    with pytest.raises(ValueError, match=message):
        mechanism(STRATEGIES[0]).noise(shape, dtype)


def test_a_foreign_state_is_refused():
    mech = mechanism(STRATEGIES[2])
    stream = mech.noise((3,))
    next(stream)
    state = stream.state_dict()
    for other, message in [
        (mechanism(STRATEGIES[3]).noise((3,)), "state has mechanism"),
        (mech.noise((4,)), r"state has shape \[3\], but this stream has \[4\]"),
        (mech.noise((3,), np.float64), "state has dtype 'float32', but this stream has 'float64'"),
        (mech.with_noise_multiplier(2.0).noise((3,)), "state has mechanism"),
    ]:
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match="state has stream 'batches'"):
        stream.load_state_dict(mech.batches(10).state_dict())
    with pytest.raises(ValueError, match="memory"):
        stream.load_state_dict(state | {"memory": np.zeros((1, 1))})


@pytest.mark.parametrize("split", [1, 4_097, 65_536, 70_001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_of_the_columns_make_up_the_whole(split, dtype):
    size = 140_003
    strategy = minsep.BandedToeplitz.optimal(iterations=7, bands=3)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=3), noise_multiplier=1.5)
    parts = [mechanism.noise(size, dtype, seed=3, columns=columns) for columns in ((0, split), (split, size))]
    for row, first, second in zip(mechanism.noise(size, dtype, seed=3), *parts, strict=True):
        assert_allclose(np.concatenate([first, second]), row, rtol=0, atol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_rows_may_be_added_or_handed_out_in_turns(strategy):
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), noise_multiplier=SIGMA)
    stream = mechanism.noise(6, np.float64, seed=2)
    pattern = np.random.default_rng(0).random(strategy.iterations) < 0.5
    for add, row in zip(pattern, mechanism.noise(6, np.float64, seed=2), strict=True):
        if add:
            total = np.ones(6)
            stream.add_next_to(total, 0.5)
            assert_array_equal(total, 1 + 0.5 * row)
        else:
            assert_array_equal(next(stream), row)
    with pytest.raises(ValueError, match="rows of the noise have already been drawn"):
        stream.add_next_to(np.ones(6), 1.0)
    with pytest.raises(ValueError, match="but it must have shape"):
        stream.add_next_to(np.ones(6, dtype=np.float32), 1.0)


def test_a_part_resumes_and_refuses_another_part():
    strategy = minsep.BandedToeplitz.optimal(iterations=9, bands=3)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=3), noise_multiplier=1.5)
    stream = mechanism.noise(100, columns=(10, 30))
    for _ in range(4):
        next(stream)
    resumed = mechanism.noise(100, columns=(10, 30))
    resumed.load_state_dict(stream.state_dict())
    assert_array_equal(np.stack(list(resumed)), np.stack(list(stream)))
    with pytest.raises(ValueError, match="columns"):
        mechanism.noise(100, columns=(0, 20)).load_state_dict(stream.state_dict())
    with pytest.raises(ValueError, match="columns is"):
        mechanism.noise(100, columns=(30, 101))


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        (minsep.BandedInverseToeplitz.square_root(iterations=40, bands=16), 2),
        (minsep.BandedToeplitz.optimal(iterations=40, bands=16), 18),
    ],
    ids=repr,
)
def test_a_banded_inverse_keeps_no_rows(strategy, most):
    """The memory of a stream in rows: one row of a banded inverse, and the block of a banded strategy."""
    size, work_space = 1_000_000, 1 << 21
    total = np.zeros(size, dtype=np.float32)
    mechanism(strategy).noise(8).add_next_to(total[:8], 1.0)
    tracemalloc.start()
    stream = mechanism(strategy).noise(size)
    for _ in range(3):
        stream.add_next_to(total, 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (most - 2) * total.nbytes < peak < most * total.nbytes + work_space
