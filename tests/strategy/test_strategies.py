import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import minsep
from minsep.strategy import Strategy, optimum, series


def examples(iterations: int = 11) -> list[Strategy]:
    banded = [minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands) for bands in (1, 2, 3, 5, iterations)]
    inverse = [minsep.BandedInverseToeplitz.square_root(iterations=iterations, bands=bands) for bands in (1, 2, 4)]
    inverse += [minsep.LambdaCGD(0.0, iterations), minsep.LambdaCGD(0.9, iterations)]
    inverse += [minsep.GammaBIFR(0.8, 4, iterations), minsep.GammaBIFR(1.0, 3, iterations, decay=0.9)]
    buffered = [
        minsep.BufferedToeplitz.optimal(iterations=iterations, buffers=2),
        minsep.BufferedToeplitz([0.9, 0.0, 0.5], [0.2, 0.1, 0.0], iterations),
        minsep.BufferedToeplitz([0.8], [1.5], iterations),
    ]
    uneven = minsep.BandedToeplitz.from_coefficients([0.5, 0.0, 2.0, 1.0], iterations=iterations)
    dense = minsep.Dense(np.tril(np.random.default_rng(0).random((iterations, iterations))) + np.eye(iterations))
    return [*banded, *inverse, *buffered, uneven, dense]


@pytest.mark.parametrize("strategy", examples(), ids=repr)
def test_everything_follows_from_the_full_matrix(strategy):
    matrix = strategy.dense()
    n = strategy.iterations
    columns = matrix.T
    assert_allclose(strategy.column_norms, np.linalg.norm(matrix, axis=0), rtol=1e-12)
    assert strategy.column_norms.max() == pytest.approx(1, rel=1e-12)
    for lag in range(n + 2):
        expected = [columns[i] @ columns[i - lag] if i >= lag else 0.0 for i in range(n)]
        assert_allclose(strategy.gram(lag), expected, atol=1e-14)
    inverse = np.linalg.inv(matrix)
    errors = (np.tril(np.ones((n, n))) @ inverse) ** 2
    assert_allclose(strategy.prefix_variances, errors.sum(axis=1), rtol=1e-9)
    assert strategy.mean_squared_error == pytest.approx(errors.sum() / n)
    assert strategy.max_squared_error == pytest.approx(errors.sum(axis=1).max())
    values = np.random.default_rng(1).standard_normal((n, 2, 3))
    assert_allclose(strategy.solve(values), np.einsum("ij,jkl->ikl", inverse, values), atol=1e-9)
    below = np.subtract.outer(np.arange(n), np.arange(n))
    assert (matrix[below >= strategy.bands] == 0).all()


