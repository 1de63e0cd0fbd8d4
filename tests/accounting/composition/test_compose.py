"""Compositions against exact convolutions of discrete pairs, and what they say of certificates."""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from hypothesis import HealthCheck, given, settings

import minsep
from minsep.accounting.curves import PointCurve, compose_curves, losses_of
from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.exact import GaussianCurve
from tests.accounting.curves.test_points import delta, pairs

WIDTH = 1e-4
EPSILONS = np.array([-2.0, -0.3, 0.0, 0.1, 0.7, 1.5, 3.0, 6.0, 12.0])


def whole_curve(pair):
    """The curve through all points of a discrete pair, which is the curve of the pair."""
    p, q = pair
    both = (p > 0) & (q > 0)
    losses = np.unique(np.log(p[both] / q[both]))
    return PointCurve(
        tuple((float(loss), delta(pair, loss, "remove") + 1e-15) for loss in losses),
        tuple((float(-loss), delta(pair, -loss, "add") + 1e-15) for loss in losses),
    )


def together(*parts):
    """The pair of all outcomes together, by enumeration."""
    p = [math.prod(each) for each in product(*(pair[0] for pair in parts))]
    q = [math.prod(each) for each in product(*(pair[1] for pair in parts))]
    return np.array(p), np.array(q)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(4), pairs(3))
def test_compositions_are_those_of_exact_convolutions(one, other):
    """Rounded up by less than one width for each part, and by what Fourier transforms add."""
    curve = compose_curves([(whole_curve(one), 2), (whole_curve(other), 1)])
    exact = together(one, one, other)
    for direction in DIRECTIONS:
        found = curve.delta(EPSILONS, direction)
        for epsilon, value in zip(EPSILONS, found, strict=True):
            assert value >= delta(exact, epsilon, direction) * (1 - 1e-12)
            assert value <= delta(exact, epsilon - 3.1 * WIDTH, direction) * (1 + 1e-9) + 1e-9


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(5))
def test_losses_on_a_grid_are_those_of_the_curve_rounded_up(pair):
    exact = whole_curve(pair)
    for width in (1e-4, 3e-3):
        fine = losses_of(exact, width)
        coarse = losses_of(fine, 7.3 * width)
        for direction in DIRECTIONS:
            truth = np.array([delta(pair, epsilon, direction) for epsilon in EPSILONS])
            moved = np.array([delta(pair, epsilon - 9 * width, direction) for epsilon in EPSILONS])
            for grid in (fine, coarse):
                found = grid.delta(EPSILONS, direction)
                assert (found >= truth * (1 - 1e-12) - 1e-15).all()
                assert (found <= moved * (1 + 1e-9) + 1e-12).all()


def test_a_curve_that_is_no_list_of_points_composes_from_above():
    from minsep.accounting.exact.curves import GaussianMixtureCurve

    mixture = GaussianMixtureCurve(np.array([0.5, 1.0]), np.array([0.4, 0.6]))
    curve = compose_curves([(mixture, 1), (GaussianCurve(0.7), 1)])
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        truth = 0.4 * GaussianCurve(math.hypot(0.5, 0.7)).delta(epsilon, "remove")
        truth = truth + 0.6 * GaussianCurve(math.hypot(1.0, 0.7)).delta(epsilon, "remove")
        for direction in DIRECTIONS:
            assert truth * (1 - 1e-9) <= curve.delta(epsilon, direction) <= 1.01 * truth + 1e-9


def test_gaussian_points_compose_nearly_as_the_gaussian_mechanism():
    one = GaussianCurve(0.6)
    points = tuple((float(e), float(one.delta(e, "remove"))) for e in np.linspace(0, 5, 200))
    curve = compose_curves([(PointCurve(points, points), 5)])
    truth = GaussianCurve(0.6 * math.sqrt(5))
    for epsilon in (0.0, 1.0, 3.0, 5.0):
        expected = float(truth.delta(epsilon, "remove"))
        for direction in DIRECTIONS:
            assert expected <= float(curve.delta(epsilon, direction)) <= 1.05 * expected + 1e-6


# --- certificates ------------------------------------------------------------------------------------------------

STRATEGY = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
IDENTITY = minsep.BandedToeplitz.identity(iterations=50)


@cache
def sampled(seed, num_examples=None):
    mechanism = minsep.Mechanism(STRATEGY, minsep.MinSep(0.02, 10), 0.85)
    return minsep.certify(mechanism, 2.0, 1e-3, seed=seed, num_examples=num_examples)


def test_the_chance_of_a_certificate_counts_once_for_all_its_runs():
    one, other = sampled(1), sampled(2)
    chance = one.failure_probability
    assert minsep.compose([one], 1e-2).curve.chance == chance
    assert minsep.compose([one, one, one], 1e-2).curve.chance == chance
    assert minsep.compose([one, other, one], 1e-2).curve.chance == pytest.approx(2 * chance)


def test_rounding_counts_for_every_run():
    one, other = sampled(1), sampled(2)
    values = one.reserve.values
    assert minsep.compose([one, one, other], 1e-2).curve.runs.runs == ((STRATEGY, 2 * values), (STRATEGY, values))
    runs = minsep.compose([one, one], 1e-2).curve
    for epsilon in (0.0, 1.0, 3.0):
        assert runs.delta(epsilon) >= float(runs.exact.delta(epsilon, "remove")) + one.failure_probability


def test_a_composition_is_never_worse_than_the_sum_of_its_budgets():
    one = sampled(1)
    composed = minsep.compose([one] * 3)
    assert composed.delta == pytest.approx(3e-3)
    assert composed.epsilon <= 6.0
    assert composed.sum_of_epsilons == 6.0


def test_runs_for_different_units_or_sizes_do_not_compose():
    one = sampled(1)
    users = minsep.Mechanism(IDENTITY, minsep.UserMinSep(0.01, 1, user_bound=2), 2.0)
    assert users.scheme.unit == "user"
    with pytest.raises(ValueError, match="protect different units"):
        minsep.compose([one, users], 1e-2)
    cut = minsep.Mechanism(
        IDENTITY,
        minsep.Poisson(0.02),
        2.0,
        minsep.Truncation(60, num_examples=1000),
    )
    sized = sampled(2, num_examples=2000)
    with pytest.raises(ValueError, match="1,000 and 2,000 examples"):
        minsep.compose([sized, cut], 1e-2)
    assert minsep.compose([sized, cut], 1e-2, accept_other_num_examples=True).count == 2


def test_a_composition_says_what_has_nothing_for_rounding():
    one = sampled(1)
    assert "rounding in" not in minsep.compose([one], 1e-2).statement
    assert "rounding in 1 of them" in minsep.compose([one, GaussianDpEvent(30.0)], 1e-2).statement
    older = replace(one, reserve=replace(one.reserve, values=0, epsilon=0.0, delta=0.0))
    assert "rounding in 2 of them" in minsep.compose([older, older], 1e-2).statement


def test_so_many_runs_that_their_epsilons_add_up_to_no_budget_still_compose():
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=50), minsep.Poisson(rate=0.05), 1.5)
    together = minsep.compose([minsep.certify(mechanism, 4.0, 1e-4)] * 300, delta=0.05)
    assert together.sum_of_epsilons == 1200.0
    assert 5.0 < together.epsilon < 50.0
