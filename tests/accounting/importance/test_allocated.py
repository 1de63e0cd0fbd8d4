"""The tilted law of random allocation against enumeration over all tuples, and the bound on `add` by moments."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

import minsep
from minsep.accounting.importance import AllocatedLaw, PlainLaw, best_law, law_from
from minsep.accounting.importance.allocated import MOST_COPIES, splits_of
from minsep.accounting.pairs import AllocationPair, MinSepPair
from minsep.accounting.pairs.negative_moments import _log_moment
from minsep.randomness import Key
from tests.oracles.laws import assert_draws_have_the_density
from tests.oracles.participation import participation_law

FALSE_ALARM = 1e-7

# Whole epochs, a run that ends within one, a run shorter than one, and an epoch of one iteration.
SIZES = [(4, 2), (6, 3), (5, 3), (7, 4), (3, 5), (1, 3), (3, 1), (5, 5)]


def pair_of(n, epoch, sigma=0.9):
    return AllocationPair(minsep.BandedToeplitz.identity(iterations=n), sigma, epoch=epoch)


def tuple_weights(n, epoch, copies, sigma):
    """Return the weight of every sum of participation vectors, from the definition."""
    law = participation_law(minsep.RandomAllocation(epoch), n)
    vectors, probabilities = np.array(list(law)), np.array(list(law.values()))
    inner = vectors @ vectors.T / sigma**2
    weights = {}
    for chosen in itertools.product(range(len(law)), repeat=copies):
        pairs = sum(inner[one, other] for one, other in itertools.combinations(chosen, 2))
        total = tuple(vectors[list(chosen)].sum(axis=0).tolist())
        weights[total] = weights.get(total, 0.0) + math.prod(probabilities[list(chosen)]) * math.exp(pairs)
    return weights


def cases(most_copies):
    return [
        (n, epoch, copies)
        for n, epoch in SIZES
        for copies in range(1, most_copies + 1)
        if len(participation_law(minsep.RandomAllocation(epoch), n)) ** copies <= 50_000
    ]


@pytest.mark.parametrize(("n", "epoch", "copies"), cases(5))
@pytest.mark.parametrize("sigma", [0.4, 1.3])
def test_constant_equals_the_sum_over_all_tuples(n, epoch, copies, sigma):
    law = AllocatedLaw(pair_of(n, epoch, sigma), "remove", copies)
    total = sum(tuple_weights(n, epoch, copies, sigma).values())
    assert law.log_constant == pytest.approx(math.log(total), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("copies", [2, 5, MOST_COPIES])
@pytest.mark.parametrize(("epoch", "within"), [(7, 7), (117, 117), (117, 11), (3, 1), (40, 0)])
def test_constant_of_an_epoch_equals_its_generating_function(copies, epoch, within):
    """k! [z^k] e^(z (t - r)) (sum_c e^(c (c - 1)/(2 s2)) z^c/c!)^r / t^k, by products of power series."""
    log_meeting = 0.6
    place = np.array([math.exp(log_meeting * math.comb(c, 2)) / math.factorial(c) for c in range(copies + 1)])
    series = np.array([(epoch - within) ** c / math.factorial(c) for c in range(copies + 1)])
    for _ in range(within):
        series = np.convolve(series, place)[: copies + 1]
    expected = math.log(series[copies]) + math.lgamma(copies + 1) - copies * math.log(epoch)
    assert splits_of(copies, epoch, within, log_meeting).log_total == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("n", "epoch", "copies"), cases(4))
def test_tuples_are_drawn_with_their_weights(n, epoch, copies):
    pair = pair_of(n, epoch)
    bounded = AllocatedLaw(pair, "remove", copies)
    weights = tuple_weights(n, epoch, copies, pair.noise_multiplier)
    law = {total: weight / sum(weights.values()) for total, weight in weights.items()}
    count, observed = 0, {}
    for chunk in range(20):
        samples, times, columns = bounded.draw_places(Key.from_seed(1), chunk)
        sums = np.zeros((bounded.samples_in_chunk, n))
        np.add.at(sums, (samples, times), columns)
        for row in map(tuple, sums):
            observed[row] = observed.get(row, 0) + 1
        count += bounded.samples_in_chunk
    assert set(observed) <= set(law)
    common = [total for total, weight in law.items() if weight * count >= 10]
    counts, expected = [observed.get(total, 0) for total in common], [law[total] * count for total in common]
    if count - sum(expected) > 1e-6 * count:
        counts.append(count - sum(counts))
        expected.append(count - sum(expected))
    if len(counts) > 1:
        assert stats.chisquare(counts, np.array(expected) * sum(counts) / sum(expected)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("n", "epoch"), SIZES)
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_draws_have_the_density(n, epoch, copies):
    assert_draws_have_the_density(AllocatedLaw(pair_of(n, epoch, 1.5), "remove", copies), 4, FALSE_ALARM)


@pytest.mark.parametrize(("n", "epoch"), [*SIZES, (234, 117), (250, 117)])
@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_values_never_exceed_the_bound_and_their_mean_is_delta(n, epoch, sigma):
    pair, epsilon = pair_of(n, epoch, sigma), 0.7
    means = []
    for law in [PlainLaw(pair, "remove"), *(AllocatedLaw(pair, "remove", copies) for copies in (2, 3))]:
        bound = law.upward_bound(epsilon)
        values = np.concatenate([law.draw_values(Key.from_seed(2), chunk, epsilon) for chunk in range(40)])
        assert values.max() <= bound
        means.append((values.mean(), values.std() / math.sqrt(values.size)))
    for mean, error in means[1:]:
        deviation = stats.norm.isf(FALSE_ALARM / 2) * math.hypot(error, means[0][1])
        # Values are rounded up, by up to 1 % for plain samples.
        assert abs(mean - means[0][0]) <= deviation + 0.01 * means[0][0]


def test_the_bound_is_reached():
    """X as a function of R alone has its largest value at R = k e^eps/(k - 1), and that is W."""
    law, epsilon = AllocatedLaw(pair_of(250, 117, 0.9), "remove", 3), 1.0
    log_ratio = np.linspace(epsilon, epsilon + 5, 100_001)
    log_ratio = log_ratio[1:]
    values = log_ratio - law.log_density(None, log_ratio) + np.log(-np.expm1(epsilon - log_ratio))
    assert values.max() == pytest.approx(law.log_bound(epsilon), abs=1e-8)


def test_one_epoch_is_that_of_balls_in_bins():
    """The same pair by another recursion, and so the same delta by other laws."""
    for n, epoch in [(20, 20), (12, 20)]:
        y = np.random.default_rng(0).normal(size=(50, n)) + 0.3
        strategy = minsep.BandedToeplitz.identity(iterations=n)
        other = MinSepPair(strategy, 1.1, prob=1.0, min_sep=epoch, warm=True)
        np.testing.assert_allclose(pair_of(n, epoch, 1.1).log_ratios(y), other.log_ratios(y), rtol=1e-11, atol=1e-12)
        found = [
            minsep.estimate_delta(minsep.Mechanism(strategy, scheme, 1.1), 0.6, samples=40_000)
            for scheme in (minsep.RandomAllocation(epoch), minsep.BallsInBins(epoch))
        ]
        assert all(estimate.resolved and estimate.stderr < 0.05 * estimate.value for estimate in found)
        assert abs(found[0].value - found[1].value) <= 6 * math.hypot(found[0].stderr, found[1].stderr)


def test_delta_of_two_epochs_equals_quadrature():
    """Epochs of one iteration in a run of two are Gaussian; two epochs of two iterations are a plane each."""
    sigma, epsilon = 1.2, 0.8
    gaussian = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=2), minsep.RandomAllocation(1), sigma)
    distance = math.sqrt(2) / sigma
    exact = stats.norm.cdf(distance / 2 - epsilon / distance) - math.exp(epsilon) * stats.norm.cdf(
        -distance / 2 - epsilon / distance
    )
    found = minsep.estimate_delta(gaussian, epsilon, samples=40_000)
    assert abs(found.remove - exact) <= 6 * found.remove_stderr

    # The law of log S in one epoch on a fine grid, and its convolution with itself.
    z = np.linspace(-9, 9, 2001)
    mass = stats.norm.pdf(z) * (z[1] - z[0])
    log_terms = z / sigma - 1 / (2 * sigma**2)
    log_s = np.logaddexp(log_terms[:, None], log_terms[None]) - math.log(2)
    cells = np.linspace(-12, 12, 4801)
    histogram, _ = np.histogram(log_s, cells, weights=mass[:, None] * mass[None])
    middle = (cells[1:] + cells[:-1]) / 2
    total = middle[:, None] + middle[None]
    both = histogram[:, None] * histogram[None]
    remove = (both * np.maximum(np.exp(total) - math.exp(epsilon), 0)).sum()
    add = (both * np.maximum(1 - np.exp(epsilon + total), 0)).sum()
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=4), minsep.RandomAllocation(2), sigma)
    found = minsep.estimate_delta(mechanism, epsilon, samples=100_000)
    assert abs(found.remove - remove) <= 6 * found.remove_stderr + 1e-3 * remove
    assert abs(found.add - add) <= 6 * found.add_stderr + 1e-3 * add
    pair = pair_of(4, 2, sigma)
    assert add <= pair.moments.best(epsilon)[0] <= 5 * add


@pytest.mark.parametrize("copies", [2, 3])
def test_the_oracles_see_a_wrong_weight(copies, monkeypatch):
    """Meetings counted once for every copy instead of every pair, and the draws of one copy too many."""
    pair = pair_of(6, 3)
    total = sum(tuple_weights(6, 3, copies, pair.noise_multiplier).values())
    monkeypatch.setattr(AllocatedLaw, "_log_meeting", property(lambda law: float(law.pair.half_norms[0])))
    assert abs(AllocatedLaw(pair, "remove", copies).log_constant - math.log(total)) > 1e-2
    with pytest.raises(AssertionError):
        assert_draws_have_the_density(AllocatedLaw(pair, "remove", copies), 4, FALSE_ALARM)


def test_laws_are_recorded_and_rebuilt():
    pair = pair_of(2000, 117, 0.76)
    law = best_law(pair, "remove", 4.0)
    assert law.describe() == {"kind": "allocated", "copies": 4}
    assert law_from(law.describe(), pair, "remove") == law
    assert best_law(pair, "add", 4.0) == PlainLaw(pair, "add")
    assert math.exp(law.log_bound(4.0)) < 10 * 1e-5
    bounds = [AllocatedLaw(pair, "remove", copies).log_bound(4.0) for copies in range(1, MOST_COPIES + 1)]
    assert law.log_bound(4.0) == min(bounds)
    for description, direction in [
        ({"kind": "allocated", "copies": 4}, "add"),
        ({"kind": "allocated", "copies": 0}, "remove"),
        ({"kind": "allocated", "copies": MOST_COPIES + 1}, "remove"),
        ({"kind": "allocated", "copies": 2, "tilt": 1.0}, "remove"),
        ({"kind": "tilted", "copies": 2, "tilt": 1.0}, "remove"),
    ]:
        with pytest.raises(ValueError, match="has no such law"):
            law_from(description, pair, direction)
    with pytest.raises(ValueError, match="has no such law"):
        law_from({"kind": "allocated", "copies": 2}, MinSepPair(pair.strategy, 1.0, prob=0.1, min_sep=2), "remove")


def test_estimates_resolve_the_default_task():
    mechanism = minsep.Mechanism(
        minsep.BandedToeplitz.identity(iterations=2000), minsep.RandomAllocation(117), noise_multiplier=0.755
    )
    estimate = minsep.estimate_delta(mechanism, epsilon=4.0, samples=4_000)
    assert estimate.resolved
    assert estimate.method == "tilted"
    assert 0.8e-5 < estimate.value < 1.2e-5
    assert estimate.stderr < 0.06 * estimate.value
    epsilon = minsep.estimate_epsilon(mechanism, delta=1e-5, samples=4_000)
    assert epsilon.resolved
    assert abs(epsilon.value - 4.0) < 0.1
    curve = minsep.privacy_curve(mechanism, [0.5, 2.0, 4.0], samples=4_000)
    assert (np.diff(curve.remove) < 0).all()


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.5, 2.78), (1.0, 1.585), (2.0, 1.015), (8.0, 0.6)])
def test_remove_is_resolved_whatever_the_number_of_copies(epsilon, sigma):
    mechanism = minsep.Mechanism(
        minsep.BandedToeplitz.identity(iterations=2000), minsep.RandomAllocation(117), noise_multiplier=sigma
    )
    estimate = minsep.estimate_delta(mechanism, epsilon, samples=8_000)
    assert abs(estimate.remove - 1e-5) < 6 * estimate.remove_stderr + 1e-6
    assert estimate.remove_stderr < 0.1 * estimate.remove


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("order", [0.1, 1.0, 4.0, 12.0])
def test_moments_of_one_iteration_are_those_of_a_lognormal(ratio, order):
    exact = order * (order + 1) * ratio**2 / 2
    assert exact <= _log_moment(ratio, 1, 1, order) <= exact + 0.01 + 1e-6


@pytest.mark.parametrize(("epoch", "within"), [(2, 2), (2, 1), (5, 1)])
@pytest.mark.parametrize("order", [0.5, 2.0, 6.0])
def test_moments_are_bounds_close_to_quadrature(epoch, within, order):
    ratio = 0.9

    def x(z):
        return math.exp(ratio * z - ratio**2 / 2)

    if within == 1:
        exact, _ = integrate.quad(
            lambda z: ((x(z) + epoch - 1) / epoch) ** -order * stats.norm.pdf(z), -12, 12, epsabs=1e-13
        )
    else:
        exact, _ = integrate.dblquad(
            lambda v, z: ((x(z) + x(v)) / epoch) ** -order * math.exp(-(z * z + v * v) / 2) / (2 * math.pi),
            -9, 9, -9, 9, epsabs=1e-9,
        )  # fmt: skip
    assert math.log(exact) - 1e-7 <= _log_moment(ratio, epoch, within, order) <= math.log(exact) + 0.005


@pytest.mark.parametrize("order", [1.5, 4.0])
def test_moments_of_an_epoch_equal_samples(order):
    pair = pair_of(117, 117, 0.8)
    ratios = np.concatenate([pair.draw_log_ratios("add", Key.from_seed(0), chunk) for chunk in range(60)])
    values = np.exp(-order * ratios)
    mean, error = values.mean(), values.std() / math.sqrt(values.size)
    found = math.exp(_log_moment(1 / 0.8, 117, 117, order))
    assert mean - 6 * error <= found <= 1.01 * (mean + 6 * error)


def test_bounds_by_any_order_are_above_delta():
    pair = pair_of(30, 10, 1.4)
    ratios = np.concatenate([pair.draw_log_ratios("add", Key.from_seed(0), chunk) for chunk in range(60)])
    for epsilon in (0.1, 0.5, 1.0):
        delta = np.maximum(-np.expm1(epsilon + ratios), 0).mean()
        bounds = [pair.moments.bound(epsilon, order) for order in (0.3, 1.0, 3.0, 10.0)]
        assert min(bounds) >= delta
        assert pair.moments.best(epsilon)[0] <= min(bounds) * (1 + 1e-6)
