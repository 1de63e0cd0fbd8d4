"""Composition against an enumeration of all randomised responses, and against dp_accounting."""

import itertools
import math

import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import minsep
from minsep.show.statements import compose

BUDGETS = st.builds(minsep.Budget, epsilon=st.floats(0.05, 4.0), delta=st.floats(1e-9, 1e-2))


def enumerated_delta(budgets, epsilon):
    """delta of the product of all extremal mechanisms, outcome by outcome."""
    total = 0.0
    outcomes = ("told", 1, -1)
    for combination in itertools.product(outcomes, repeat=len(budgets)):
        with_it, without_it = 1.0, 1.0
        for outcome, budget in zip(combination, budgets, strict=True):
            if outcome == "told":
                with_it, without_it = with_it * budget.delta, 0.0
                continue
            silent, more = 1 - budget.delta, math.exp(budget.epsilon) / (1 + math.exp(budget.epsilon))
            with_it *= silent * (more if outcome == 1 else 1 - more)
            without_it *= silent * (1 - more if outcome == 1 else more)
        total += max(with_it - math.exp(epsilon) * without_it, 0.0)
    return total


@settings(max_examples=60, deadline=None)
@given(st.lists(BUDGETS, min_size=1, max_size=5), st.floats(1.0, 100.0))
def test_it_is_the_least_epsilon_of_the_extremal_mechanisms(budgets, factor):
    delta = min(factor * sum(budget.delta for budget in budgets), 0.5)
    found = compose(budgets, delta)
    assert enumerated_delta(budgets, found.epsilon) <= delta + 1e-14
    assert found.epsilon <= found.sum_of_epsilons
    less = found.epsilon - 1e-5 * found.sum_of_epsilons
    assert less <= 0 or enumerated_delta(budgets, less) > delta * (1 - 1e-5) - 1e-14


@pytest.mark.parametrize("count", [1, 3, 40])
def test_it_agrees_with_dp_accounting(count):
    budgets = [minsep.Budget(0.1 * (1 + place % 3), 1e-6) for place in range(count)]
    together = None
    for budget in budgets:
        parameters = common.DifferentialPrivacyParameters(budget.epsilon, budget.delta)
        one = privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=1e-4)
        together = one if together is None else together.compose(one)
    theirs = together.get_epsilon_for_delta(1e-3)
    assert compose(budgets, 1e-3).epsilon == pytest.approx(theirs, abs=2e-4 * count)


def test_one_run_is_itself():
    assert compose([minsep.Budget(2.0, 1e-5)]).epsilon == pytest.approx(2.0, rel=1e-6)


def test_a_delta_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="delta is 1e-06, but the runs together need at least 1.99999e-05"):
        compose([minsep.Budget(1.0, 1e-5)] * 2, 1e-6)


def test_too_many_different_epsilons_are_refused():
    with pytest.raises(ValueError, match="round epsilons up"):
        compose([minsep.Budget(1.0 + place / 100, 1e-9) for place in range(21)])


def test_many_equal_runs_keep_all_of_their_probability():
    """By the central limit theorem the losses of a million small budgets are nearly normal."""
    runs, epsilon = 1_000_000, 1e-3
    found = compose([minsep.Budget(epsilon, 1e-15)] * runs, 0.05)
    mean, deviation = runs * epsilon * math.tanh(epsilon / 2), epsilon * math.sqrt(runs)
    gaussian = stats.norm.sf((found.epsilon - mean) / deviation) - math.exp(found.epsilon) * stats.norm.sf(
        (found.epsilon + mean) / deviation
    )
    assert gaussian == pytest.approx(0.05, rel=1e-4)
