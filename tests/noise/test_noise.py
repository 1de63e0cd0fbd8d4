import copy
import pickle
import tracemalloc
from concurrent.futures import Future

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import minsep
from minsep.noise.window import RowWindow
from minsep.randomness import Key
from tests.oracles.normals import rows_of_z, rows_on_the_grid, step_of

FALSE_ALARM = 1e-7
SIGMA = 1.7

STRATEGIES = [
    *(minsep.BandedToeplitz.optimal(iterations=23, bands=bands) for bands in (1, 2, 3, 5, 12, 23)),
    *(minsep.BandedInverseToeplitz.square_root(iterations=23, bands=bands) for bands in (1, 2, 3, 5, 23)),
    minsep.Dense(np.tril(np.random.default_rng(0).random((70, 70))) + 20 * np.eye(70)),
    minsep.LambdaCGD(0.7, iterations=23),
    minsep.GammaBIFR(0.8, bands=4, iterations=23),
    minsep.BufferedToeplitz([0.95], [0.3], iterations=23),
    minsep.BufferedToeplitz([0.99, 0.6, 0.0], [0.1, 0.3, 0.05], iterations=23),
]


def mechanism(strategy):
    return minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), SIGMA)


def normals_of(stream, size):
    return rows_of_z(Key.from_hex(stream.state_dict()["key"]), stream.iterations, size, SIGMA)


def on_grid(strategy):
    return strategy.recurrence().on_grid


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("size", [7, 3000])
def test_rows_equal_the_recursion_on_the_grid(strategy, size):
    """Up to one value in a hundred million, which lies on an edge within rounding: here there is none."""
    stream = mechanism(strategy).noise((size,), seed=3)
    z, matrix = normals_of(stream, size), strategy.dense()
    noise = np.stack([np.asarray(row) for row in stream])
    if on_grid(strategy):
        assert noise.dtype == np.float32
        assert stream.grid.step == step_of(matrix, SIGMA)
        assert_array_equal(noise, rows_on_the_grid(matrix, z, step_of(matrix, SIGMA)))
    else:
        assert noise.dtype == np.float64
        assert_allclose(noise, np.linalg.solve(matrix, z), rtol=0, atol=1e-13 * np.abs(noise).max())
    # What the grid changes is less than half a step of each row's own noise.
    assert np.abs(matrix @ noise - z).max() <= (0.5 + 1e-6) * stream.grid.step * np.diag(matrix).max()


@pytest.mark.parametrize("size", [5, 1024, 5000])
@pytest.mark.parametrize("block", [1, 3, 4, 7])
def test_rows_do_not_depend_on_how_many_are_made_at_once(size, block, monkeypatch):
    strategy = minsep.BandedToeplitz.optimal(iterations=40, bands=14)
    expected = list(mechanism(strategy).noise(size, seed=5))
    monkeypatch.setattr("minsep.noise.window._GROUP", block)
    monkeypatch.setattr("minsep.noise.window._PARTS", 1)
    monkeypatch.setattr("minsep.noise.window._ROWS_OF_WINDOW", 100)
    assert_array_equal(list(mechanism(strategy).noise(size, seed=5)), expected)


def test_rows_in_the_background_are_the_same():
    strategy = minsep.BandedToeplitz.optimal(iterations=30, bands=6)
    stream, sums = mechanism(strategy).noise(9000, seed=5), np.zeros(9000)
    for number, row in enumerate(mechanism(strategy).noise(9000, seed=5)):
        stream.prepare()
        stream.prepare()
        if number % 3 == 0:
            stream.load_state_dict(stream.state_dict())
        sums.fill(1.0)
        stream.release_next(sums, 2.0)
        assert_array_equal(sums, minsep.release(np.ones(9000), row, 2.0))


def test_a_state_waits_for_nothing_in_the_background():
    """A forked process has no such thread, and may read the state."""
    stream, other = (mechanism(STRATEGIES[2]).noise(5, seed=5) for _ in range(2))
    for one in (stream, other):
        next(one)
    stream._window._ahead = Future()  # which never ends
    stream._window._ahead.result = None
    other.load_state_dict(stream.state_dict())
    assert_array_equal(next(other), list(mechanism(STRATEGIES[2]).noise(5, seed=5))[1])


