"""Clustered laws against enumeration: which tuples they draw, what they count for, and the bound."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import minsep
from minsep.accounting.importance import ClusteredLaw, LeapingLaw, PlainLaw, TiltedLaw, best_clustered, leaping_law
from minsep.accounting.pairs import MinSepPair
from minsep.randomness import Key
from tests.accounting.importance.test_laws import tuple_weights, uneven
from tests.oracles.laws import assert_draws_have_the_density

FALSE_ALARM = 1e-7
# n, bands, min_sep, prob, warm, copies, sigma
CASES = [
    (5, 1, 1, 0.3, False, 2, 0.9),
    (5, 1, 3, 0.1, True, 2, 0.9),
    (6, 2, 2, 0.3, True, 2, 0.9),
    (6, 2, 3, 0.3, False, 2, 0.5),
    (7, 3, 3, 0.4, True, 2, 0.9),
    (7, 4, 4, 0.2, False, 2, 0.7),
    (6, 3, 3, 0.2, True, 3, 1.2),
    (6, 5, 5, 0.05, True, 3, 1.5),
    (4, 2, 2, 0.1, False, 4, 1.5),
]


def pair_of(n, bands, min_sep, prob, warm, sigma):
    return MinSepPair(uneven(n, bands), sigma, prob=prob, min_sep=min_sep, warm=warm)


@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "sigma"), CASES)
def test_tuples_thinned_by_their_shares_have_their_weights(n, bands, min_sep, prob, warm, copies, sigma):
    pair = pair_of(n, bands, min_sep, prob, warm, sigma)
    law = ClusteredLaw(pair, "remove", copies)
    vectors, tuples, logs = tuple_weights(pair, copies, 1.0)
    weights = {}
    for chosen, weight in zip(tuples, np.exp(logs - logsumexp(logs)), strict=True):
        total = tuple(vectors[list(chosen)].sum(axis=0))
        weights[total] = weights.get(total, 0.0) + weight
    random, observed, accepted, drawn = np.random.default_rng(1), {}, 0, 0
    for chunk in range(40):
        (samples, times, counts), shares = law.draw_tuples(Key.from_seed(1), chunk)
        assert np.exp(shares).max() <= 1 + 1e-12
        sums = np.zeros((shares.size, n))
        np.add.at(sums, (samples, times), counts)
        kept = random.random(shares.size) < np.exp(shares)
        for row in map(tuple, sums[kept]):
            observed[row] = observed.get(row, 0) + 1
        accepted += int(kept.sum())
        drawn += shares.size
    share = math.exp(logsumexp(logs) - law.log_constant)
    assert stats.binomtest(accepted, drawn, min(share, 1.0)).pvalue > FALSE_ALARM
    assert set(observed) <= set(weights)
    common = [total for total, weight in weights.items() if weight * accepted >= 10]
    counts = [observed.get(total, 0) for total in common]
    expected = [weights[total] * accepted for total in common]
    if accepted - sum(expected) > 1e-6 * accepted:
        counts.append(accepted - sum(counts))
        expected.append(accepted - sum(expected))
    assert stats.chisquare(counts, np.array(expected) * sum(counts) / sum(expected)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("bands", "min_sep", "prob", "copies"), [(8, 8, 0.05, 5), (8, 12, 0.03, 3), (12, 12, 0.005, 6)]
)
@pytest.mark.parametrize("optimal", [True, False])
def test_no_tuple_weighs_more_than_the_weight_it_is_drawn_by(bands, min_sep, prob, copies, optimal):
    """With many windows, one soon after another."""
    coefficients = np.random.default_rng(bands).random(bands)
    strategy = (
        minsep.BandedToeplitz.optimal(iterations=80, bands=bands)
        if optimal
        else minsep.BandedToeplitz.from_coefficients(coefficients.tolist(), iterations=80)
    )
    law = ClusteredLaw(MinSepPair(strategy, 2.5, prob=prob, min_sep=min_sep, warm=True), "remove", copies)
    shares = np.concatenate([law.draw_tuples(Key.from_seed(3), chunk)[1] for chunk in range(10)])
    assert shares.max() <= 1e-11
    assert np.isfinite(shares).mean() > 0.01


@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "sigma"), CASES[1:7])
def test_means_agree_with_plain_sampling_and_stay_below_the_bound(n, bands, min_sep, prob, warm, copies, sigma):
    pair = pair_of(n, bands, min_sep, prob, warm, sigma)
    epsilon, found = 0.8, []
    for law in (PlainLaw(pair, "remove"), ClusteredLaw(pair, "remove", copies)):
        values = np.concatenate([law.draw_values(Key.from_seed(2), chunk, epsilon) for chunk in range(100)])
        assert values.max() <= law.upward_bound(epsilon)
        found.append((values.mean(), values.std() / math.sqrt(values.size)))
    (one, one_error), (two, two_error) = found
    # Values are rounded up, by a factor of about e^(2 h k) above plain ones.
    slack = 1e-2 * one
    assert abs(one - two) <= stats.norm.isf(FALSE_ALARM / 2) * math.hypot(one_error, two_error) + slack


def test_many_copies_bound_well_where_two_do_not():
    strategy = minsep.BandedToeplitz.optimal(iterations=2000, bands=32)
    pair = MinSepPair(strategy, 1.1, prob=4e-5, min_sep=32, warm=True)
    law = best_clustered(pair, "remove", 2.0)
    assert law.copies > 5
    two = min(TiltedLaw(pair, "remove", 2, tilt).log_bound(2.0) for tilt in (1.0, 1.5, 2.0, 3.0))
    assert law.log_bound(2.0) < two - 5


def test_a_description_gives_the_law_again():
    pair = pair_of(7, 3, 3, 0.4, True, 0.9)
    law = ClusteredLaw(pair, "remove", 3)
    assert ClusteredLaw.read(law.describe(), pair, "remove") == law
    assert ClusteredLaw.read(law.describe(), pair, "add") is None
    assert ClusteredLaw.read({"kind": "clustered", "copies": 99}, pair, "remove") is None
    with pytest.raises(ValueError, match="copies is 1"):
        ClusteredLaw(pair, "remove", 1)


@pytest.mark.parametrize(("scale", "odds"), [(2.0, 0.3), (3.0, 1.0), (1.5, 4.0)])
@pytest.mark.parametrize("warm", [True, False])
def test_leaping_laws_draw_from_their_densities(scale, odds, warm):
    law = LeapingLaw(pair_of(7, 3, 4, 0.2, warm, 1.5), "remove", scale, odds)
    assert_draws_have_the_density(law, 4, FALSE_ALARM)


def test_leaping_laws_are_for_balls_in_bins_as_well():
    law = LeapingLaw(pair_of(7, 3, 9, 1.0, True, 1.5), "remove", 2.0, 0.5)
    assert_draws_have_the_density(law, 4, FALSE_ALARM)


def test_leaping_means_agree_with_plain_sampling():
    strategy, epsilon = minsep.BandedToeplitz.optimal(iterations=200, bands=8), 1.0
    pair = MinSepPair(strategy, 0.5, prob=0.01, min_sep=8, warm=True)
    found = []
    for law in (PlainLaw(pair, "remove"), LeapingLaw(pair, "remove", 2.0, 0.5)):
        draws = [law.draw(Key.from_seed(5), chunk) for chunk in range(20)]
        ratio, density = (np.concatenate(parts) for parts in zip(*draws, strict=True))
        values = np.exp(ratio - density) * np.maximum(-np.expm1(epsilon - ratio), 0.0)
        found.append((values.mean(), values.std() / math.sqrt(values.size)))
    (one, one_error), (two, two_error) = found
    assert one > 10 * one_error
    assert abs(one - two) <= stats.norm.isf(FALSE_ALARM / 2) * math.hypot(one_error, two_error)


def test_a_leaping_law_resolves_what_is_far_below_the_reach_of_plain_samples():
    strategy = minsep.BandedToeplitz.optimal(iterations=10_000, bands=16)
    law = leaping_law(MinSepPair(strategy, 0.75, prob=4e-5, min_sep=16, warm=True), "remove", 0.3)
    draws = [law.draw(Key.from_seed(5), chunk) for chunk in range(100)]
    ratio, density = (np.concatenate(parts) for parts in zip(*draws, strict=True))
    values = np.exp(ratio - density) * np.maximum(-np.expm1(0.3 - ratio), 0.0)
    assert values.mean() < 1e-7
    assert values.std() / math.sqrt(values.size) < 0.2 * values.mean()
    short = minsep.BandedToeplitz.optimal(iterations=100, bands=16)
    assert leaping_law(MinSepPair(short, 0.75, prob=4e-5, min_sep=16, warm=True), "remove", 0.3) is None
