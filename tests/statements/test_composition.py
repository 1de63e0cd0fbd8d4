"""Statements of runs of which one point each is known, against an enumeration of all randomised responses.

Any (epsilon, delta)-DP mechanism is a function of one that tells all with probability delta, and otherwise answers
truthfully with odds e^epsilon (Kairouz, Oh and Viswanath 2015). No theorem that knows only the numbers can say less.
"""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minsep
from minsep.accounting.curves import Curve, PointCurve, compose_curves

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


def composed(budgets):
    """The curve of runs of which one point each is proven, in both directions."""
    points = [((budget.epsilon, budget.delta),) for budget in budgets]
    return Curve(compose_curves([(PointCurve(each, each), 1) for each in points]))


@settings(max_examples=25, deadline=None)
@given(st.lists(BUDGETS, min_size=1, max_size=4), st.floats(1.5, 100.0))
def test_it_is_the_least_epsilon_of_the_extremal_mechanisms(budgets, factor):
    delta = min(factor * sum(budget.delta for budget in budgets), 0.5)
    found = composed(budgets).epsilon(delta)
    assert enumerated_delta(budgets, found) <= delta * (1 + 1e-9) + 1e-14
    less = found - 1e-3
    assert less <= 0 or enumerated_delta(budgets, less) > delta * (1 - 1e-6) - 1e-14


@pytest.mark.parametrize("runs", [2, 10, 40])
def test_many_runs_lose_little_on_the_grid(runs):
    """The losses of equal runs have a binomial law, whose delta is known in closed form."""
    epsilon, delta = 0.1234567, 1e-7
    truthful = [math.comb(runs, count) for count in range(runs + 1)]

    def exact(at):
        losses = [(2 * count - runs) * epsilon for count in range(runs + 1)]
        odds = math.exp(epsilon) / (1 + math.exp(epsilon))
        weights = [ways * odds**count * (1 - odds) ** (runs - count) for count, ways in enumerate(truthful)]
        beyond = sum(w * -math.expm1(at - loss) for w, loss in zip(weights, losses, strict=True) if loss > at)
        return 1 - (1 - delta) ** runs * (1 - beyond)

    found = composed([minsep.Budget(epsilon, delta)] * runs).epsilon(1e-4)
    assert exact(found) <= 1e-4 < exact(found - 5e-5 * runs)