def test_no_step_makes_much_more_than_its_share(monkeypatch):
    """Rows come in blocks, but every part of the columns has its own turn: in values made, from the first step on."""
    made = []
    make = RowWindow._make_part

    def counted(self, part, row, *products):
        make(self, part, row, *products)
        stripes = self._parts[part]
        made.append((row, (self._ready[part] - row) * (stripes.stop - stripes.start)))

    monkeypatch.setattr(RowWindow, "_make_part", counted)
    for size, bands in ((300_000, 2), (300_000, 40), (300_000, 100), (3000, 100), (10, 40)):
        made.clear()
        stream = mechanism(minsep.BandedToeplitz.optimal(iterations=100, bands=bands)).noise(size)
        sums = np.zeros(size)
        for _ in range(100):
            stream.release_next(sums, 1.0)
        steps, amounts = np.array(made).T
        work = np.bincount(steps, amounts, minlength=100)
        assert work.max() <= 3 * work.mean()


@pytest.mark.parametrize("strategy", STRATEGIES[:5] + STRATEGIES[7:8] + STRATEGIES[12:], ids=repr)
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


def test_rows_cannot_be_changed_but_copied():
    row = next(mechanism(STRATEGIES[2]).noise(5, seed=4))
    with pytest.raises(ValueError, match="read-only"):
        row *= 2.0
    with pytest.raises(ValueError, match="cannot set WRITEABLE flag to True"):
        row.setflags(write=True)
    copied = row.copy()
    copied *= 2.0
    assert_array_equal(copied, 2 * np.asarray(row))


def test_an_interrupted_stream_does_not_go_on(monkeypatch):
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=40, bands=5))
    stream = mech.noise((6,), seed=0)
    rows = [next(stream) for _ in range(4)]
    state = stream.state_dict()
    with monkeypatch.context() as broken:
        broken.setattr(RowWindow, "make", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            next(stream)
    for go_on in (lambda: next(stream), stream.state_dict):
        with pytest.raises(RuntimeError, match="interrupted in the middle of a step"):
            go_on()
    stream.load_state_dict(state)
    assert_array_equal(list(stream), list(mech.noise((6,), seed=0))[len(rows) :])


def _dense_of(coefficients, iterations):
    return minsep.Dense(minsep.BandedToeplitz.from_coefficients(coefficients, iterations=iterations).dense())


GROWING = {
    "banded": minsep.BandedToeplitz.from_coefficients([1, 2], iterations=30),
    "dense": _dense_of([1, 2], 30),
}


@pytest.mark.parametrize("strategy", GROWING.values(), ids=GROWING)
@pytest.mark.parametrize("dtype", [None, np.float64])
def test_noise_that_would_be_rounded_away_is_refused(strategy, dtype):
    with pytest.raises(ValueError, match=r"C\^-1 has rows of norm up to .* rounding would remove the noise"):
        mechanism(strategy).noise((3,), dtype)
    with pytest.raises(ValueError, match=r"C\^-1 has rows of norm up to"):
        mechanism(minsep.BandedToeplitz.from_coefficients([1, 2], iterations=5000)).noise((3,))


@pytest.mark.parametrize(
    "strategy",
    [
        minsep.BandedToeplitz.optimal(iterations=7200, bands=256),
        minsep.BandedToeplitz.optimal(iterations=500, bands=500),
        minsep.BandedInverseToeplitz.optimal(iterations=2000, bands=16),
        minsep.BandedToeplitz.from_coefficients([1, 1], iterations=1000),
        minsep.BufferedToeplitz.optimal(iterations=2000, buffers=4),
        minsep.LambdaCGD(0.999, iterations=2000),
    ],
)
def test_rows_that_are_not_refused_are_the_noise_they_stand_for(strategy):
    """C times the rows is Z, and at most half a step of the grid away, after thousands of rows as after the first."""
    n, size = strategy.iterations, 3
    stream = mechanism(strategy).noise((size,), seed=1)
    z, rows = normals_of(stream, size), np.array(list(stream), dtype=np.float64)
    through = np.array([np.convolve(strategy.coefficients, rows[:, k])[:n] for k in range(size)]).T
    assert np.abs(through - z).max() <= (0.5 + 1e-6) * stream.grid.step * strategy.coefficients[0]


def test_a_moved_noise_state_is_refused():
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=40, bands=5))
    stream = mech.noise((6,), seed=0)
    rows = [next(stream) for _ in range(6)]
    state = stream.state_dict()
    for position in (0, 3):
        with pytest.raises(ValueError, match="memory must be an array of shape"):
            mech.noise((6,)).load_state_dict(state | {"position": position})
    for memory in (state["memory"] * np.nan, state["memory"] + np.float32(0.5)):
        with pytest.raises(ValueError, match="whole numbers of steps"):
            stream.load_state_dict(state | {"memory": memory})
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
        with pytest.raises(ValueError, match=r"noise_multiplier is .* has a grid only from 1e-30 to 1e\+30"):
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
        (mech.noise((4,)), "state has size 3, but this stream has 4"),
        (mech.with_noise_multiplier(2.0).noise((3,)), "state has mechanism"),
    ]:
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match="state has stream 'batches'"):
        stream.load_state_dict(mech.batches(10).state_dict())
    with pytest.raises(ValueError, match="memory"):
        stream.load_state_dict(state | {"memory": np.zeros((1, 1))})
    old = {"version": 1, "stream": "noise", "mechanism": state["mechanism"], "shape": [3], "dtype": "float32"}
    with pytest.raises(ValueError, match="saved by an older version of minsep, in another format"):
        stream.load_state_dict(old | {"key": state["key"], "position": 1, "block": 0, "memory": state["memory"]})


