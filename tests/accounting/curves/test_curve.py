"""What a curve says of a run: against Gaussian mechanisms, whose every number is known, and against enumeration."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import minsep
from minsep.accounting.curves import Curve, PointCurve, RoundedRuns
from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.exact import GaussianCurve
from minsep.core.budget import Budget
from minsep.noise.rounding_reserve import rounding_cost
from tests.accounting.curves.test_points import delta, hockey_stick

IDENTITY = minsep.BandedToeplitz.identity(iterations=100)


def gaussian_delta(mu, epsilon):
    """Balle and Wang (2018), in its plain form."""
    normal = stats.norm
    return normal.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal.cdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu, delta):
    return optimize.brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0, 200)


@pytest.mark.parametrize("mu", [0.3, 0.91, 2.0])
def test_numbers_of_a_gaussian_curve_are_those_of_its_closed_forms(mu):
    curve = Curve(GaussianCurve(mu))
    for epsilon in (0.0, 0.5, 2.0):
        assert curve.delta(epsilon) == pytest.approx(gaussian_delta(mu, epsilon), rel=1e-9)
    assert curve.advantage == pytest.approx(2 * stats.norm.cdf(mu / 2) - 1)
    assert curve.epsilon(1e-6) == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-5)
    assert mu <= curve.mu <= 1.01 * mu
    for rate in (1e-3, 0.01, 0.1, 0.5):
        truth = stats.norm.cdf(stats.norm.ppf(rate) + mu)
        assert truth * (1 - 1e-12) <= curve.true_positives(rate) <= truth * (1 + 1e-3)


def test_true_positives_are_those_of_the_better_of_two_attackers():
    """A pair in which only Q has an outcome of its own: who looks for those who are not members is sure of some."""
    p, q = np.array([0.7, 0.3, 0.0]), np.array([0.6, 0.2, 0.2])
    losses = np.log(p[:2] / q[:2])
    exact = PointCurve(tuple((float(loss), hockey_stick(p, q, loss)) for loss in losses), ())
    for curve in (Curve(exact), Curve(PointCurve((), exact.remove))):
        for rate in (0.0, 0.1, 0.25, 0.65, 1.0):
            truth = max(best_test(p, q, rate), best_test(q, p, rate))
            assert truth * (1 - 1e-9) - 1e-12 <= curve.true_positives(rate) <= truth * (1 + 2e-3) + 1e-9


def best_test(null, alternative, rate):
    """The highest probability under the alternative of a randomised test with this probability under the null."""
    order = np.argsort(-alternative / np.maximum(null, 1e-300))
    false = np.append(0, np.cumsum(null[order]))
    true = np.append(0, np.cumsum(alternative[order]))
    return max(float(np.interp(rate, false, true)), float(true[false <= rate + 1e-15].max()))


def test_an_exact_curve_of_many_steps_is_looked_at_where_it_falls():
    """Rounding leaves the same delta at every epsilon: that is no reason to look at epsilon 500."""
    identity = minsep.BandedToeplitz.identity(iterations=4000)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(0.01), noise_multiplier=1.0)
    curve = minsep.certify(mechanism, epsilon=4.0, delta=1e-5).curve
    assert 4 < curve._epsilons[-1] < 40
    assert curve.mu < 0.9
    # Two steps, each with half of epsilon 4.
    assert 2 * curve.epsilon(1e-7) > curve.replacing().epsilon(1e-5) > curve.epsilon(1e-5)


def test_mu_covers_every_epsilon_up_to_its_reach():
    """The last epsilon that is looked at lies before the reach; the curve between them counts as well."""
    steep = PointCurve(((0.5, 0.25), (1.0, 0.2), (40.0, 0.0)), ((0.5, 0.25), (1.0, 0.2), (40.0, 0.0)))
    for reach in (0.004, 1.003, 1.0099999, 3.0049):
        # Less than the curve has there, so that the reach is that of the promise.
        curve = Curve(steep, promised=(Budget(reach, 0.9 * float(steep.delta(reach, "remove"))),))
        assert curve.mu_reach == reach
        for epsilon in np.linspace(0, reach * (1 - 1e-9), 200):
            assert gaussian_delta(curve.mu, epsilon) >= curve.delta(epsilon) * (1 - 1e-9)


def test_mu_of_a_run_that_tells_nothing_is_small():
    assert Curve(GaussianCurve(1e-6)).mu < 1e-4
    assert Curve(GaussianCurve(1e-6)).mu_reach == 0.0


@pytest.mark.parametrize("mu", [0.5, 0.91])
def test_replacing_doubles_the_parameter_of_a_gaussian_mechanism(mu):
    """Group privacy of two: mu becomes 2 mu, and the bound by two steps loses some of it, never gains."""
    replaced = Curve(GaussianCurve(mu)).replacing()
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        truth = gaussian_delta(2 * mu, epsilon)
        assert replaced.delta(epsilon) >= truth
    for small in (1e-3, 1e-5):
        assert 1 <= replaced.epsilon(small) / gaussian_epsilon(2 * mu, small) < 1.06


def weights(size=4):
    return st.lists(st.sampled_from([0, 1, 2, 5, 40, 1000]), min_size=size, max_size=size).filter(any)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(weights(), weights(), weights())
def test_replacing_covers_two_steps_of_any_mechanism(one, zeroed, other):
    """P -> Q -> P' for random discrete distributions: a curve that covers both steps covers both together."""
    p, q, after = (np.array(each, dtype=float) / sum(each) for each in (one, zeroed, other))
    tried = np.linspace(0, 6, 25)
    points = {
        direction: tuple((float(e), max(delta((each, q), e, direction) for each in (p, after)) + 1e-15) for e in tried)
        for direction in DIRECTIONS
    }
    replaced = Curve(PointCurve(points["remove"], points["add"])).replacing()
    for epsilon in np.linspace(0, 8, 17):
        truth = max(hockey_stick(p, after, epsilon), hockey_stick(after, p, epsilon))
        assert replaced.delta(epsilon) >= truth * (1 - 1e-9)


