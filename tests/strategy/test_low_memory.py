"""Strategies with little memory: their formulas, their optima, and what they keep."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import binom

import minsep
from minsep.core.arrays import FloatArray
from minsep.strategy import buffered_optimum, newton, series
from minsep.strategy.recurrence import BufferedRecurrence
from tests.strategy.test_grid import with_errors

N = 12


def cost(strategy, min_sep, participations):
    return strategy.mean_squared_error * strategy.sensitivity(min_sep, participations) ** 2


def matrix(column) -> FloatArray:
    below = np.subtract.outer(np.arange(len(column)), np.arange(len(column)))
    return np.where(below >= 0, np.asarray(column)[np.maximum(below, 0)], 0.0)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.95])
def test_lambda_cgd_takes_back_a_part_of_the_row_before(correlation):
    strategy = minsep.LambdaCGD(correlation, N)
    powers = matrix(correlation ** np.arange(N))
    norm = np.linalg.norm(powers[:, 0])
    assert_allclose(strategy.dense(), powers / norm, rtol=1e-13)
    z = np.random.default_rng(0).standard_normal((N, 2))
    before = np.concatenate([np.zeros((1, 2)), z[:-1]])
    assert_allclose(strategy.solve(z), norm * (z - correlation * before), rtol=1e-12)
    assert (strategy.noise_rows, strategy.noise_bytes, strategy.drawn_rows) == (0, 0, 2)


@pytest.mark.parametrize(("gamma", "bands", "decay"), [(0.5, 4, 1.0), (0.8, 12, 1.0), (0.3, 5, 0.7), (1.0, 3, 0.9)])
def test_gamma_bifr_has_the_first_coefficients_of_a_power(gamma, bands, decay):
    strategy = minsep.GammaBIFR(gamma, bands, N, decay)
    k = np.arange(bands)
    expected = binom(gamma, k) * (-decay) ** k
    assert_allclose(strategy.noise_coefficients / strategy.noise_coefficients[0], expected, atol=1e-15)
    inverse = np.linalg.inv(matrix(np.pad(expected, (0, N - bands))))
    assert_allclose(strategy.dense(), inverse / np.linalg.norm(inverse[:, 0]), rtol=1e-9, atol=1e-13)
    assert (strategy.noise_rows, strategy.noise_bytes, strategy.drawn_rows) == (0, 0, bands)


def test_gamma_bifr_joins_lambda_cgd_and_the_square_root():
    two = minsep.GammaBIFR(0.7, bands=2, iterations=N)
    assert_allclose(two.noise_coefficients, minsep.LambdaCGD(0.7, N).noise_coefficients, rtol=1e-15)
    half = minsep.GammaBIFR(0.5, bands=5, iterations=N)
    root = minsep.BandedInverseToeplitz.square_root(iterations=N, bands=5)
    assert_allclose(half.noise_coefficients, root.noise_coefficients, rtol=1e-15)


DECAYS = st.lists(st.floats(0, 0.999), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(decays=DECAYS, scales=st.lists(st.floats(0, 0.6), min_size=4, max_size=4), iterations=st.integers(1, 30))
def test_blt_is_a_sum_of_geometric_series(decays, scales, iterations):
    scales = scales[: len(decays)]
    strategy = minsep.BufferedToeplitz(decays, scales, iterations)
    lags = np.arange(iterations - 1)
    column = [1.0, *(sum(w * t**k for t, w in zip(decays, scales, strict=True)) for k in lags)]
    dense = matrix(column) / np.linalg.norm(column)
    assert_allclose(strategy.dense(), dense, rtol=1e-11, atol=1e-300)
    z = np.random.default_rng(0).standard_normal((iterations, 3))
    solved = strategy.solve(z)
    assert_allclose(dense @ solved, z, atol=1e-11 * np.abs(solved).max())
    assert_allclose(strategy.inverse_coefficients, strategy.solve(np.eye(iterations))[:, 0], rtol=1e-12)
    # The rows of a run, by its recurrence alone.
    law = strategy.recurrence().buffers
    buffers, rows = np.zeros((len(decays), 3)), []
    for normals in z:
        rows.append(law.weights @ buffers + law.of_normals * normals)
        buffers = law.decays[:, None] * buffers + rows[-1]
    assert_allclose(rows, solved, atol=1e-12 * np.abs(solved).max())
    assert isinstance(strategy.recurrence(), BufferedRecurrence)
    assert (strategy.noise_rows, strategy.noise_bytes) == (len(decays), 8 * len(decays))


DAMPED = [
    minsep.LambdaCGD(0.9, N),
    minsep.GammaBIFR(0.8, 5, N),
    minsep.BandedInverseToeplitz.optimal(iterations=N, bands=4),
    minsep.BufferedToeplitz([0.95, 0.5], [0.3, 0.2], N),
]


@pytest.mark.parametrize("strategy", DAMPED, ids=repr)
def test_damping_multiplies_coefficients_by_powers(strategy):
    damped = strategy.damped(0.8)
    assert type(damped) is type(strategy)
    ratios = damped.coefficients / damped.coefficients[0] / (strategy.coefficients / strategy.coefficients[0])
    assert_allclose(ratios, 0.8 ** np.arange(N), rtol=1e-11)
    assert damped.noise_rows == strategy.noise_rows
    assert strategy.damped(1.0) == strategy
    for factor in (0.0, 1.1, -1.0):
        with pytest.raises(ValueError, match="factor is"):
            strategy.damped(factor)


@pytest.mark.parametrize(("n", "min_sep", "participations", "buffers"), [(60, 15, 3, 2), (40, 40, 1, 3), (25, 1, 4, 1)])
@pytest.mark.parametrize("workload", [None, minsep.Workload(momentum=0.8, horizon=9)])
def test_derivatives_of_the_objective_of_buffers(n, min_sep, participations, buffers, workload):
    column = None if workload is None else workload.coefficients(n)
    objective = buffered_optimum._Objective(n, min_sep, participations, column)
    point = buffered_optimum._start(n, buffers) + 0.1 * np.random.default_rng(0).standard_normal(2 * buffers)
    step = 1e-5 * np.eye(2 * buffers)
    values = [objective.value_and_gradient(point + d)[0] - objective.value_and_gradient(point - d)[0] for d in step]
    assert_allclose(objective.value_and_gradient(point)[1], np.array(values) / 2e-5, atol=1e-8)
    rows = [objective.value_and_gradient(point + d)[1] - objective.value_and_gradient(point - d)[1] for d in step]
    assert_allclose(objective.hessian(point), np.array(rows) / 2e-5, atol=1e-7)


def test_the_objective_of_buffers_is_the_cost_of_the_strategy():
    n, min_sep, participations = 50, 12, 4
    objective = buffered_optimum._Objective(n, min_sep, participations, None)
    point = buffered_optimum._start(n, 2)
    strategy = minsep.BufferedToeplitz(buffered_optimum._decays(point[2:]), np.exp(point[:2]), n)
    found = np.exp(objective.value_and_gradient(point)[0]) / n
    assert found == pytest.approx(cost(strategy, min_sep, participations), rel=1e-9)


@pytest.mark.parametrize(("n", "min_sep", "participations"), [(300, 300, 1), (300, 40, 8), (2000, 117, 18)])
def test_optimal_buffers_cannot_be_improved(n, min_sep, participations):
    costs = []
    generator = np.random.default_rng(0)
    for buffers in (1, 2, 3):
        best = minsep.BufferedToeplitz.optimal(
            iterations=n, buffers=buffers, min_sep=min_sep, participations=participations
        )
        least = cost(best, min_sep, participations)
        costs.append(least)
        for _ in range(20):
            decays = 1 - (1 - best.decays) * np.exp(0.01 * generator.standard_normal(best.buffers))
            scales = best.scales * np.exp(0.01 * generator.standard_normal(best.buffers))
            assert cost(minsep.BufferedToeplitz(decays, scales, n), min_sep, participations) >= least * (1 - 1e-9)
    assert costs == sorted(costs, reverse=True)
    # More parameters are no worse: the decays of lambda-CGD are among those of one buffer.
    single = minsep.LambdaCGD.optimal(iterations=n, min_sep=min_sep, participations=participations)
    assert costs[0] < cost(single, min_sep, participations)


def test_one_buffer_is_the_best_of_a_fine_grid():
    n, min_sep, participations = 40, 10, 4
    best = minsep.BufferedToeplitz.optimal(iterations=n, buffers=1, min_sep=min_sep, participations=participations)
    grid = (
        cost(minsep.BufferedToeplitz([decay], [scale], n), min_sep, participations)
        for decay, scale in itertools.product(np.linspace(0.02, 0.999, 60), np.linspace(0.01, 1.0, 60))
    )
    assert cost(best, min_sep, participations) <= min(grid)


def test_buffers_that_do_nothing_are_left_out():
    few = minsep.BufferedToeplitz.optimal(iterations=2000, buffers=2, min_sep=117, participations=18)
    many = minsep.BufferedToeplitz.optimal(iterations=2000, buffers=6, min_sep=117, participations=18)
    assert many == few


def test_the_best_of_one_number_is_that_of_a_search():
    for n, min_sep, participations in ((500, 500, 1), (500, 50, 10), (1, 1, 1), (2, 2, 1)):
        sizes = {"min_sep": min_sep, "participations": participations}
        best = minsep.LambdaCGD.optimal(iterations=n, **sizes)
        rungs = [minsep.LambdaCGD(1 - 2.0 ** (-k / 8), n) for k in range(80)]
        assert cost(best, min_sep, participations) <= min(cost(one, min_sep, participations) for one in rungs) * 1.0005
        if n > 2:
            of_powers = minsep.GammaBIFR.optimal(iterations=n, bands=4, **sizes)
            powers = [minsep.GammaBIFR(k / 64, 4, n) for k in range(1, 65)]
            least = min(cost(one, min_sep, participations) for one in powers)
            assert cost(of_powers, min_sep, participations) <= least * (1 + 1e-9)


def test_optima_follow_the_workload():
    workload = minsep.Workload(momentum=0.9, horizon=20)
    for make in (
        minsep.LambdaCGD.optimal,
        lambda **sizes: minsep.GammaBIFR.optimal(bands=4, **sizes),
        lambda **sizes: minsep.BufferedToeplitz.optimal(buffers=2, **sizes),
    ):
        plain, best = make(iterations=300), make(iterations=300, workload=workload)
        assert workload.mean_squared_error(best) < workload.mean_squared_error(plain)


def test_errors_of_an_optimisation_do_not_change_the_identity_of_buffers():
    """An edge of the grid is met once in some hundred thousand strategies; the seed is fixed, and none of these is."""
    generator = np.random.default_rng(0)
    for _ in range(25):
        n = int(generator.integers(20, 800))
        sizes = {"min_sep": int(generator.integers(5, n + 1)), "participations": int(generator.integers(1, 8))}
        optimise = (
            lambda n=n, sizes=sizes: minsep.BufferedToeplitz.optimal(iterations=n, buffers=3, **sizes),
            lambda n=n, sizes=sizes: minsep.LambdaCGD.optimal(iterations=n, **sizes),
            lambda n=n, sizes=sizes: minsep.GammaBIFR.optimal(iterations=n, bands=4, **sizes),
        )[int(generator.integers(3))]
        exact = optimise().fingerprint
        with pytest.MonkeyPatch.context() as patch:
            for name in ("multiply", "correlate", "inverse"):
                patch.setattr(series, name, with_errors(getattr(series, name), generator))
            assert optimise().fingerprint == exact


def test_newton_needs_few_steps():
    objective = buffered_optimum._Objective(2000, 117, 18, None)
    calls = []

    def counted(point):
        calls.append(point)
        return objective.hessian(point)

    newton.minimise(objective.value_and_gradient, counted, buffered_optimum._start(2000, 2), 1e-9)
    assert len(calls) < 20


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: minsep.LambdaCGD(1.0, 5),
            "correlation is 1.0, but it must be a finite number of at least 0 and below",
        ),
        (lambda: minsep.LambdaCGD(-0.1, 5), "correlation is -0.1"),
        (lambda: minsep.GammaBIFR(0.0, 2, 5), "gamma is 0.0, but it must be a finite number above 0 and at most 1"),
        (lambda: minsep.GammaBIFR(0.5, 6, 5), "bands is 6, but it must be an integer of at least 1 and at most 5"),
        (lambda: minsep.GammaBIFR(0.5, 2, 5, decay=1.5), "decay is 1.5"),
        (lambda: minsep.BufferedToeplitz([1.0], [0.1], 5), "every decay must be at least 0 and below 1"),
        (lambda: minsep.BufferedToeplitz([0.5], [-0.1], 5), "every scale must be at least 0 and"),
        (
            lambda: minsep.BufferedToeplitz([0.5, 0.6], [0.1], 5),
            "scales has 1 numbers, but it must have one for each of 2",
        ),
        (lambda: minsep.BufferedToeplitz([], [], 5), "decays"),
        (lambda: minsep.BufferedToeplitz([0.5], [1e308], 500), "every scale must be at least 0 and at most 1e[+]100"),
        (lambda: minsep.BufferedToeplitz([0.5] * 17, [0.1] * 17, 500), "buffers is 17"),
        (lambda: minsep.BufferedToeplitz.optimal(iterations=5, buffers=0), "buffers is 0"),
    ],
)
def test_what_is_no_such_strategy_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_long_run_has_a_bound_on_its_sensitivity_without_its_matrix(monkeypatch):
    """Coefficients that grow somewhere: the envelope is no smaller than any pattern."""
    monkeypatch.setattr("minsep.strategy.toeplitz._MOST_DENSE", 8)
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.2, 0.6], iterations=9)
    worst = max(
        float(np.linalg.norm(strategy.dense() @ x))
        for x in itertools.product((0, 1), repeat=9)
        if (np.diff(np.flatnonzero(x)) >= 2).all() and sum(x) <= 3
    )
    assert worst <= strategy.sensitivity(2, 3) < 1.5 * worst
