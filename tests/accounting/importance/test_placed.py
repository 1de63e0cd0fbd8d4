"""The tilted law of balls-in-bins with dense strategies, against enumeration over all tuples of places."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import minsep
from minsep.accounting.importance import PlacedLaw, PlainLaw, add_bound, best_law, best_placed, countable, law_from
from minsep.accounting.importance.placed import MOST_COPIES, _sequences
from minsep.accounting.pairs import BallsInBinsPair, MinSepPair
from minsep.accounting.pairs.places import Places
from minsep.randomness import Key
from tests.oracles.divergence import log_ratio
from tests.oracles.laws import assert_draws_have_the_density
from tests.oracles.participation import participation_law
from tests.oracles.quadrature import delta as integrated

FALSE_ALARM = 1e-7

# Whole epochs, a run that ends within one, a run shorter than one, and an epoch of one iteration.
SIZES = [(4, 2), (7, 3), (3, 5), (3, 1), (6, 6)]
TILTS = [("remove", 1.0), ("remove", 1.6), ("add", -0.8)]


def strategies(n):
    return [
        minsep.BufferedToeplitz([0.9, 0.4], [0.3, 0.2], n),
        minsep.LambdaCGD(0.8, n),
        minsep.Dense(np.tril(np.random.default_rng(0).random((n, n))) + np.eye(n)),
    ]


def vectors(strategy, cycle):
    """Return C x for every place, those beyond the run included."""
    matrix, n = strategy.dense(), strategy.iterations
    return np.array([matrix @ (np.arange(n) % cycle == place) for place in range(cycle)])


def tuple_weights(pair, copies, tilt):
    """Return the weight of every set of places, from the definition; places beyond the run are one."""
    moved = vectors(pair.strategy, pair.cycle)
    inner = moved @ moved.T / pair.noise_multiplier**2
    weights = {}
    for chosen in itertools.product(range(pair.cycle), repeat=copies):
        own = (tilt**2 - tilt) / 2 * sum(inner[one, one] for one in chosen)
        shared = tilt**2 * sum(inner[one, other] for one, other in itertools.combinations(chosen, 2))
        key = tuple(sorted(min(place, pair.strategy.iterations) for place in chosen))
        weights[key] = weights.get(key, 0.0) + pair.cycle**-copies * math.exp(own + shared)
    return weights


def pairs(sigma=1.3):
    return [BallsInBinsPair(one, sigma, cycle=cycle) for n, cycle in SIZES for one in strategies(n)]


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.strategy.kind} {pair.cycle}")
def test_places_are_the_vectors_that_move_a_sample(pair):
    moved = vectors(pair.strategy, pair.cycle)[: pair.strategy.iterations]
    gram = moved @ moved.T / pair.noise_multiplier**2
    within = len(moved)
    np.testing.assert_allclose(pair.places.gram[:within, :within], gram, rtol=1e-12)
    assert (pair.places.gram[within:] == 0).all()
    assert np.exp(pair.places.log_chances).sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.strategy.kind} {pair.cycle}")
@pytest.mark.parametrize("tilt", [1.0, 2.3, -0.7])
def test_means_equal_the_sum_over_places(pair, tilt):
    y = np.random.default_rng(0).normal(size=(30, pair.strategy.iterations)) + 0.5
    moved = vectors(pair.strategy, pair.cycle)
    logs = (y @ moved.T - (moved**2).sum(axis=1) / 2) / pair.noise_multiplier**2
    expected = np.logaddexp.reduce(tilt * logs, axis=1) - math.log(pair.cycle)
    scores = pair.filter.scores(pair.rows_of(y))
    np.testing.assert_allclose(pair.log_means(scores, tilt), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.strategy.kind} {pair.cycle}")
@pytest.mark.parametrize(("direction", "tilt"), TILTS)
@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_weights_equal_those_of_all_tuples(pair, direction, tilt, copies):
    law = PlacedLaw(pair, direction, copies, tilt)
    weights = tuple_weights(pair, copies, tilt)
    total = sum(weights.values())
    assert law.log_constant == pytest.approx(math.log(total), rel=1e-12, abs=1e-12)
    size = pair.places.log_chances.size
    firsts = itertools.combinations_with_replacement(range(size), copies - 1)
    expected = [sum(weight for key, weight in weights.items() if key[:-1] == first) / total for first in firsts]
    np.testing.assert_allclose(law._counted[0], expected, rtol=1e-11)


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.strategy.kind} {pair.cycle}")
@pytest.mark.parametrize(("copies", "direction", "tilt"), [(1, "add", -0.8), (2, "remove", 1.6), (3, "remove", 1.0)])
def test_tuples_are_drawn_with_their_weights(pair, copies, direction, tilt):
    law = PlacedLaw(pair, direction, copies, tilt)
    weights = tuple_weights(pair, copies, tilt)
    n, observed, count = pair.strategy.iterations, {}, 0
    for chunk in range(10):
        samples, times, columns = law.draw_places(Key.from_seed(1), chunk)
        sums = np.zeros((law.samples_in_chunk, n))
        np.add.at(sums, (samples, times), columns)
        for row in map(tuple, sums.astype(int)):
            observed[row] = observed.get(row, 0) + 1
        count += law.samples_in_chunk
    expected = {}
    for key, weight in weights.items():
        x = tuple(sum(place < n and time % pair.cycle == place for place in key) for time in range(n))
        expected[x] = expected.get(x, 0.0) + count * weight / sum(weights.values())
    assert set(observed) <= set(expected)
    common = [x for x, number in expected.items() if number >= 10]
    counts, numbers = [observed.get(x, 0) for x in common], [expected[x] for x in common]
    if count - sum(numbers) > 1e-6 * count:
        counts.append(count - sum(counts))
        numbers.append(count - sum(numbers))
    if len(counts) > 1:
        assert stats.chisquare(counts, np.array(numbers) * sum(counts) / sum(numbers)).pvalue > FALSE_ALARM


def test_sequences_are_numbered_in_their_order():
    for size, length in ((1, 3), (4, 1), (5, 3)):
        table = _sequences(size, length + 1)
        assert table[0, length] == len(list(itertools.combinations_with_replacement(range(size), length)))
        assert table[size - 1, length] == 1


@pytest.mark.parametrize("pair", pairs(1.6)[::2], ids=lambda pair: f"{pair.strategy.kind} {pair.cycle}")
@pytest.mark.parametrize(("direction", "tilt"), TILTS)
@pytest.mark.parametrize("copies", [1, 2])
def test_draws_have_the_density(pair, direction, tilt, copies):
    assert_draws_have_the_density(PlacedLaw(pair, direction, copies, tilt), 4, FALSE_ALARM)


@pytest.mark.parametrize("strategy", strategies(2)[:2], ids=lambda strategy: strategy.kind)
@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize(("direction", "tilt"), TILTS)
def test_the_mean_is_delta_and_values_are_below_the_bound(strategy, epoch, direction, tilt):
    """delta by quadrature over both iterations, and the values of the law, which are rounded up."""
    sigma, epsilon = 1.4, 0.4
    truth = integrated(participation_law(minsep.BallsInBins(epoch), 2), strategy.dense(), sigma, epsilon, direction)
    pair = BallsInBinsPair(strategy, sigma, cycle=epoch)
    for copies in (1, 2):
        law = PlacedLaw(pair, direction, copies, tilt)
        values = np.concatenate([law.draw_values(Key.from_seed(2), chunk, epsilon) for chunk in range(60)])
        assert values.max() <= law.upward_bound(epsilon)
        error = stats.norm.isf(FALSE_ALARM / 2) * values.std() / math.sqrt(values.size)
        assert abs(values.mean() - truth) <= error + 2e-3 * truth


def test_the_bound_is_reached_with_scale_one():
    """X as a function of R alone has its largest value at R = a e^eps/(a - 1), and that is W."""
    pair, epsilon = BallsInBinsPair(strategies(20)[0], 1.5, cycle=5), 1.0
    law = PlacedLaw(pair, "remove", 3, 1.0)
    log_ratio = np.linspace(epsilon, epsilon + 5, 100_001)[1:]
    values = log_ratio - law.log_density(None, log_ratio) + np.log(-np.expm1(epsilon - log_ratio))
    assert values.max() == pytest.approx(law.log_bound(epsilon), abs=1e-8)


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.strategy.kind} {pair.cycle}")
def test_tangents_lie_below_the_log_ratio(pair):
    n = pair.strategy.iterations
    y = 3 * np.random.default_rng(0).normal(size=(2000, n)) * pair.noise_multiplier
    law = participation_law(minsep.BallsInBins(pair.cycle), n)
    exact = log_ratio(law, pair.strategy.dense(), pair.noise_multiplier, y)
    for distance in (0.0, 1.0, 4.0):
        tangent = pair.tangent(distance)
        plane = tangent.constant + y @ tangent.gradient
        assert (exact >= plane - 1e-10).all()
        assert tangent.deviation == pytest.approx(pair.noise_multiplier * np.linalg.norm(tangent.gradient), rel=1e-9)
    # At distance 0 it touches at 0.
    assert pair.tangent(0.0).constant == pytest.approx(
        log_ratio(law, pair.strategy.dense(), pair.noise_multiplier, np.zeros((1, n)))[0], abs=1e-12
    )


def test_tangents_bound_add():
    for strategy in strategies(2)[:2]:
        for epsilon in (0.2, 1.0):
            truth = integrated(participation_law(minsep.BallsInBins(2), 2), strategy.dense(), 1.1, epsilon, "add")
            pair = BallsInBinsPair(strategy, 1.1, cycle=2)
            bounds = [add_bound(pair.tangent(distance), epsilon) for distance in (0.0, 0.5, 1.0, 2.0, 3.0)]
            assert truth * (1 - 2e-3) <= min(bounds) < 5 * truth + 0.01


def test_the_oracles_see_a_wrong_weight(monkeypatch):
    """Inner products with half their weight, and a place too many at the end of the run."""
    pair = BallsInBinsPair(strategies(7)[0], 1.3, cycle=3)
    total = sum(tuple_weights(pair, 2, 1.0).values())
    gram = Places.gram.fget
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Places, "gram", property(lambda places: gram(places) / 2))
        assert abs(PlacedLaw(pair, "remove", 2, 1.0).log_constant - math.log(total)) > 1e-2
        with pytest.raises(AssertionError):
            assert_draws_have_the_density(PlacedLaw(pair, "remove", 2, 1.0), 4, FALSE_ALARM)


def test_laws_are_recorded_and_rebuilt():
    strategy = minsep.LambdaCGD(0.95, 2000)
    pair = BallsInBinsPair(strategy, 3.05, cycle=117)
    law = best_law(pair, "remove", 4.0, enough=1e-4)
    assert isinstance(law, PlacedLaw)
    assert law_from(law.describe(), pair, "remove") == law
    assert math.exp(law.log_bound(4.0)) < 100 * 1e-5
    for description, direction in [
        (law.describe(), "add"),
        ({"kind": "placed", "copies": 0, "tilt": 1.0}, "remove"),
        ({"kind": "placed", "copies": MOST_COPIES, "tilt": 1.0}, "remove"),
        ({"kind": "placed", "copies": 2, "tilt": 0.9}, "remove"),
        ({"kind": "placed", "copies": 2, "tilt": math.nan}, "remove"),
        ({"kind": "placed", "copies": 2, "tilt": -math.inf}, "add"),
        ({"kind": "placed", "copies": 2, "tilt": 1.0, "whole": True}, "remove"),
        ({"kind": "tilted", "copies": 2, "tilt": 1.0}, "remove"),
    ]:
        with pytest.raises(ValueError, match="has no such law"):
            law_from(description, pair, direction)
    banded = MinSepPair(minsep.BandedToeplitz.identity(iterations=9), 1.0, prob=0.1, min_sep=2)
    with pytest.raises(ValueError, match="has no such law"):
        law_from({"kind": "placed", "copies": 2, "tilt": 1.0}, banded, "remove")
    with pytest.raises(ValueError, match="copies is 8, but tuples of so many places are not counted"):
        PlacedLaw(pair, "remove", 8, 1.0)
    assert best_placed(pair, "remove", 4.0, most=10_000).copies == 2
    assert not countable(pair, 5)


def test_plain_samples_are_taken_where_nothing_is_better():
    pair = BallsInBinsPair(strategies(6)[0], 0.2, cycle=3)
    assert best_law(pair, "remove", 0.01) == PlainLaw(pair, "remove")


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_estimates_by_tilted_and_plain_samples_agree(epsilon):
    strategy = minsep.BufferedToeplitz([0.95], [0.3], 60)
    mechanism = minsep.Mechanism(strategy, minsep.BallsInBins(12), 2.4 if epsilon == 1.0 else 1.1)
    tilted = minsep.estimate_delta(mechanism, epsilon, samples=20_000)
    plain = minsep.estimate_delta(mechanism, epsilon, samples=200_000, method="plain")
    assert tilted.method == "tilted"
    for direction in ("remove", "add"):
        one, other = (getattr(found, direction) for found in (tilted, plain))
        errors = [getattr(found, f"{direction}_stderr") for found in (tilted, plain)]
        # False alarm: 2e-9.
        assert abs(one - other) < 6 * math.hypot(*errors)
        assert errors[0] < 0.1 * one


def test_a_dense_strategy_is_certified_at_a_small_delta():
    strategy = minsep.BufferedToeplitz([0.97, 0.6], [0.2, 0.25], 300)
    best = minsep.calibrate(strategy, minsep.BallsInBins(50), epsilon=4.0, delta=1e-6, seed=0)
    assert not best.fallback
    assert minsep.verify(best.certificate).holds
    assert sum(proof.samples for proof in best.certificate.proofs) < 100_000
    estimate = minsep.estimate_delta(best.mechanism, 4.0, samples=20_000)
    assert 0.5e-6 < estimate.value < 1e-6 + 6 * estimate.stderr
    less = best.mechanism.with_noise_multiplier(0.95 * best.mechanism.noise_multiplier)
    assert not minsep.certify(less, 4.0, 1e-6, seed=0).passed