@pytest.mark.parametrize("split", [1, 512, 1024, 1025, 70_001])
@pytest.mark.parametrize("strategy", [STRATEGIES[2], STRATEGIES[8]], ids=repr)
def test_parts_of_the_columns_make_up_the_whole(split, strategy):
    size, mech = 140_003, mechanism(strategy)
    parts = [next(mech.noise(size, seed=3, columns=columns)) for columns in ((0, split), (split, size))]
    assert_array_equal(np.concatenate(parts), next(mech.noise(size, seed=3)))
    streams = [mech.noise(size, seed=3, columns=columns) for columns in (None, (0, split), (split, size))]
    for _ in range(5):
        sums = np.ones(size)
        whole, first, second = sums.copy(), sums[:split].copy(), sums[split:].copy()
        for stream, part in zip(streams, (whole, first, second), strict=True):
            stream.release_next(part, 0.7)
        assert_array_equal(np.concatenate([first, second]), whole)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_rows_may_be_released_or_handed_out_in_turns(strategy):
    stream = mechanism(strategy).noise(6, seed=2)
    pattern = np.random.default_rng(0).random(strategy.iterations) < 0.5
    for at_once, row in zip(pattern, mechanism(strategy).noise(6, seed=2), strict=True):
        if at_once:
            total = np.ones(6)
            stream.release_next(total, 0.5)
            assert_array_equal(total, minsep.release(np.ones(6), row, 0.5))
        else:
            assert_array_equal(next(stream), row)
    with pytest.raises(ValueError, match="rows of the noise have already been drawn"):
        stream.release_next(np.ones(6), 1.0)
    with pytest.raises(ValueError, match="but it must be contiguous, of shape"):
        stream.release_next(np.ones(6, dtype=np.float32), 1.0)


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
        (minsep.BandedInverseToeplitz.square_root(iterations=40, bands=16), 1),
        (minsep.BandedToeplitz.optimal(iterations=40, bands=16), 21),
        (minsep.BufferedToeplitz([0.9, 0.5, 0.1], [0.1, 0.2, 0.3], iterations=40), 8),
    ],
    ids=repr,
)
def test_memory_is_what_a_strategy_says(strategy, most):
    """In rows of four bytes a value: none of a banded inverse, 15 and a block, one and three buffers of eight bytes."""
    size, work_space = 1_000_000, 1 << 23
    total = np.zeros(size)
    mechanism(strategy).noise(8).release_next(total[:8], 1.0)
    tracemalloc.start()
    stream = mechanism(strategy).noise(size)
    for _ in range(3):
        stream.release_next(total, 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    row = 4 * size
    assert (most - 2) * row < peak < most * row + work_space