@pytest.mark.parametrize("strategy", examples(9), ids=repr)
@pytest.mark.parametrize("min_sep", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("participations", [1, 2, 3, None])
def test_sensitivity_covers_every_participation_pattern(strategy, min_sep, participations):
    n = strategy.iterations
    worst = 0.0
    for x in itertools.product((0, 1), repeat=n):
        ones = np.flatnonzero(x)
        if (np.diff(ones) >= min_sep).all() and len(ones) <= (participations or n):
            worst = max(worst, float(np.linalg.norm(strategy.dense() @ x)))
    found = strategy.sensitivity(min_sep, participations)
    assert found >= worst * (1 - 1e-12)
    exact = min_sep >= strategy.bands or (strategy.column is not None and (np.diff(strategy.column) <= 0).all())
    if exact:
        assert found == pytest.approx(worst, rel=1e-12)
    else:
        assert found <= 2 * worst


@settings(max_examples=50, deadline=None)
@given(
    coefficients=st.lists(st.floats(0, 1), max_size=6).map(lambda tail: [1.0, *tail]),
    extra=st.integers(0, 20),
)
def test_series_inverse_is_the_triangular_inverse(coefficients, extra):
    length = len(coefficients) + extra
    matrix = minsep.BandedToeplitz(coefficients, length).dense()
    expected = np.linalg.solve(matrix, np.eye(length)[0])
    found = series.inverse(matrix[: len(coefficients), 0], length)
    assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("workload", [None, minsep.Workload(momentum=0.8, horizon=9)])
@pytest.mark.parametrize(("n", "bands"), [(12, 3), (12, 12), (40, 7)])
def test_derivatives_of_the_objective(n, bands, workload):
    objective = optimum._BandedObjective(n, bands, None if workload is None else workload.coefficients(n))
    x = series.square_root_of_prefix_sums(bands)[1:] + 0.01 * np.arange(bands - 1)
    step = 1e-5 * np.eye(bands - 1)
    differences = [
        (np.array(objective.value_and_gradient(x + d)[0]) - objective.value_and_gradient(x - d)[0]) / 2e-5 for d in step
    ]
    assert_allclose(objective.value_and_gradient(x)[1], differences, atol=1e-8)
    rows = [(objective.value_and_gradient(x + d)[1] - objective.value_and_gradient(x - d)[1]) / 2e-5 for d in step]
    assert_allclose(objective.hessian(x), rows, atol=1e-7)


@pytest.mark.parametrize(("n", "bands"), [(1, 1), (5, 2), (5, 5), (64, 8), (64, 64), (500, 33), (2000, 16)])
def test_optimal_cannot_be_improved(n, bands):
    best = minsep.BandedToeplitz.optimal(iterations=n, bands=bands)
    assert best.mean_squared_error <= minsep.BandedToeplitz.square_root(iterations=n, bands=bands).mean_squared_error
    generator = np.random.default_rng(0)
    for _ in range(20):
        nearby = np.maximum(best.coefficients + 1e-3 * generator.standard_normal(bands), 0)
        other = minsep.BandedToeplitz.from_coefficients(nearby, iterations=n)
        assert other.mean_squared_error >= best.mean_squared_error * (1 - 1e-9)


def test_optimal_is_non_negative_at_every_small_size():
    for n in range(1, 25):
        for bands in range(1, n + 1):
            assert (minsep.BandedToeplitz.optimal(iterations=n, bands=bands).coefficients >= 0).all()


@pytest.mark.parametrize("participations", [1, 4])
def test_optimal_banded_inverse_cannot_be_improved(participations):
    n, bands, min_sep = 60, 5, 15
    best = minsep.BandedInverseToeplitz.optimal(
        iterations=n, bands=bands, min_sep=min_sep, participations=participations
    )
    count = participations

    def cost(strategy):
        return strategy.mean_squared_error * strategy.sensitivity(min_sep, count) ** 2

    assert cost(best) < cost(minsep.BandedInverseToeplitz.square_root(iterations=n, bands=bands))
    generator = np.random.default_rng(0)
    for _ in range(20):
        nearby = best.noise_coefficients * (1 + 1e-3 * generator.standard_normal(bands))
        other = minsep.BandedInverseToeplitz.from_noise_coefficients(nearby, iterations=n)
        assert cost(other) >= cost(best) * (1 - 1e-9)


@pytest.mark.parametrize(("n", "bands"), [(2000, 4), (2000, 16), (300, 2)])
def test_optimal_banded_inverse_at_training_sizes(n, bands):
    best = minsep.BandedInverseToeplitz.optimal(iterations=n, bands=bands)
    root = minsep.BandedInverseToeplitz.square_root(iterations=n, bands=bands)
    assert best.mean_squared_error < 0.5 * root.mean_squared_error


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_the_scale_of_coefficients_does_not_matter(scale):
    scaled = minsep.BandedToeplitz.from_coefficients([4 * scale, 3 * scale, -0.0], iterations=5)
    assert_allclose(scaled.coefficients, [0.8, 0.6, 0.0], rtol=1e-15)
    zero = minsep.BandedToeplitz.from_coefficients([4 * scale, 3 * scale, 0.0], iterations=5)
    assert scaled.fingerprint == zero.fingerprint


def test_rounding_does_not_spoil_the_exact_sensitivity():
    strategy = minsep.BandedInverseToeplitz.square_root(iterations=200, bands=4)
    x = np.zeros(200)
    x[[0, 5, 10]] = 1
    assert strategy.sensitivity(5, 3) == pytest.approx(np.linalg.norm(strategy.dense() @ x), rel=1e-9)


def test_strategies_are_values():
    one = minsep.BandedToeplitz.from_coefficients([4, 3], iterations=5)
    same = minsep.BandedToeplitz.from_coefficients([8, 6], iterations=5)
    assert one == same
    assert hash(one) == hash(same)
    assert one != minsep.BandedToeplitz.from_coefficients([4, 3], iterations=6)
    assert one != minsep.Dense(one.dense())
    with pytest.raises(ValueError, match="read-only"):
        one.coefficients[0] = 2.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: minsep.BandedToeplitz.optimal(iterations=8, bands=9),
            "bands is 9, .* at least 1 and at most 8",
        ),
        (lambda: minsep.BandedToeplitz.optimal(iterations=0, bands=1), "iterations is 0, .* at least 1"),
        (lambda: minsep.BandedToeplitz.optimal(iterations=8.5, bands=1), "iterations is 8.5, .* integer"),
        (
            lambda: minsep.BandedToeplitz.from_coefficients([1, np.nan], iterations=8),
            r"value nan at \[1\].* finite",
        ),
        (
            lambda: minsep.BandedToeplitz.from_coefficients([1, -0.1], iterations=8),
            r"-0.1 at \[1\].* at least 0",
        ),
        (lambda: minsep.BandedToeplitz.from_coefficients([0, 1], iterations=8), r"0 at \[0\].* positive"),
        (lambda: minsep.BandedToeplitz.from_coefficients([], iterations=8), "non-empty"),
        (lambda: minsep.BandedToeplitz.from_coefficients(["a"], iterations=8), "array of numbers"),
        (lambda: minsep.BandedToeplitz.from_coefficients(["1.0"], iterations=8), "array of numbers"),
        (lambda: minsep.BandedToeplitz.from_coefficients([1.0 + 2.0j], iterations=8), "array of numbers"),
        (lambda: minsep.BandedToeplitz.from_coefficients([1e-200, 1e200], iterations=8), "diagonal vanishes"),
        (lambda: minsep.Dense([[1e-200, 0.0], [1e200, 1.0]]), "diagonal vanishes"),
        (
            lambda: minsep.BandedToeplitz.from_coefficients([1, 1, 1], iterations=2),
            "bands is 3, .* at most 2",
        ),
        (
            lambda: minsep.BandedInverseToeplitz.from_noise_coefficients([1, 0.5], iterations=8),
            "non-negative",
        ),
        (lambda: minsep.BandedInverseToeplitz.from_noise_coefficients([-1, 0.5], iterations=8), "positive"),
        (
            lambda: minsep.BandedInverseToeplitz.from_noise_coefficients([1, -1e300], iterations=8),
            "non-negative",
        ),
        (lambda: minsep.Dense([[1.0, 2.0]]), "square"),
        (lambda: minsep.Dense([[1.0, 2.0], [0.0, 1.0]]), r"2 at \[0, 1\].* above the diagonal"),
        (lambda: minsep.Dense([[1.0, 0.0], [-1.0, 1.0]]), r"-1 at \[1, 0\].* at least 0"),
        (lambda: minsep.Dense([[1.0, 0.0], [1.0, 0.0]]), r"0 at \[1, 1\].* diagonal must be positive"),
        (lambda: minsep.BandedToeplitz.identity(iterations=3).solve([1.0, 2.0]), "3 rows"),
        (lambda: minsep.BandedToeplitz.identity(iterations=3).sensitivity(0), "min_sep is 0"),
        (lambda: minsep.BandedToeplitz.identity(iterations=3).sensitivity(1, 0), "participations is 0"),
        (lambda: minsep.BandedToeplitz.identity(iterations=3).gram(-1), "lag is -1"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
