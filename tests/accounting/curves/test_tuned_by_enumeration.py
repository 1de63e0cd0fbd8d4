"""The price of tuning against a sum over all bags of trials and all orders of scores, ties included."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minsep.accounting.curves import (
    BinomialTrials,
    Curve,
    NegativeBinomial,
    PointCurve,
    PoissonTrials,
    mean_curve,
    tuned_points,
)
from tests.oracles.tuning import best_of, chances_of, curve_of, hockey_stick, weak_orders

MOST = 14  # trials that are summed over
EPSILONS = (0.0, 0.3, 1.0, 2.3, 5.0)
LAWS = [
    NegativeBinomial(1.5, 1.0),
    NegativeBinomial(1.2, 0.0),
    NegativeBinomial(1.8, 3.0),
    PoissonTrials(2.0),
    BinomialTrials(2.0, 5),
    BinomialTrials(3.0, 3),
]
each_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.kind} {law.mean:g}")
some_laws = pytest.mark.parametrize("law", [LAWS[0], LAWS[3], LAWS[5]], ids=lambda law: law.kind)


@st.composite
def laws_of_a_trial(draw, size):
    """Draw the probabilities of a few outcomes, of which some may be impossible."""
    parts = draw(st.lists(st.sampled_from([0.0, 1e-4, 0.02, 0.1, 0.3, 1.0]), min_size=size, max_size=size))
    parts[draw(st.integers(0, size - 1))] += draw(st.floats(0.1, 1.0))
    return np.array(parts) / math.fsum(parts)


def told(law, p, q):
    """Return what whole tunings have at least, for every order of scores, direction and epsilon."""
    chances, orders = chances_of(law, MOST), weak_orders(p.size)
    left = np.exp(EPSILONS) * (1 - chances.sum())  # more trials than are summed over
    both = zip(best_of(p, orders, chances), best_of(q, orders, chances), strict=True)
    return np.array(
        [
            [[hockey_stick(*pair, epsilon) for epsilon in EPSILONS] for pair in ((first, second), (second, first))]
            for first, second in both
        ]
    ) - np.maximum(left, 0.0)


def table(curve):
    """Return what a curve says, in the same form."""
    return np.array([curve.delta(EPSILONS, direction) for direction in ("remove", "add")])


def assert_no_order_tells_more(law, p, q, bound):
    assert (told(law, p, q) <= table(bound) + 1e-12).all()


@each_law
def test_nearly_all_trials_are_summed_over(law):
    chances = chances_of(law, MOST)
    assert 1 - 2e-5 < chances.sum() < 1 + 1e-12
    known = [law.none, *(law.at_most(count) for count in range(1, chances.size))]
    assert np.cumsum(chances) == pytest.approx(known, abs=1e-9)


@each_law
def test_the_density_of_the_best_is_what_lemma_1_says(law):
    masses, chances = np.array([0.4, 0.05, 0.25, 0.3]), chances_of(law, MOST)
    orders = np.array(weak_orders(4))
    for ranks, found in zip(orders, best_of(masses, orders, chances), strict=True):
        for place, rank in enumerate(ranks):
            better, alike = float(masses[ranks > rank].sum()), float(masses[ranks == rank].sum())
            known = (law.miss(better) - law.miss(better + alike)) * masses[place] / alike
            assert found[place] == pytest.approx(known, abs=1 - chances.sum() + 1e-9)
        assert found[-1] == pytest.approx(law.none)


@each_law
@settings(max_examples=4, deadline=None)
@given(laws_of_a_trial(3), laws_of_a_trial(3))
def test_no_order_with_ties_tells_more_than_the_bound(law, p, q):
    assert_no_order_tells_more(law, p, q, tuned_points(curve_of(p, q), law))


@some_laws
@settings(max_examples=4, deadline=None)
@given(laws_of_a_trial(2), laws_of_a_trial(2), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_no_random_score_tells_more_than_the_bound(law, p, q, first, second):
    """Each outcome has one of two scores at random, and the score is released as well."""
    shares = np.array([first, 1 - first, second, 1 - second])
    bound = tuned_points(curve_of(p, q), law)
    assert_no_order_tells_more(law, np.repeat(p, 2) * shares, np.repeat(q, 2) * shares, bound)


@some_laws
@settings(max_examples=4, deadline=None)
@given(*[laws_of_a_trial(2)] * 4, st.sampled_from([0.05, 1.0, 7.0]))
def test_no_choice_of_configurations_tells_more_than_the_bound(law, p, q, other_p, other_q, weight):
    """Two configurations with mechanisms of their own, of which one is drawn more often."""
    bound = mean_curve([(Curve(curve_of(p, q)), 1.0), (Curve(curve_of(other_p, other_q)), weight)]).tuned(law).exact
    both_p, both_q = (
        np.concatenate([one, weight * other]) / (1 + weight) for one, other in ((p, other_p), (q, other_q))
    )
    assert_no_order_tells_more(law, both_p, both_q, bound)


@some_laws
@settings(max_examples=4, deadline=None)
@given(laws_of_a_trial(3), laws_of_a_trial(3))
def test_no_order_tells_more_than_the_bound_from_a_few_points(law, p, q):
    points = [tuple((at, hockey_stick(a, b, at)) for at in (0.2, 1.5)) for a, b in ((p, q), (q, p))]
    assert_no_order_tells_more(law, p, q, tuned_points(PointCurve(*points), law))


@each_law
def test_some_order_tells_nearly_as_much_as_the_bound(law):
    """So an error of two percent in the bound would show: a rare outcome can have the rank that tells most."""
    p, q = np.array([0.2, 0.001, 0.799]), np.array([0.6, 0.0001, 0.3999])
    place = EPSILONS.index(2.3)
    for direction, first, second in ((0, p, q), (1, q, p)):
        pair = curve_of(first, second)
        highest = told(law, first, second).max(axis=0)[direction, place]
        one, best = (table(curve)[direction, place] for curve in (pair, tuned_points(pair, law)))
        assert one < 0.1 * highest
        assert 0.98 * best < highest <= best
