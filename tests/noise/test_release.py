"""The one way to add a row: on the grid, smoothed, once, and refused where there is no grid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import minsep
from minsep.noise.grid import SMOOTHING, Grid

FALSE_ALARM = 1e-7
BANDED = minsep.BandedToeplitz.optimal(iterations=12, bands=4)
INVERSE = minsep.BandedInverseToeplitz.square_root(iterations=12, bands=3)
BUFFERED = minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=12)
STRATEGIES = [BANDED, INVERSE, BUFFERED, minsep.Dense(BANDED.dense()), minsep.BandedToeplitz.identity(iterations=12)]


def mechanism(strategy=BANDED, sigma=1.3):
    return minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), sigma)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("clip_norm", [1.0, 0.37, 1e-8, 1e9])
def test_every_released_value_is_on_the_public_grid(strategy, clip_norm):
    size = 5000
    sums = clip_norm * np.random.default_rng(0).standard_normal(size) * np.logspace(-12, 3, size)
    unit = clip_norm * Grid(strategy, 1.3).step
    for row in mechanism(strategy).noise(size, seed=1):
        noisy = minsep.release(sums, row, clip_norm)
        assert_array_equal(noisy, unit * np.rint(noisy / unit))
        assert np.abs(noisy - sums - clip_norm * row).max() < 9 * unit


@pytest.mark.parametrize("strategy", STRATEGIES[:2], ids=repr)
def test_what_a_release_adds_to_the_row_is_normal_and_rounded(strategy):
    """In steps, a release less its sum and row is smoothing and a rounding error: three tests of FALSE_ALARM each."""
    size = 200_000
    row = next(mechanism(strategy).noise(size, seed=2))
    sums = np.random.default_rng(1).uniform(-50, 50, size)
    unit = 0.7 * Grid(strategy, 1.3).step
    added = (minsep.release(sums, row, 0.7) - sums - 0.7 * np.asarray(row, dtype=np.float64)) / unit
    variance = SMOOTHING**2 + 1 / 12
    assert stats.kstest(added, stats.norm(scale=variance**0.5).cdf).pvalue > FALSE_ALARM
    for other in (np.asarray(row, dtype=np.float64), sums):
        assert stats.pearsonr(added, other).pvalue > FALSE_ALARM


def test_smoothing_is_fresh_and_a_function_of_the_seed():
    rows = [next(mechanism().noise(2000, seed=3)) for _ in range(2)]
    first, second = (minsep.release(np.zeros(2000), row, 1.0) for row in rows)
    assert_array_equal(first, second)
    stream = mechanism(minsep.BandedToeplitz.identity(iterations=12)).noise(2000, seed=3)
    added = np.array([minsep.release(np.zeros(2000), row, 1.0) - row for row in stream])
    correlations = np.corrcoef(added) - np.eye(12)
    assert np.abs(correlations).max() < stats.norm.isf(FALSE_ALARM / 288) / 2000**0.5


def test_rows_of_any_shape_and_dtype_are_released_alike():
    flat = minsep.release(np.ones(60), next(mechanism().noise(60, seed=4)), 0.5)
    for shape, dtype in (((3, 20), np.float32), ((5, 2, 6), np.float64)):
        row = next(mechanism().noise(shape, dtype, seed=4))
        noisy = minsep.release(np.asfortranarray(np.ones(shape)), row, 0.5)
        assert noisy.dtype == np.float64
        assert_array_equal(noisy.ravel(), flat)
    scalar = minsep.release(np.float64(1.0), next(mechanism().noise((), seed=4)), 0.5)
    assert scalar == flat[0]


def test_a_row_is_released_once_and_as_it_is():
    stream, sums = mechanism().noise(6, seed=0), np.zeros(6)
    row = next(stream)
    minsep.release(sums, row, 1.0)
    with pytest.raises(ValueError, match="row was released before or changed"):
        minsep.release(sums, row, 1.0)
    row = next(stream)
    for other in (2 * row, row[:6], row.reshape(6), row.astype(np.float64), row.copy()):
        with pytest.raises(ValueError, match="row was released before or changed"):
            minsep.release(sums, other, 1.0)
    for other in (np.asarray(row), np.zeros(6), None):
        with pytest.raises(ValueError, match="row is a .*, but it must be a row as Mechanism.noise hands it out"):
            minsep.release(sums, other, 1.0)
    assert minsep.release(sums, row, 1.0).shape == (6,)


def test_sums_without_a_grid_are_refused_in_a_sentence():
    for sums in (np.full(6, np.nan), np.full(6, np.inf), np.array([0, 0, 0, 0, 0, 1e13])):
        with pytest.raises(ValueError, match=r"not finite, or exceeds [\d.e+]+ in size, which is the most"):
            minsep.release(sums, next(mechanism().noise(6)), 1.0)
        held = sums.copy()
        with pytest.raises(ValueError, match="is not finite, or exceeds"):
            mechanism().noise(6).release_next(held, 1.0)
        assert_array_equal(held, np.zeros(6))  # nothing of the sum is left
    for sums in (np.zeros(6, dtype=np.float32), np.zeros(5), np.zeros((6, 1)), [0.0] * 5):
        with pytest.raises(ValueError, match=r"sum64 has shape .* dtype float64: add up clipped gradients in double"):
            minsep.release(sums, next(mechanism().noise(6)), 1.0)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, 1e-9, 1e31, np.nan, np.inf])
def test_clip_norms_without_a_grid_are_refused(clip_norm):
    row = next(mechanism().noise(6))
    with pytest.raises(ValueError, match=r"clip_norm is .*, but it must be above 1e-09 and at most 1e\+30"):
        minsep.release(np.zeros(6), row, clip_norm)
    minsep.release(np.zeros(6), row, 1.0)  # the row was not used up


@pytest.mark.parametrize("sigma", [1e-30, 3e-7, 1.0, 5e8, 1e30])
def test_noise_of_every_size_has_a_grid(sigma):
    row = next(mechanism(sigma=sigma).noise(50_000, seed=1))
    noisy = minsep.release(np.zeros(50_000), row, 1.0)
    assert_allclose(noisy.std(), sigma / BANDED.coefficients[0], rtol=0.03)
    assert_allclose(noisy, row, atol=0.01 * sigma)
