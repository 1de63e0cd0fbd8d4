"""A delta that is too large: one rule, for plans, calibrations and certificates."""

import warnings

import pytest

import minsep
from minsep import paper
from minsep.core.budget import LargeDeltaWarning

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
