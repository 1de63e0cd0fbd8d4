"""Workloads against their matrices, and optimal strategies for them beside a peer's."""

import math

import numpy as np
import pytest

import minsep
from minsep import Workload

WORKLOADS = [
    Workload(),
    Workload(momentum=0.9),
    Workload(horizon=20),
    Workload(momentum=0.95, horizon=200),
    Workload(momentum=0.9, schedule="linear-decay"),
    Workload(momentum=0.5, horizon=7, schedule="cosine"),
]


def matrix_of(workload, n):
    """Return A by running SGD on unit gradients, step by step."""
    keep = 1 if workload.horizon is None else 1 - 1 / workload.horizon
    left = 1 - np.arange(n) / n
    rates = {"constant": np.ones(n), "linear-decay": left, "cosine": (1 + np.cos(math.pi * (1 - left))) / 2}
    model, velocity, rows = np.zeros(n), np.zeros(n), []
    for step in range(n):
        gradient = np.zeros(n)
        gradient[step] = 1 - workload.momentum
        velocity = workload.momentum * velocity + gradient
        model = keep * model + rates[workload.schedule][step] * velocity
        rows.append(model)
    return np.array(rows)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_error_is_that_of_the_matrix(workload):
    n = 60
    matrix = matrix_of(workload, n)
    if workload.is_toeplitz:
        np.testing.assert_allclose(workload.coefficients(n), matrix[:, 0], rtol=1e-12)
    for bands in (1, 4, 9):
        strategy = minsep.BandedToeplitz.optimal(iterations=n, bands=bands)
        error = np.linalg.norm(matrix @ np.linalg.inv(strategy.dense())) ** 2 / n
        assert workload.mean_squared_error(strategy) == pytest.approx(error, rel=1e-10)


@pytest.mark.parametrize("workload", WORKLOADS[:4], ids=lambda workload: workload.name)
def test_no_strategy_nearby_is_better(workload):
    best = minsep.BandedToeplitz.optimal(iterations=200, bands=6, workload=workload)
    least = workload.mean_squared_error(best)
    generator = np.random.default_rng(0)
    for _ in range(50):
        moved = np.maximum(best.coefficients + 0.01 * generator.standard_normal(6), 0.0)
        assert workload.mean_squared_error(minsep.BandedToeplitz.from_coefficients(moved, iterations=200)) > least


@pytest.mark.parametrize(("n", "bands", "momentum"), [(64, 4, 0.9), (256, 16, 0.95)])
def test_the_optimum_equals_a_peers(n, bands, momentum):
    """jax-privacy's error of a Toeplitz strategy with a workload, minimised by its own optimiser."""
    toeplitz = pytest.importorskip("jax_privacy.matrix_factorization.toeplitz")
    from jax_privacy.matrix_factorization import optimization

    workload = Workload(momentum=momentum)
    column = workload.coefficients(n)

    @optimization.jax_enable_x64
    def peers():
        import jax.numpy as jnp

        def loss(coefficients):
            errors = toeplitz.per_query_error(
                strategy_coef=coefficients, n=n, workload_coef=jnp.asarray(column), skip_checks=True
            )
            return errors.mean() * (coefficients**2).sum()

        start = jnp.asarray(minsep.BandedToeplitz.optimal(iterations=n, bands=bands).coefficients)
        return np.asarray(optimization.optimize(loss, start, max_optimizer_steps=2000))

    found = minsep.BandedToeplitz.from_coefficients(np.maximum(peers(), 0), iterations=n)
    best = minsep.BandedToeplitz.optimal(iterations=n, bands=bands, workload=workload)
    assert workload.mean_squared_error(best) == pytest.approx(workload.mean_squared_error(found), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"momentum": 1.0}, "momentum is 1.0, but it must be a finite number of at least 0 and below 1"),
        ({"horizon": 0.5}, "horizon is 0.5, but it must be a finite number of at least 1"),
        ({"schedule": "warm-up"}, "schedule is 'warm-up', but it must be one of"),
    ],
)
def test_bad_workloads_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Workload(**arguments)


def test_what_cannot_be_computed_is_refused():
    schedule = Workload(schedule="cosine")
    long = minsep.BandedToeplitz.identity(iterations=30_000)
    with pytest.raises(ValueError, match="iterations is 30000, but for a schedule that is not constant"):
        schedule.mean_squared_error(long)
    with pytest.raises(ValueError, match="but the error of a workload is known for Toeplitz matrices"):
        Workload(momentum=0.5).mean_squared_error(minsep.Dense(np.eye(4)))


def test_a_short_horizon_prefers_independent_noise_and_a_plan_says_so():
    options = {"schemes": ["poisson", "cyclic-poisson"], "max_bands": 8, "seed": 0, "tune": False}
    plan = minsep.plan(2000, 100, 100, 2.0, 1e-3, **options)
    assert plan.mechanism.strategy.bands > 1
    by_name = {found.workload: found for found in minsep.rankings(plan, [Workload(), Workload(horizon=1)])}
    assert by_name[Workload()].best == plan.chosen
    assert by_name[Workload()].plan_error == pytest.approx(plan.chosen.error)
    assert by_name[Workload(horizon=1)].best.bands == 1
    assert "DP-SGD" in by_name[Workload(horizon=1)].sentence
    short = minsep.plan(2000, 100, 100, 2.0, 1e-3, workload=Workload(horizon=1), **options)
    assert short.mechanism.strategy.bands == 1
    assert "horizon of 1 steps" in short.statement
    with pytest.raises(ValueError, match="workload is 'momentum', but it must be a minsep.Workload"):
        minsep.plan(2000, 100, 100, 2.0, 1e-3, workload="momentum")
