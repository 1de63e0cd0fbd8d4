"""A delta that is too large: one rule, for plans, calibrations and certificates."""

import warnings
from statistics import NormalDist

import pytest

import minsep
from minsep import paper
from minsep.accounting.exact import GaussianCurve
from minsep.core.budget import LargeDeltaWarning, most_true_positives

IDENTITY = minsep.BandedToeplitz.identity(iterations=5)
DESIGN = minsep.Design(IDENTITY, minsep.Poisson(rate=0.1))


def planned(delta, **more):
    return minsep.plan(100, 10, 5, epsilon=4.0, delta=delta, schemes=["poisson"], seed=0, **more)


def planned_for_users(delta):
    graph = minsep.AttributionGraph.from_lists([[k // 2] for k in range(200)])
    return minsep.plan_users(graph, 10, 5, epsilon=4.0, delta=delta, user_bounds=[1], schemes=["poisson"], seed=0)


def calibrated(delta):
    return minsep.calibrate(DESIGN, epsilon=4.0, delta=delta, num_examples=100)


def certified(delta):
    return minsep.certify(DESIGN.with_noise(5.0), 4.0, delta, num_examples=100)


@pytest.mark.parametrize("make", [planned, planned_for_users, calibrated, certified])
def test_one_over_the_number_of_the_protected_is_too_large(make):
    units = "users" if make is planned_for_users else "examples"
    with pytest.warns(LargeDeltaWarning, match=rf"^delta is 0.01, but with 100 {units} .* below 1/100 \(0.01\)"):
        make(1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(9.9e-3)


def test_an_estimate_warns_as_well():
    with pytest.warns(LargeDeltaWarning):
        planned(1e-2, estimate=True)


def test_a_plan_warns_once():
    with pytest.warns(LargeDeltaWarning) as said:
        planned(1e-2)
    assert len(said) == 1


@pytest.mark.parametrize(
    "make",
    [
        planned,
        planned_for_users,
        calibrated,
        certified,
        lambda delta: paper.certify(DESIGN.with_noise(5.0), 4.0, delta),
        lambda delta: paper.calibrate(DESIGN, 4.0, delta),
    ],
)
@pytest.mark.parametrize("delta", [0.5, 0.9])
def test_half_and_more_is_refused(make, delta):
    with pytest.raises(ValueError, match=f"delta is {delta}, but it must be a finite number above 0 and below 0.5"):
        make(delta)


@pytest.mark.parametrize("false_positives", [1e-4, 0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.4])
def test_a_budget_against_attackers_keeps_their_true_positives_low(false_positives, share):
    most = false_positives + share * (1 - false_positives)
    budget = minsep.Budget.against(most, false_positives)
    reached = most_true_positives(false_positives, budget.epsilon, budget.delta)
    assert most - 0.03 * (most - false_positives) <= reached <= most


def test_a_gaussian_mechanism_needs_no_more_noise_for_a_budget_against_attackers():
    # Its trade-off touches the line of the budget: true positives are then exactly those that are asked for.
    budget = minsep.Budget.against(true_positives=0.05, false_positives=0.01)
    mu = NormalDist().inv_cdf(0.05) - NormalDist().inv_cdf(0.01)
    curve = minsep.accounting.Curve(GaussianCurve(mu))
    assert curve.delta(budget.epsilon) == pytest.approx(budget.delta, rel=1e-6)
    assert curve.true_positives(0.01) == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("advantage", [0.01, 0.1, 0.4])
def test_a_budget_for_an_advantage_keeps_it(advantage):
    budget = minsep.Budget.with_advantage(advantage)
    gains = [most_true_positives(k / 1000, budget.epsilon, budget.delta) - k / 1000 for k in range(1001)]
    assert 0.98 * advantage <= max(gains) <= advantage


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
def test_a_gaussian_budget_is_on_the_gaussian_curve(mu):
    budget = minsep.Budget.gaussian(mu, 1e-6)
    assert float(GaussianCurve(mu).delta(budget.epsilon, "remove")) == pytest.approx(1e-6, rel=1e-6)
