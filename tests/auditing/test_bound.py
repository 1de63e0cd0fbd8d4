"""The lower bound on epsilon: exact enumeration of its chance of an error, and the parts that it is made of."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from minsep.auditing.bound import distance_p_value, epsilon_bound, least_probability, two_sided
from minsep.auditing.checks import distribution_distance
from minsep.auditing.marginals import participation_rates
from minsep.auditing.statistic import Rule
from minsep.participation.renewal import RenewalLaw
from minsep.participation.times import draw_times
from minsep.randomness import Key, KeyedWords


@given(st.integers(1, 40), st.data(), st.sampled_from([0.3, 0.05, 1e-6]))
def test_the_limit_is_where_the_upper_tail_is_the_chance(trials, data, chance):
    successes = data.draw(st.integers(0, trials))
    limit = float(least_probability(successes, trials, chance))
    if successes == 0:
        assert limit == 0
        return
    tail = math.fsum(
        math.comb(trials, k) * limit**k * (1 - limit) ** (trials - k) for k in range(successes, trials + 1)
    )
    assert tail == pytest.approx(chance, rel=1e-6)
    assert limit == pytest.approx(
        stats.binomtest(successes, trials, alternative="greater").proportion_ci(1 - chance).low, rel=1e-6
    )


def chance_of_error(right_rate, wrong_rate, delta, trials, chance, bound=epsilon_bound):
    """The exact probability that the bound exceeds epsilon = log((right - delta) / wrong), over coins and outcomes."""
    true = math.log((right_rate - delta) / wrong_rate)
    total = 0.0
    for named in range(trials + 1):
        rate_named = (right_rate + wrong_rate) / 2
        of_named = stats.binom.pmf(named, trials, rate_named)
        right = np.arange(named + 1)
        of_right = stats.binom.pmf(right, named, right_rate / (right_rate + wrong_rate))
        unnamed = np.arange(trials - named + 1)
        of_unnamed = stats.binom.pmf(unnamed, trials - named, (1 - right_rate) / 2 / (1 - rate_named))
        # A trial is on the side that the rule bets on if it is right, or not named and on that side.
        sides = right[:, None] + unnamed[None, :]
        bounds = bound(right[:, None], named - right[:, None], sides, delta, chance)
        total += of_named * float((np.outer(of_right, of_unnamed) * (bounds > true)).sum())
    return total


@pytest.mark.parametrize("chance", [0.2, 0.05, 0.001])
@pytest.mark.parametrize(
    ("right", "wrong", "delta"),
    [(0.5, 0.1, 0.0), (0.9, 0.3, 0.0), (0.3, 0.02, 0.01), (0.6, 0.2, 0.2), (0.3, 0.01, 0.25), (0.2, 0.19, 0.0)],
)
def test_the_bound_is_too_large_at_most_as_often_as_stated(right, wrong, delta, chance):
    assert chance_of_error(right, wrong, delta, 25, chance) <= chance


def test_that_test_can_fail():
    def point_estimate(right, wrong, trials, delta, chance):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.log((right / np.maximum(trials, 1) - delta) / (wrong / np.maximum(trials, 1))))

    assert chance_of_error(0.5, 0.1, 0.0, 25, 0.05, point_estimate) > 0.3


@settings(max_examples=200)
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000), st.floats(0, 0.5), st.floats(1e-9, 0.5))
def test_the_bound_is_a_finite_number_and_grows_with_what_is_right(right, wrong, more, delta, chance):
    bound, better = (
        float(epsilon_bound(right + extra, wrong, right + 2 * more + 10, delta, chance)) for extra in (0, more)
    )
    assert 0 <= bound <= better < math.inf
    assert float(epsilon_bound(right, wrong + more, right + more + 10, delta, chance)) <= float(
        epsilon_bound(right, wrong, right + more + 10, delta, chance)
    )


def test_a_rule_counts_what_is_beyond_its_threshold_on_its_side():
    present, absent = np.array([3.0, 1.0, 2.5, -1.0]), np.array([0.0, -2.0, 2.6])
    assert (Rule("remove", 2.0).names(present), Rule("remove", 2.0).names(absent)) == (2, 1)
    assert (Rule("add", 0.5).names(present), Rule("add", 0.5).names(absent)) == (1, 2)
    many = np.repeat(absent, 100)
    assert Rule("add", 0.5, 1.0).bound(np.full(300, 3.0), many, 0.0, 1e-3) == epsilon_bound(200, 0, 300, 0.0, 1e-3)


def test_two_empirical_distributions_are_far_apart_at_most_as_often_as_stated():
    generator = np.random.default_rng(0)
    values = [
        distance_p_value(distribution_distance(generator.standard_normal(40), generator.standard_normal(200)), 40, 200)
        for _ in range(500)
    ]
    for level in (0.5, 0.2, 0.05):
        assert np.mean(np.array(values) < level) <= level
    shifted = distribution_distance(generator.standard_normal(400), 1 + generator.standard_normal(400))
    assert distance_p_value(shifted, 400, 400) < 1e-6
    assert distribution_distance(np.arange(5.0), np.arange(5.0)) == 0
    assert two_sided(0.0, 1.0) > 0


@pytest.mark.parametrize(
    "law",
    [
        RenewalLaw.min_sep(0.3, 4, warm=True),
        RenewalLaw.min_sep(0.3, 4, warm=False),
        RenewalLaw.min_sep(1.0, 5, warm=True),
        RenewalLaw.min_sep(0.2, 1, warm=True),
        RenewalLaw.min_sep(0.2, 60, warm=True),
        RenewalLaw.cyclic(0.4, 3),
        RenewalLaw.allocation(7),
    ],
    ids=str,
)
def test_rates_are_those_of_drawn_participations(law):
    iterations, count = 24, 40_000
    _, times = draw_times(law, iterations, count, KeyedWords(Key.from_seed(5)), 0)
    rates = participation_rates(law, iterations)
    expected = stats.binom(count, rates)
    counts = np.bincount(times, minlength=iterations)
    assert (np.abs(counts - expected.mean()) <= 5 * np.maximum(expected.std(), 1e-9)).all()
    if law.phases > 1:
        np.testing.assert_allclose(rates, 1 / (law.epoch or law.mean_gap if law.stride == 1 else 3 / 0.4), rtol=1e-12)
