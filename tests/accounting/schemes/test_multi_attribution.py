"""What a user's participation gives away, by enumeration of every coin, against what is accounted for."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

import minsep
from minsep.accounting.pairs import MinSepPair
from minsep.accounting.schemes import exact_curve
from tests.oracles.attribution import deltas, grid_of, neighbours, small_graphs, user_law
from tests.oracles.divergence import group_law, log_ratio
from tests.oracles.quadrature import delta as integrated

EPSILONS = np.array([0.0, 0.3, 1.0, 2.5])


@cache
def graphs():
    return small_graphs(4, 4)


def toeplitz(n, below=0.7):
    return np.eye(n) + below * np.eye(n, k=-1)


def largest_excess(block, n, min_sep, prob, sigma, matrix, points, burn_in=0):
    """Return the largest true minus accounted delta over all small graphs, their users, directions and epsilons."""
    grid, cell = grid_of(n, -5 * sigma, 4 * matrix.sum(axis=1).max() + 5 * sigma, points)
    accounted = {k: deltas(group_law(prob, min_sep, k, n), matrix, sigma, EPSILONS, grid, cell) for k in (1, 2, 3, 4)}
    excesses = []
    for adjacent, mine in graphs():
        law = user_law(adjacent, mine, prob, min_sep, block, n + burn_in)
        late = {}
        for x, weight in law.items():
            late[x[burn_in:]] = late.get(x[burn_in:], 0.0) + weight
        true = deltas(late, matrix, sigma, EPSILONS, grid, cell)
        excesses.append((true - accounted[len(mine)]).max())
    return max(excesses)


def test_all_small_graphs_are_there():
    """Up to order there are 1, 3, 10 and 38 ways for one user in 1 to 4 examples: counted by hand for the first two."""
    sizes = [adjacent.shape[0] for adjacent, _ in graphs()]
    assert [sizes.count(size) for size in (1, 2, 3, 4)] == [1, 3, 10, 38]
    assert all(adjacent[np.ix_(mine, mine)].all() for adjacent, mine in graphs())


@pytest.mark.parametrize(("min_sep", "prob", "sigma"), [(2, 0.3, 0.8), (3, 0.6, 1.5)])
def test_no_user_of_a_small_graph_loses_more_than_is_accounted(min_sep, prob, sigma):
    assert largest_excess("sampled", 3, min_sep, prob, sigma, toeplitz(3), 24) < 1e-9


@pytest.mark.parametrize("burn_in", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_burn_in_is_covered_by_a_cold_start(burn_in):
    assert largest_excess("sampled", 2, 2, 0.4, 1.0, toeplitz(2), 60, burn_in) < 1e-9


def test_columns_that_grow_are_covered_as_well():
    assert largest_excess("sampled", 2, 2, 0.4, 0.7, np.diag([0.2, 1.0]), 60, 1) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("prob", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("sigma", [0.5, 1.5])
@pytest.mark.parametrize("min_sep", [2, 3])
@pytest.mark.parametrize("matrix", [np.eye(3), toeplitz(3), toeplitz(3, 0.2), np.diag([0.1, 0.1, 1.0])])
def test_no_user_of_a_small_graph_loses_more_in_many_settings(prob, sigma, min_sep, matrix):
    assert largest_excess("sampled", 3, min_sep, prob, sigma, matrix, 40) < 1e-9


def test_the_oracle_sees_a_wrong_recursion():
    """With one example fewer than the user has, the accounted divergence is too small, and the comparison says so."""
    law, few = user_law(np.ones((2, 2), bool), [0, 1], 0.3, 2, "sampled", 2), group_law(0.3, 2, 1, 2)
    grid, cell = grid_of(2, -5.0, 9.0, 60)
    one, two = (deltas(each, toeplitz(2), 1.0, EPSILONS, grid, cell) for each in (law, few))
    assert (one - two).max() > 0.05


@pytest.mark.parametrize("group", [1, 2, 4])
def test_the_recursion_equals_enumeration(group):
    n, sigma = 6, 0.8
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.7, 0.9], iterations=n)
    y = np.random.default_rng(0).standard_normal((20, n)) * 2
    for min_sep, prob in ((3, 0.2), (4, 0.9)):
        pair = MinSepPair(strategy, sigma, prob=prob, min_sep=min_sep, group=group)
        expected = log_ratio(group_law(prob, min_sep, group, n), strategy.dense(), sigma, y)
        np.testing.assert_allclose(pair.log_ratios(y), expected, rtol=1e-10, atol=1e-10)
    pair = MinSepPair(strategy, sigma, prob=0.2, min_sep=2, group=group)
    exact = log_ratio(group_law(0.2, 2, group, n), strategy.dense(), sigma, y)
    assert pair.upper_bound
    assert (pair.log_ratios(y) >= exact - 1e-10).all()


def test_the_conjecture_about_blocking_by_participation_is_false():
    """Four examples, every two of which share a user: each of the six users has two examples.

    The others keep a user away in iteration 2, and so let it in with more certainty in iteration 3.
    """
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    users = [{k for k, pair in enumerate(pairs) if example in pair} for example in range(4)]
    adjacent = neighbours(users)
    assert adjacent.all()
    n, sigma, prob = 3, 1.5, 0.45
    grid, cell = grid_of(n, -7 * sigma, 2 + 7 * sigma, 60)
    accounted = deltas(group_law(prob, 2, 2, n), np.eye(n), sigma, EPSILONS, grid, cell)
    participated, sampled = (
        deltas(user_law(adjacent, [0, 1], prob, 2, block, n), np.eye(n), sigma, EPSILONS, grid, cell)
        for block in ("participated", "sampled")
    )
    assert (sampled < accounted).all()
    assert participated[0, 1] > 1.03 * accounted[0, 1]
    assert participated[0, 2] > 1.06 * accounted[0, 2]


def others_reveal(neighbours_of_each, prob, sigma, epsilon):
    """Return a lower bound of delta when the adversary knows the other examples' gradients.

    User u has two examples, with gradient (1, 0); each of K others shares a user with both, and has gradient (0, 1).
    n = 2, b = 2, C = I. If one of u's examples is sampled in iteration 1 then no other takes part in iteration 2, where
    else Binomial(K, p (1 - p)) of them do. The event: the sum of iteration 2 is low, and u's part of iteration 1 high.
    """
    counts = np.arange(neighbours_of_each + 1)
    low = 0.4 * neighbours_of_each * prob * (1 - prob)
    present = stats.binom.pmf(counts, neighbours_of_each, prob * (1 - prob))
    sees_none = float(present @ stats.norm.cdf((low - counts) / sigma)), float(stats.norm.cdf(low / sigma))
    chances = stats.binom.pmf([0, 1, 2], 2, prob)
    best = 0.0
    for threshold in np.linspace(0, 3, 61):
        with_user = without = 0.0
        for count, chance in enumerate(chances):
            with_user += chance * sees_none[count > 0] * stats.norm.sf((threshold - count) / sigma)
            without += chance * sees_none[count > 0] * stats.norm.sf(threshold / sigma)
        best = max(best, with_user - math.exp(epsilon) * without)
    return best


def test_what_others_contribute_can_reveal_when_a_user_was_sampled():
    """The paper's theorem leaves this out, so its delta can be exceeded; that of public coins cannot."""
    prob, sigma = 0.05, 1.0
    strategy = minsep.BandedToeplitz.identity(iterations=2)
    public = minsep.MultiAttributionMinSep(prob, 2, user_bound=2, coins="public")
    curve = exact_curve(minsep.Mechanism(strategy, public, sigma))
    for epsilon, times in ((1.0, 10), (2.0, 50)):
        true = others_reveal(300, prob, sigma, epsilon)
        assert true > times * integrated(group_law(prob, 2, 2, 2), np.eye(2), sigma, epsilon, "remove")
        assert true < float(curve.delta(epsilon, "remove"))