def test_replacing_keeps_the_chance_once_and_doubles_what_is_promised():
    curve = Curve(GaussianCurve(0.5), chance=1e-7, promised=(Budget(2.0, 1e-4),))
    replaced = curve.replacing()
    assert replaced.chance == 1e-7
    assert replaced.promised == (Budget(4.0, (1 + math.exp(2.0)) * 1e-4),)
    assert replaced.delta(1.0) == pytest.approx(replace(replaced, chance=0.0, promised=()).delta(1.0) + 1e-7, rel=1e-9)


# --- rounding ----------------------------------------------------------------------------------------------------


def by_the_theorem(exact, strategy, values, epsilon, direction, chance):
    """docs/rounding.md: (epsilon' + 2x, e^x delta + beta (1 + e^(epsilon' + 2x)))."""
    x, beta = rounding_cost(strategy, values, chance)
    return math.exp(x) * float(exact.delta(epsilon - 2 * x, direction)) + beta * (1 + math.exp(epsilon))


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.3, 2.0, 8.0])
def test_rounding_is_what_the_theorem_says_and_never_less(epsilon):
    exact = GaussianCurve(0.8)
    runs = RoundedRuns(((IDENTITY, 10**9),))
    for direction in DIRECTIONS:
        found = float(runs.delta(exact, np.array([epsilon]), direction)[0])
        plain = float(exact.delta(epsilon, direction))
        assert found > plain
        chance = 1e-5 * max(plain, 1e-30) / (1 + math.exp(epsilon))
        assert found == pytest.approx(by_the_theorem(exact, IDENTITY, 10**9, epsilon, direction, chance), rel=1e-9)


def test_rounding_of_runs_adds_up_and_equal_runs_are_one_with_more_values():
    exact, epsilons = GaussianCurve(0.8), np.array([0.0, 1.0, 3.0])
    optimal = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    one, other = RoundedRuns(((IDENTITY, 10**8),)), RoundedRuns(((optimal, 10**8),))
    both = (one + other).delta(exact, epsilons, "remove")
    chance = 0.5e-5 * float((exact.delta(epsilons, "remove") / (1 + np.exp(epsilons))).min())
    costs = [rounding_cost(strategy, 10**8, chance) for strategy in (IDENTITY, optimal)]
    x, beta = (sum(parts) for parts in zip(*costs, strict=True))
    expected = math.exp(x) * exact.delta(epsilons - 2 * x, "remove") + beta * (1 + np.exp(epsilons))
    assert both == pytest.approx(expected, rel=1e-9)
    # k runs of one strategy are one with k times the values, which costs less than k times x.
    repeated = one.repeated(4)
    assert repeated == RoundedRuns(((IDENTITY, 4 * 10**8),))
    four = (one + one + one + one).delta(exact, epsilons, "remove")
    assert (repeated.delta(exact, epsilons, "remove") < four).all()
    assert (repeated.delta(exact, epsilons, "remove") > one.delta(exact, epsilons, "remove")).all()


def test_where_nothing_is_proven_about_rounding_nothing_is_proven():
    runs = RoundedRuns(((IDENTITY, 10**30),))
    assert (runs.delta(GaussianCurve(0.5), np.array([0.0, 1.0]), "remove") == 1.0).all()


@pytest.mark.parametrize(
    ("scheme", "sigma"), [(minsep.Poisson(0.02), 1.0), (minsep.Poisson(0.02), 0.7), (minsep.Unamplified(100, 1), 3.0)]
)
def test_the_curve_of_an_exact_certificate_lies_between_the_exact_curve_and_the_certified_delta(scheme, sigma):
    mechanism = minsep.Mechanism(IDENTITY, scheme, sigma)
    certificate = minsep.certify(mechanism, epsilon=3.0, delta=1e-3)
    assert certificate.passed
    curve = certificate.curve
    for epsilon in (0.0, 0.5, 1.0, 2.9, 3.0, 5.0):
        for direction in DIRECTIONS:
            assert curve.delta(epsilon, direction) >= float(curve.exact.delta(epsilon, direction))
    assert curve.delta(3.0) <= 1e-3
    assert curve.epsilon(1e-3) <= 3.0
    released = curve.privacy_loss_distribution()
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert released.get_delta_for_epsilon(epsilon) >= max(
            float(curve.exact.delta(epsilon, direction)) for direction in DIRECTIONS
        ) * (1 - 1e-9)
