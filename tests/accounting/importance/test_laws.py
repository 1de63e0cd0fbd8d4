"""Tables, constants, draws and bounds of the tilted laws against enumeration over all tuples."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp

import minsep
from minsep.accounting.importance import (
    AdaptedLaw,
    PlainLaw,
    TiltedLaw,
    best_law,
    shifted_laws,
    tuple_tables,
    upward_values,
)
from minsep.accounting.pairs import MinSepPair
from minsep.randomness import Key
from tests.oracles.divergence import group_law
from tests.oracles.laws import assert_draws_have_the_density
from tests.oracles.participation import participation_law

FALSE_ALARM = 1e-7


def uneven(n, bands):
    return minsep.BandedToeplitz.from_coefficients([1.0, 0.7, 0.9, 0.2, 0.5][:bands], iterations=n)


def law_of(pair):
    n = pair.strategy.iterations
    if pair.group > 1:
        return group_law(pair.prob, pair.min_sep, pair.group, n)
    rate = 1 / (pair.min_sep - 1 + 1 / pair.prob)
    scheme = minsep.MinSep(rate=rate, min_sep=pair.min_sep, start="warm" if pair.warm else "cold")
    return participation_law(scheme, n)


def tuple_weights(pair, copies, t):
    """Return all tuples of participation vectors and their log weights, from the definition."""
    law, matrix, s2 = law_of(pair), pair.strategy.dense(), pair.noise_multiplier**2
    vectors = np.array(list(law))
    moved = vectors @ matrix.T
    inner = moved @ moved.T
    log_probs = np.log(list(law.values()))
    tuples, logs = [], []
    for chosen in itertools.product(range(len(law)), repeat=copies):
        log = sum(log_probs[c] + (t * t - t) * inner[c, c] / (2 * s2) for c in chosen)
        log += sum(t * t * inner[c, d] / s2 for c, d in itertools.combinations(chosen, 2))
        tuples.append(chosen)
        logs.append(log)
    return vectors, tuples, np.array(logs)


CASES = [
    (n, bands, min_sep, prob, warm, copies, 1)
    for n, bands, min_sep, prob, warm, copies in [
        (5, 1, 1, 0.3, False, 2),
        (5, 1, 1, 0.3, True, 3),
        (6, 2, 2, 0.3, True, 2),
        (6, 2, 3, 0.3, False, 2),
        (7, 3, 3, 0.4, True, 2),
        (7, 3, 4, 0.2, False, 2),
        (6, 3, 4, 0.3, True, 3),
        (5, 2, 3, 0.5, True, 4),
        (8, 5, 5, 0.3, True, 2),
        (8, 4, 5, 1.0, True, 2),
        (6, 2, 9, 0.3, True, 2),
        (6, 2, 3, 1.0, False, 2),
    ]
] + [
    (4, 1, 1, 0.2, False, 2, 2),
    (5, 2, 2, 0.2, False, 2, 2),
    (5, 2, 3, 0.3, False, 2, 3),
    (4, 2, 2, 0.3, False, 3, 2),
]


def pair_of(n, bands, min_sep, prob, warm, group, sigma=0.9):
    return MinSepPair(uneven(n, bands), sigma, prob=prob, min_sep=min_sep, warm=warm, group=group)


@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "group"), CASES)
@pytest.mark.parametrize("scale", [1.0, 1.4, -0.7])
def test_constant_equals_the_sum_over_all_tuples(n, bands, min_sep, prob, warm, copies, group, scale):
    pair = pair_of(n, bands, min_sep, prob, warm, group)
    bounded = TiltedLaw(pair, "remove" if scale > 0 else "add", copies, scale)
    _, _, logs = tuple_weights(pair, copies, scale)
    assert bounded.log_constant == pytest.approx(logsumexp(logs), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "group"), CASES)
@pytest.mark.parametrize("scale", [1.3, -0.8])
def test_tuples_are_drawn_with_their_weights(n, bands, min_sep, prob, warm, copies, group, scale):
    pair = pair_of(n, bands, min_sep, prob, warm, group)
    bounded = TiltedLaw(pair, "remove" if scale > 0 else "add", copies, scale)
    vectors, tuples, logs = tuple_weights(pair, copies, scale)
    law = {}
    for chosen, weight in zip(tuples, np.exp(logs - logsumexp(logs)), strict=True):
        total = tuple(vectors[list(chosen)].sum(axis=0))
        law[total] = law.get(total, 0.0) + weight
    count, observed = 0, {}
    for chunk in range(40):
        samples, times, weights = bounded.law.draw(Key.from_seed(1), chunk)
        sums = np.zeros((bounded.samples_in_chunk, n))
        np.add.at(sums, (samples, times), weights)
        for row in map(tuple, sums):
            observed[row] = observed.get(row, 0) + 1
        count += bounded.samples_in_chunk
    assert set(observed) <= {total for total, weight in law.items() if weight > 0}
    common = [total for total, weight in law.items() if weight * count >= 10]
    counts = [observed.get(total, 0) for total in common]
    expected = [law[total] * count for total in common]
    if count - sum(expected) > 1e-6 * count:
        counts.append(count - sum(counts))
        expected.append(count - sum(expected))
    if len(counts) > 1:
        assert stats.chisquare(counts, np.array(expected) * sum(counts) / sum(expected)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "group"), CASES)
@pytest.mark.parametrize(
    ("scale", "epsilon"),
    [
        (1.3, 1.5),
        (-0.6, 0.1),
        pytest.param(1.0, 0.5, marks=pytest.mark.slow),
        pytest.param(-1.5, 0.5, marks=pytest.mark.slow),
    ],
)
def test_the_bound_holds_and_is_nearly_reached(n, bands, min_sep, prob, warm, copies, group, scale, epsilon):
    """Maximise X over y by a search from many starts: never above W; the mean over draws is delta."""
    if copies * scale == 1:
        return
    pair = pair_of(n, bands, min_sep, prob, warm, group)
    direction = "remove" if scale > 0 else "add"
    bounded = TiltedLaw(pair, direction, copies, scale)
    bound = bounded.log_bound(epsilon)

    def log_x(y):
        scores = pair.filter.scores(pair.rows_of(y[None]))
        ratio = pair.log_means(scores, 1.0, 1.0)[0]
        density = copies * pair.log_means(scores, scale, scale)[0] - bounded.log_constant
        gap = ratio - epsilon if direction == "remove" else -ratio - epsilon
        if gap <= 0:
            return -1e3
        return (ratio if direction == "remove" else 0.0) + math.log(-math.expm1(-gap)) - density

    generator = np.random.default_rng(0)
    for _ in range(3):
        start = scale * uneven(n, bands).dense().sum(axis=1) * generator.uniform(0.2, 1.5)
        found = optimize.minimize(lambda y: -log_x(y), start, method="Nelder-Mead", options={"maxiter": 400})
        assert -found.fun <= bound + 1e-9


@pytest.mark.parametrize("draws", [100_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_values_as_the_test_takes_them_never_exceed_the_bound(direction, draws):
    """The upward values of the laws that certificates use, all cases together."""
    drawn = 0
    for case in itertools.cycle(CASES):
        n, bands, min_sep, prob, warm, copies, group = case
        pair = pair_of(n, bands, min_sep, prob, warm, group)
        for epsilon in (0.2, 1.0):
            bounded = TiltedLaw(pair, direction, copies, 1.2 if direction == "remove" else -0.7)
            bound = bounded.upward_bound(epsilon)
            for chunk in range(max(draws // (3 * len(CASES) * bounded.samples_in_chunk), 1)):
                ratio, density = bounded.draw(Key.from_seed(drawn), chunk)
                values = upward_values(direction, copies, ratio, density, epsilon, 1e-6)
                assert values.max() <= bound
                drawn += values.size
        if drawn >= draws:
            return


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "group"), CASES[2:9] + CASES[-3:])
def test_means_agree_with_plain_sampling_and_stay_below_the_bound(
    n, bands, min_sep, prob, warm, copies, group, direction
):
    # More noise for groups: the tilt is made for rare events, and heavy-tailed where they are common.
    pair = pair_of(n, bands, min_sep, prob, warm, group, sigma=0.9 * group**2)
    epsilon = 0.8 / group if direction == "remove" else 0.3 / group
    means = []
    laws = [PlainLaw(pair, direction)]
    laws += [TiltedLaw(pair, direction, copies, 1.2 if direction == "remove" else -0.7)]
    for bounded in laws:
        values = []
        bound = math.exp(bounded.log_bound(epsilon))
        for chunk in range(100):
            ratio, density = bounded.draw(Key.from_seed(2), chunk)
            if direction == "remove":
                x = np.exp(ratio - density) * np.maximum(-np.expm1(epsilon - ratio), 0)
            else:
                x = np.exp(-density) * np.maximum(-np.expm1(epsilon + ratio), 0)
            assert x.max() <= bound * (1 + 1e-9)
            values.append(x)
        values = np.concatenate(values)
        means.append((values.mean(), values.std() / math.sqrt(values.size)))
    (one, one_error), (two, two_error) = means
    assert abs(one - two) <= stats.norm.isf(FALSE_ALARM / 2) * math.hypot(one_error, two_error)


def test_published_bounds():
    """The production setting of the design: W at three noise multipliers, two copies."""
    strategy = minsep.BandedToeplitz.optimal(iterations=7200, bands=256)
    scheme = minsep.MinSep(rate=1793 / 14_745_600, min_sep=256)
    for sigma, scale, bound in [(0.47, 1.10, 6.49e-6), (0.45, 1.10, 1.067e-5), (0.44, 1.05, 1.38e-5)]:
        pair = MinSepPair(strategy, sigma, prob=scheme.sampling_prob, min_sep=256, warm=True)
        assert math.exp(TiltedLaw(pair, "remove", 2, scale).log_bound(10.0)) == pytest.approx(bound, rel=2e-3)


def test_more_copies_bound_better():
    """n = 1500, rate 1/300, 8 bands, epsilon 1, sigma 1.35: each further copy is worth a factor of three to four."""
    strategy = minsep.BandedToeplitz.optimal(iterations=1500, bands=8)
    scheme = minsep.MinSep(rate=1 / 300, min_sep=8)
    pair = MinSepPair(strategy, 1.35, prob=scheme.sampling_prob, min_sep=8, warm=True)
    best = best_law(pair, "remove", 1.0)
    assert best.copies >= 5
    assert math.exp(best.log_bound(1.0)) < 0.0028 * 1.1


@pytest.mark.parametrize(
    ("pair", "direction", "scale", "message"),
    [
        (pair_of(6, 3, 3, 0.3, True, 1), "remove", 0.9, "tilt is 0.9"),
        (pair_of(6, 3, 3, 0.3, True, 1), "add", 0.5, "tilt is 0.5"),
        (pair_of(6, 3, 2, 0.3, True, 1), "remove", 1.5, "bands is 3, but a tilted law needs at most min_sep = 2"),
    ],
)
def test_invalid_tilts_are_refused(pair, direction, scale, message):
    with pytest.raises(ValueError, match=message):
        TiltedLaw(pair, direction, 2, scale)
    with pytest.raises(ValueError, match="tilt is"):
        TiltedLaw(pair_of(6, 2, 3, 0.3, True, 1), direction, 2, 0.5)


SHIFTED = [case for case in CASES if case[5] == 2]


@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "group"), SHIFTED)
def test_shifted_means_agree_with_plain_sampling_and_stay_below_the_bound(n, bands, min_sep, prob, warm, copies, group):
    epsilon = 0.1
    pair = pair_of(n, bands, min_sep, prob, warm, group, sigma=1.5 * group)
    laws = [PlainLaw(pair, "add"), *shifted_laws(pair, epsilon)]
    assert len(laws) > 5
    means = []
    for bounded in (laws[0], min(laws[1:], key=lambda one: one.log_bound(epsilon))):
        bound = bounded.upward_bound(epsilon)
        draws = [bounded.draw(Key.from_seed(3), chunk) for chunk in range(100)]
        values = np.concatenate([upward_values("add", bounded.power, *draw, epsilon, 1e-6) for draw in draws])
        assert values.max() <= bound
        means.append((values.mean(), values.std() / math.sqrt(values.size)))
    (one, one_error), (two, two_error) = means
    assert abs(one - two) <= stats.norm.isf(FALSE_ALARM / 2) * math.hypot(one_error, two_error)


@pytest.mark.parametrize(("n", "bands", "min_sep", "prob", "warm", "copies", "group"), SHIFTED)
def test_no_point_exceeds_the_bound_of_a_shift(n, bands, min_sep, prob, warm, copies, group):
    pair = pair_of(n, bands, min_sep, prob, warm, group)
    for bounded in list(shifted_laws(pair, 0.3))[1:8:3]:
        tangent = bounded.tangent

        def log_x(y, bounded=bounded, tangent=tangent):
            gap = -pair.log_ratios(y[None])[0] - 0.3
            density = -bounded.strength * float(tangent.gradient @ y) - bounded.log_constant
            return math.log(-math.expm1(-gap)) - density if gap > 0 else -1e3

        start = -tangent.distance * pair.noise_multiplier**2 * tangent.gradient / tangent.deviation
        found = optimize.minimize(lambda y: -log_x(y), start, method="Nelder-Mead", options={"maxiter": 300})
        assert -found.fun <= bounded.log_bound(0.3) + 1e-9


ADAPTED = [
    (1.0, 1.0, 0.0, 1.0),
    (1.4, 2.0, 0.0, 1.0),
    (0.0, 1.0, 3.0, 1.0),
    (1.3, 1.5, 2.0, 1.0),
    (0.7, 2.0, 1.5, 1.1),
    (0.0, 1.0, 1.0, 0.9),
]


@pytest.mark.parametrize(
    "case", [(6, 1, 1, 0.3, False, 1), (6, 1, 3, 0.3, True, 1), (7, 3, 4, 0.2, False, 1), (5, 2, 3, 0.3, False, 3)]
)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("scale", "weight", "shift", "spread"), ADAPTED)
def test_adapted_laws_draw_from_their_densities(case, direction, scale, weight, shift, spread):
    """With each parameter alone and together, in both directions."""
    pair = pair_of(*case, sigma=1.5)
    if case[1] > 1 and spread != 1:
        with pytest.raises(ValueError, match="spread is"):
            AdaptedLaw(pair, direction, scale, weight, shift, spread)
        return
    sign = 1 if direction == "remove" else -1
    law = AdaptedLaw(pair, direction, sign * scale, weight, sign * shift, spread)
    assert_draws_have_the_density(law, 4, FALSE_ALARM)


@pytest.mark.parametrize(("prob", "warm", "group"), [(0.3, True, 1), (0.3, False, 1), (1.0, True, 1), (0.2, False, 3)])
def test_expected_participation_equals_the_enumeration(prob, warm, group):
    pair = pair_of(7, 2, 3, prob, warm, group)
    law = law_of(pair)
    expected = np.array(list(law.values())) @ np.array(list(law))
    np.testing.assert_allclose(pair.mean_participation, expected, rtol=1e-12)
    moved = pair.strategy.dense() @ expected
    drift = pair.drift
    np.testing.assert_allclose(drift.scores, pair.strategy.dense().T @ moved / pair.noise_multiplier**2, rtol=1e-12)
    assert drift.squared == pytest.approx(moved @ moved / pair.noise_multiplier**2)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("tilt", "sigma"), [(1.0, 0.9), (1.7, 0.2), (-0.7, 3.0), (1.0, 0.04)])
def test_scaled_tables_equal_those_in_logarithms(case, tilt, sigma):
    n, bands, min_sep, prob, warm, copies, group = case
    law = TiltedLaw(
        pair_of(n, bands, min_sep, prob, warm, group, sigma), "remove" if tilt > 0 else "add", copies, tilt
    ).law
    states = law._terms.moves.blocked.size
    logs, scaled, log_scales = np.zeros((n + 1, states)), np.zeros((n + 1, states)), np.zeros(n + 1)
    tuple_tables.fill_table(logs, law._terms)
    finished = tuple_tables.fill_scaled_table(scaled, log_scales, law._terms)
    assert finished or sigma < 0.5
    assert not finished or sigma > 0.1
    if finished:
        np.testing.assert_allclose(np.log(scaled[:n]) + log_scales[:n, None], logs[:n], rtol=1e-13, atol=1e-13)
