import math
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from numpy.testing import assert_allclose
from scipy import optimize, stats

import minsep
from minsep.accounting.pairs import BallsInBinsPair, CyclicPair, MinSepPair, TruncatedPair
from minsep.accounting.pairs.other_batches import draw_batch_sizes
from minsep.accounting.reduction import best_reduction
from minsep.accounting.schemes import pair_of
from minsep.randomness import Key
from tests.oracles.divergence import log_ratio
from tests.oracles.participation import participation_law
from tests.oracles.quadrature import delta as exact_delta

FALSE_ALARM = 1e-7
# A normal deviate is larger with that probability; estimates are means of at least 1e4 bounded values.
DEVIATIONS = stats.norm.isf(FALSE_ALARM / 2)


def mechanism(strategy, scheme, sigma, truncation=None):
    return minsep.Mechanism(strategy, scheme, sigma, truncation)


def uneven(n, bands):
    return minsep.BandedToeplitz.from_coefficients([1.0, 0.7, 0.9, 0.2, 0.5][:bands], iterations=n)


@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "scheme",
    [
        minsep.MinSep(rate=0.3, min_sep=2),
        minsep.MinSep(rate=0.3, min_sep=2, start="cold"),
        minsep.MinSep(rate=0.3, min_sep=3),
        minsep.BallsInBins(epoch=2),
        minsep.CyclicPoisson(rate=0.3, cycle=2),
    ],
    ids=repr,
)
def test_estimates_equal_integration(n, scheme):
    strategy = uneven(n, n)
    mech = mechanism(strategy, scheme, 0.8)
    law = participation_law(scheme, n)
    for epsilon in (0.0, 0.3, 1.0):
        estimate = minsep.estimate_delta(mech, epsilon, samples=200_000, method="plain")
        for direction in ("remove", "add"):
            expected = exact_delta(law, strategy.dense(), 0.8, epsilon, direction)
            found = getattr(estimate, direction)
            # Values lie in [0, 1], so their standard deviation is at most the root of their mean.
            assert abs(found - expected) <= DEVIATIONS * math.sqrt((expected + 1e-5) / 200_000) + 1e-3 * expected
        assert estimate.value == max(estimate.remove, estimate.add)


def epsilon_of_gaussian(sigma, delta):
    """Return the epsilon of the Gaussian mechanism at delta, by its closed form (Balle and Wang, 2018)."""

    def excess(epsilon):
        second = math.exp(epsilon + stats.norm.logcdf(-0.5 / sigma - epsilon * sigma))
        return stats.norm.cdf(0.5 / sigma - epsilon * sigma) - second - delta

    return optimize.brentq(excess, 0.0, 1e4, xtol=1e-12)


PAIRS = [
    MinSepPair(uneven(12, 3), 0.7, np.float32, prob=0.2, min_sep=4, warm=True),
    MinSepPair(uneven(12, 3), 0.7, np.float32, prob=0.2, min_sep=4),
    MinSepPair(uneven(12, 1), 0.7, np.float32, prob=0.1, min_sep=1),
    MinSepPair(uneven(12, 3), 0.9, np.float64, prob=0.2, min_sep=4, group=3),
    MinSepPair(
        minsep.BandedToeplitz.optimal(iterations=60, bands=60), 0.7, np.float32, prob=0.05, min_sep=60, warm=True
    ),
    CyclicPair(uneven(12, 3), 0.7, np.float32, prob=0.4, cycle=4),
    BallsInBinsPair(uneven(12, 5), 0.9, np.float32, cycle=3),
    TruncatedPair(uneven(12, 3), 0.9, np.float32, prob=0.2, min_sep=4, warm=True, batch_size=5, num_examples=60),
    TruncatedPair(uneven(12, 3), 0.9, np.float32, prob=0.2, min_sep=4, batch_size=9, num_examples=60),
    TruncatedPair(uneven(12, 3), 0.9, np.float32, prob=1.0, min_sep=4, warm=True, batch_size=9, num_examples=40),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{type(pair).__name__}-{pair.law}")
def test_samples_of_p_and_q_fit_their_ratio(pair):
    """E_P min(1, Q/P) = E_Q min(P/Q, 1), and E_P g(R) = E_Q R g(R) more generally; values lie in [0, 1]."""
    count = 200_000
    chunks = -(-count // pair.samples_in_chunk)
    log_p, log_q = (
        np.concatenate([pair.draw_log_ratios(direction, Key.from_seed(3), chunk) for chunk in range(chunks)])
        for direction in ("remove", "add")
    )
    tolerance = 2 * math.sqrt(math.log(4 / FALSE_ALARM) / (2 * log_p.size))  # Hoeffding, twice
    for shift in (-1.0, 0.0, 1.0, 3.0):
        left = np.exp(np.minimum(0, shift - log_p)).mean()
        right = np.exp(np.minimum(log_q, shift)).mean()
        assert abs(left - right) <= tolerance * max(1.0, math.exp(shift))
    if pair.no_participation > 0:
        assert log_q.min() >= math.log(pair.no_participation) - 1e-4


def test_wrong_samples_are_noticed():
    """The same test with the samples of another law fails."""
    right, wrong = PAIRS[0], MinSepPair(uneven(12, 3), 0.7, np.float32, prob=0.3, min_sep=4, warm=True)
    log_p = np.concatenate(
        [
            right.log_ratios_of_scores(right.filter.scores(_drawn_rows(wrong, chunk)))
            for chunk in range(-(-200_000 // right.samples_in_chunk))
        ]
    )
    log_q = np.concatenate([right.draw_log_ratios("add", Key.from_seed(3), chunk) for chunk in range(200)])
    tolerance = 2 * math.sqrt(math.log(4 / FALSE_ALARM) / (2 * log_p.size))
    assert abs(np.exp(np.minimum(0, -log_p)).mean() - np.exp(np.minimum(log_q, 0)).mean()) > tolerance


def _drawn_rows(pair, chunk):
    key = Key.from_seed(3).derive("remove")
    rows = pair.noise(key, chunk)
    examples, times = pair.times(key, chunk)
    pair.filter.add_columns(rows, examples, times, np.ones(times.size))
    return rows


def test_poisson_estimates_equal_dp_accounting():
    mech = mechanism(minsep.BandedToeplitz.identity(iterations=300), minsep.Poisson(rate=0.02), 1.0)
    exact = minsep.privacy_curve(mech, [0.2, 0.5, 1.0])
    assert exact.method == "pld"
    assert (exact.stderrs == 0).all()
    sampled = minsep.privacy_curve(mech, [0.2, 0.5, 1.0], samples=400_000, method="plain")
    # The discretisation of the privacy loss distribution adds up to 1e-3 of the value here.
    assert (np.abs(sampled.remove - exact.remove) <= DEVIATIONS * sampled.remove_stderr + 1e-3 * exact.remove).all()
    assert (np.abs(sampled.add - exact.add) <= DEVIATIONS * sampled.add_stderr + 1e-3 * exact.add).all()
    epsilon = minsep.estimate_epsilon(mech, 1e-3, samples=400_000, method="plain")
    assert epsilon.value == pytest.approx(minsep.estimate_epsilon(mech, 1e-3).value, abs=DEVIATIONS * epsilon.stderr)


def test_epsilon_and_delta_are_inverse():
    mech = mechanism(uneven(50, 3), minsep.MinSep(rate=0.05, min_sep=5), 0.9)
    epsilon = minsep.estimate_epsilon(mech, 0.01, samples=50_000)
    delta = minsep.estimate_delta(mech, epsilon.value, samples=50_000)
    assert delta.value == pytest.approx(0.01, abs=DEVIATIONS * delta.stderr)
    plain = minsep.estimate_epsilon(mech, 0.01, samples=50_000, method="plain")
    again = minsep.estimate_delta(mech, plain.value, samples=50_000, method="plain")
    assert again.value == pytest.approx(0.01, rel=1e-3)
    assert delta.direction == epsilon.direction == "remove"
    assert minsep.estimate_epsilon(mech, 1.0, samples=2000).value == 0.0


@pytest.mark.parametrize("sigma", [0.05, 0.5, 3.0])
def test_gaussian_closed_form(sigma):
    strategy = minsep.BandedToeplitz.optimal(iterations=40, bands=5)
    mech = mechanism(strategy, minsep.Unamplified(min_sep=8, participations=5), sigma)
    sensitivity = strategy.sensitivity(8, 5)
    for epsilon in (0.0, 0.1, 1.0, 5.0, 800.0):
        estimate = minsep.estimate_delta(mech, epsilon)
        z = stats.norm
        shift = sensitivity / sigma
        second = math.exp(min(epsilon + z.logcdf(-shift / 2 - epsilon / shift), 0.0))
        assert estimate.value == pytest.approx(z.cdf(shift / 2 - epsilon / shift) - second, abs=1e-12)
        assert (estimate.method, estimate.stderr, estimate.samples) == ("gaussian", 0.0, 0)
    expected = epsilon_of_gaussian(sigma / sensitivity, 1e-6)
    assert minsep.estimate_epsilon(mech, 1e-6).value == pytest.approx(expected, rel=1e-6)


def test_cyclic_poisson_is_poisson_in_turns():
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=8)
    cyclic = mechanism(strategy, minsep.CyclicPoisson(rate=0.01, cycle=8), 0.9)
    poisson = mechanism(minsep.BandedToeplitz.identity(iterations=13), minsep.Poisson(rate=0.08), 0.9)
    assert minsep.estimate_epsilon(cyclic, 1e-6).value == minsep.estimate_epsilon(poisson, 1e-6).value
    random_phase = minsep.estimate_delta(cyclic, 0.5, samples=100_000, method="plain")
    assert random_phase.value + DEVIATIONS * random_phase.stderr < minsep.estimate_delta(cyclic, 0.5).value


@pytest.mark.slow
def test_published_settings():
    """The paper's production setting: Poisson epsilon 9.90 at sigma 0.368, cyclic Poisson 8.12 at 0.627."""
    rate, delta = 1793 / 14_745_600, 1.301e-8
    identity = minsep.BandedToeplitz.identity(iterations=7200)
    poisson = minsep.estimate_epsilon(mechanism(identity, minsep.Poisson(rate), 0.368), delta)
    assert poisson.value == pytest.approx(9.90, abs=0.01)
    banded = minsep.BandedToeplitz.optimal(iterations=7200, bands=256)
    cyclic = minsep.estimate_epsilon(mechanism(banded, minsep.CyclicPoisson(rate, 256), 0.627), delta)
    assert cyclic.value == pytest.approx(8.12, abs=0.01)


def test_cyclic_production_setting():
    """The quick half of the published settings."""
    banded = minsep.BandedToeplitz.square_root(iterations=7200, bands=256)
    scheme = minsep.CyclicPoisson(1793 / 14_745_600, 256)
    assert minsep.estimate_epsilon(mechanism(banded, scheme, 0.627), 1.301e-8).value == pytest.approx(8.12, abs=0.01)


@pytest.mark.slow
def test_truncated_poisson_costs_privacy_where_it_cuts():
    identity = minsep.BandedToeplitz.identity(iterations=50)
    whole = minsep.estimate_delta(mechanism(identity, minsep.Poisson(0.05), 1.0), 1.0).value
    deltas = [
        minsep.estimate_delta(mechanism(identity, minsep.Poisson(0.05), 1.0, minsep.Truncation(size, 200)), 1.0).value
        for size in (12, 20, 60)
    ]
    assert deltas[0] > deltas[1] > deltas[2]
    assert deltas[2] == pytest.approx(whole, rel=1e-3)
    cyclic = minsep.CyclicPoisson(0.05, 4, "equal")
    cut = minsep.estimate_delta(mechanism(identity, cyclic, 1.0, minsep.Truncation(12, 203)), 1.0)
    assert cut.value > minsep.estimate_delta(mechanism(identity, cyclic, 1.0), 1.0).value


def test_truncated_min_sep_agrees_with_truncated_poisson_up_to_what_the_adversary_sees():
    """Seeing the others' batch sizes can only help; where nothing is cut it does not."""
    identity = minsep.BandedToeplitz.identity(iterations=20)
    rare = minsep.Truncation(batch_size=60, num_examples=200)
    sampled = minsep.estimate_delta(
        mechanism(identity, minsep.Poisson(0.1), 1.0, rare), 0.5, samples=100_000, method="plain"
    )
    exact = minsep.estimate_delta(mechanism(identity, minsep.Poisson(0.1), 1.0, rare), 0.5)
    assert sampled.remove == pytest.approx(exact.remove, abs=DEVIATIONS * sampled.stderr)


def test_add_is_free_from_some_epsilon_on():
    mech = mechanism(uneven(20, 2), minsep.MinSep(rate=0.01, min_sep=3), 0.5)
    never = MinSepPair(mech.strategy, 0.5, prob=mech.scheme.sampling_prob, min_sep=3, warm=True).no_participation
    just_before, just_after = -math.log(never) - 1e-3, -math.log(never) + 1e-3
    curve = minsep.privacy_curve(mech, [just_before / 2, just_after, 3.0], samples=20_000)
    assert curve.add[0] > 0
    assert curve.add[1] == curve.add[2] == curve.add_stderr[1] == 0


def test_a_curve_is_one_set_of_draws_in_any_order():
    mech = mechanism(uneven(30, 3), minsep.MinSep(rate=0.05, min_sep=5), 0.9)
    epsilons = [1.0, 0.25, 0.5, 0.25]
    curve = minsep.privacy_curve(mech, epsilons, samples=10_000, seed=4, method="plain")
    assert curve.epsilons.tolist() == epsilons
    for k, epsilon in enumerate(epsilons):
        alone = minsep.estimate_delta(mech, epsilon, samples=10_000, seed=4, method="plain")
        assert_allclose([alone.value, alone.stderr], [curve.deltas[k], curve.stderrs[k]], rtol=1e-9)


def test_a_wide_curve_agrees_with_single_estimates():
    """Epsilons far apart share draws from several proposals, and each is as if it had been asked for alone."""
    mech = mechanism(uneven(60, 3), minsep.MinSep(rate=0.05, min_sep=5), 1.0)
    epsilons = [0.3, 1.5, 3.0, 5.0]
    curve = minsep.privacy_curve(mech, epsilons, samples=30_000)
    assert curve.method == "tilted"
    for k, epsilon in enumerate(epsilons):
        alone = minsep.estimate_delta(mech, epsilon, samples=30_000, seed=1)
        error = math.hypot(alone.stderr, curve.stderrs[k])
        assert abs(alone.value - curve.deltas[k]) <= DEVIATIONS * error
        assert curve.stderrs[k] <= 0.1 * curve.deltas[k]


@pytest.mark.parametrize("name", ["threads", "one thread", "pool", "processes"])
def test_results_do_not_depend_on_who_works(name):
    mech = mechanism(uneven(1000, 3), minsep.MinSep(rate=0.01, min_sep=5), 0.9)
    expected = minsep.estimate_delta(mech, 1.0, samples=1001, seed=2, compute=minsep.Compute(workers=1))
    match name:
        case "threads":
            found = minsep.estimate_delta(mech, 1.0, samples=1001, seed=2, compute=minsep.Compute(workers=3))
        case "one thread":
            found = minsep.estimate_delta(mech, 1.0, samples=1001, seed=2, compute=minsep.Compute(workers=1))
        case "pool":
            with ThreadPoolExecutor(2) as executor:
                found = minsep.estimate_delta(
                    mech, 1.0, samples=1001, seed=2, compute=minsep.Compute(executor=executor)
                )
        case "processes":
            # Not forked: JAX, when tests of it ran before, has threads that do not survive it.
            with ProcessPoolExecutor(2, get_context("spawn")) as executor:
                found = minsep.estimate_delta(
                    mech, 1.0, samples=1001, seed=2, compute=minsep.Compute(executor=executor)
                )
    assert found == expected
    assert found != minsep.estimate_delta(mech, 1.0, samples=1001, seed=3)
    assert found != minsep.estimate_delta(mech, 1.0, samples=1000, seed=2)


@pytest.mark.parametrize(("warm", "min_sep"), [(True, 4), (False, 4), (True, 1), (True, 30), (False, 30)])
def test_batch_sizes_of_the_others_follow_the_pool(warm, min_sep):
    """Means and covariances of batch sizes against the enumerated law of one example, and against real batches."""
    n, examples, count = 7, 40, 30_000
    scheme = minsep.MinSep(rate=0.6 / min_sep, min_sep=min_sep, start="warm" if warm else "cold")
    sizes = draw_batch_sizes(examples, scheme.sampling_prob, min_sep, warm, n, count, Key.from_seed(0), 0)
    assert sizes.shape == (count, n)
    law = participation_law(scheme, n)
    x, weights = np.array(list(law)), np.array(list(law.values()))
    mean = weights @ x
    covariance = (x - mean).T @ ((x - mean) * weights[:, None])
    errors = np.sqrt(examples * np.diag(covariance) / count)
    assert (np.abs(sizes.mean(axis=0) - examples * mean) <= DEVIATIONS * errors).all()
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance))) * examples
    # A product of two nearly normal variables has a standard deviation of at most sqrt(2) times theirs.
    assert (
        np.abs(np.cov(sizes.T) - examples * covariance) <= 1.2 * DEVIATIONS * np.sqrt(2) * spread / math.sqrt(count)
    ).all()


def test_truncated_delta_by_enumeration():
    """One iteration: the others' batch size is binomial, and delta is a mean over it of one-dimensional integrals."""
    sigma, size, examples, epsilon, p = 0.8, 2, 6, 0.5, 0.4
    identity = minsep.BandedToeplitz.identity(iterations=1)
    mech = mechanism(identity, minsep.Poisson(p), sigma, minsep.Truncation(size, examples))
    y = np.linspace(-9, 11, 400_001)

    def mixture(law):
        return sum(weight * stats.norm.pdf(y, move, sigma) for move, weight in law)

    expected = {"remove": 0.0, "add": 0.0}
    for others in range(examples):
        kept = min(1.0, size / (others + 1))
        whole = others < size
        one = mixture([(0, 1 - p), (1, p)] if whole else [(0, 1 - p + p * (1 - kept)), (2, p * kept)])
        two = mixture([(0, 1.0)] if whole else [(0, 1 - p * kept), (-1, p * kept)])
        chance = stats.binom.pmf(others, examples - 1, p)
        expected["remove"] += chance * np.trapezoid(np.maximum(one - math.exp(epsilon) * two, 0), y)
        expected["add"] += chance * np.trapezoid(np.maximum(two - math.exp(epsilon) * one, 0), y)
    estimate = minsep.estimate_delta(mech, epsilon, samples=200_000, method="plain")
    assert estimate.upper_bound
    for direction, value in expected.items():
        assert abs(getattr(estimate, direction) - value) <= DEVIATIONS * math.sqrt(value / 200_000) + 1e-5


def test_an_event_with_infinite_loss():
    mech = mechanism(uneven(20, 3), minsep.MinSep(rate=0.05, min_sep=4), 1.0)
    make = pld.from_privacy_parameters
    parameters = dp_accounting.pld.common.DifferentialPrivacyParameters
    finite = minsep.estimate_epsilon(mech, 0.05, samples=4000, compose_with=make(parameters(0.5, 0.002)))
    assert 0.5 < finite.value < 2.0
    infinite = minsep.estimate_epsilon(mech, 0.01, samples=4000, compose_with=make(parameters(0.5, 0.02)))
    assert infinite.value == math.inf


def test_small_epsilons_beside_another_event():
    gaussian = mechanism(minsep.BandedToeplitz.identity(iterations=1), minsep.BallsInBins(epoch=1), 400.0)
    exact = mechanism(minsep.BandedToeplitz.identity(iterations=1), minsep.Unamplified(1, 1), 400.0)
    nothing = dp_accounting.NoOpDpEvent()
    found = minsep.estimate_epsilon(gaussian, 3e-4, samples=50_000, compose_with=nothing, method="plain")
    assert found.value == pytest.approx(minsep.estimate_epsilon(exact, 3e-4).value, abs=DEVIATIONS * found.stderr)


def test_a_sampled_zero_is_not_certain():
    mech = mechanism(minsep.BandedToeplitz.identity(iterations=1), minsep.BallsInBins(epoch=1), 20.0)
    estimate = minsep.estimate_epsilon(mech, 0.5, samples=2000, method="plain")
    assert estimate.value == 0.0
    assert estimate.stderr > 0


def test_exact_curves_at_their_edges():
    poisson = mechanism(minsep.BandedToeplitz.identity(iterations=1000), minsep.Poisson(0.01), 1.0)
    curve = minsep.privacy_curve(poisson, [7.0, 8.0, 1e16])
    assert (curve.remove >= 0).all()
    assert (np.diff(curve.remove) <= 0).all()
    # What rounding may have taken off is added: 1,000 compositions times four units in the last place of 1.
    assert 1000 * 4 * 2**-52 <= curve.add[1] < 1e-12
    assert curve.upper_bound
    with pytest.raises(ValueError, match="delta is 5e-16, but exact accounting .* needs a delta of at least 8.9e-12"):
        minsep.estimate_epsilon(poisson, 5e-16, method="exact")
    rare = mechanism(minsep.BandedToeplitz.identity(iterations=100), minsep.Poisson(1e-4), 1.0)
    assert minsep.estimate_delta(rare, 0.1).add == 0.0
    loud = mechanism(minsep.BandedToeplitz.identity(iterations=1), minsep.Unamplified(1, 1), 0.0075)
    assert 8000 < minsep.estimate_epsilon(loud, 1e-9).value < 12000
    for sigma in np.linspace(0.5, 3, 30):
        quiet = mechanism(minsep.BandedToeplitz.identity(iterations=1), minsep.Unamplified(1, 1), sigma)
        assert minsep.estimate_delta(quiet, minsep.estimate_epsilon(quiet, 1e-6).value).value <= 1e-6


def test_bounds_say_that_they_are():
    dense = minsep.Dense(np.tril(np.random.default_rng(0).random((8, 8))) + np.eye(8))
    assert minsep.estimate_delta(mechanism(dense, minsep.Unamplified(2, 4), 3.0), 1.0).upper_bound
    banded = uneven(8, 2)
    assert not minsep.estimate_delta(mechanism(banded, minsep.Unamplified(2, 4), 3.0), 1.0).upper_bound
    assert minsep.estimate_delta(mechanism(banded, minsep.CyclicPoisson(0.1, 4), 3.0), 1.0).upper_bound
    pair = MinSepPair(uneven(9, 5), 1.0, prob=0.2, min_sep=2, warm=True)
    with pytest.raises(ValueError, match="says nothing about `add`"):
        pair.draw_log_ratios("add", Key.from_seed(0), 0)
    optimistic = pld.from_gaussian_mechanism(1.0, pessimistic_estimate=False, use_connect_dots=False)
    with pytest.raises(ValueError, match="optimistic"):
        minsep.estimate_delta(mechanism(banded, minsep.MinSep(0.1, 2), 3.0), 1.0, compose_with=optimistic)


def test_large_groups():
    pair = MinSepPair(uneven(6, 2), 50.0, prob=0.01, min_sep=2, group=100)
    assert np.isfinite(pair.draw_log_ratios("remove", Key.from_seed(0), 0)).all()


def test_separations_far_beyond_the_run():
    mech = mechanism(uneven(20, 3), minsep.MinSep(rate=2.0**-31, min_sep=2**31 - 1), 1.0)
    assert minsep.estimate_delta(mech, 0.1, samples=2000, method="plain").value < 1e-3


def test_composition_with_another_event():
    mech = mechanism(minsep.BandedToeplitz.identity(iterations=100), minsep.Poisson(rate=0.05), 1.5)
    event = dp_accounting.GaussianDpEvent(3.0)
    for other in (event, pld.from_gaussian_mechanism(3.0)):
        exact = minsep.estimate_delta(mech, 1.0, compose_with=other)
        sampled = minsep.estimate_delta(mech, 1.0, samples=100_000, compose_with=other, method="plain")
        assert exact.method == "pld"
        assert sampled.remove == pytest.approx(exact.remove, abs=DEVIATIONS * sampled.stderr + 1e-3 * exact.remove)
        assert sampled.add == pytest.approx(exact.add, abs=DEVIATIONS * sampled.stderr + 1e-3 * exact.add)
        assert exact.value > minsep.estimate_delta(mech, 1.0).value
    epsilon = minsep.estimate_epsilon(mech, 0.01, samples=50_000, compose_with=event, method="plain")
    expected = minsep.estimate_epsilon(mech, 0.01, compose_with=event)
    assert epsilon.value == pytest.approx(expected.value, abs=DEVIATIONS * epsilon.stderr + 2e-3)
    gaussian = mechanism(minsep.BandedToeplitz.identity(iterations=4), minsep.Unamplified(2, 2), 2.0)
    assert minsep.estimate_epsilon(
        gaussian, 1e-5, compose_with=dp_accounting.GaussianDpEvent(2.0)
    ).value == pytest.approx(epsilon_of_gaussian(2.0 / math.sqrt(3), 1e-5), rel=1e-3)


def test_an_estimate_without_a_loss_does_not_look_certain():
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=50, bands=3), minsep.MinSep(rate=0.01, min_sep=5), 2.0)
    estimate = minsep.estimate_delta(mech, 0.5, samples=1000, method="plain")
    assert estimate.value == 0.0
    assert estimate.stderr == math.inf
    assert not estimate.resolved
    better = minsep.estimate_delta(mech, 0.5, samples=20_000)
    assert better.resolved
    assert better.value < estimate.bound < 1e-4
    tiny = minsep.estimate_delta(mech, 8.0, samples=20_000)
    assert tiny.resolved or tiny.bound < 1e-60
    assert str(estimate) == f"not resolved by 1,000 samples: at most {estimate.bound:.3g}"
    banded = minsep.BandedInverseToeplitz.square_root(iterations=30, bands=4)
    mech = mechanism(banded, minsep.MinSep(rate=0.01, min_sep=8), 4.0)
    estimate = minsep.estimate_delta(mech, 8.0, samples=1000)
    assert not estimate.resolved
    assert estimate.bound == pytest.approx(2 * math.log(1e6) / 1000)


@pytest.mark.parametrize(("epsilon", "truth"), [(1.83, 2.3e-8), (1.6, 8.6e-7)])
def test_add_of_poisson_sampling_does_not_mislead(epsilon, truth):
    """Samples that miss the losses that matter once gave a millionth of the truth, with a small error beside it."""
    mech = mechanism(minsep.BandedToeplitz.identity(iterations=1000), minsep.Poisson(0.01), 1.0)
    exact = minsep.estimate_delta(mech, epsilon)
    assert exact.add == pytest.approx(truth, rel=0.05)
    for seed in range(3):
        found = minsep.estimate_delta(mech, epsilon, samples=20_000, seed=seed, method="tilted")
        for direction in ("remove", "add"):
            value, error = getattr(found, direction), getattr(found, f"{direction}_stderr")
            assert error < 0.1 * value
            assert value == pytest.approx(getattr(exact, direction), abs=DEVIATIONS * error + 1e-3 * value)


def test_a_law_that_misses_what_matters_shows(monkeypatch):
    """If the pilot's law has nothing to do with the mechanism, the estimate is not resolved, and has a bound."""
    from minsep.accounting.estimation import sampling

    def astray(pair, direction, epsilon, key, compute):
        law = sampling.AdaptedLaw(pair, direction, 0.0, 1.0, 400.0 if direction == "add" else -400.0)
        return sampling.Pilot(law, 0.0, math.inf, 0.0)

    monkeypatch.setattr(sampling, "run_pilot", astray)
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    mech = mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), 2.0)
    found = minsep.estimate_delta(mech, 1.0, samples=20_000)
    assert not found.resolved
    monkeypatch.undo()
    truth = minsep.estimate_delta(mech, 1.0, samples=20_000)
    assert truth.resolved
    assert truth.value < found.bound < 1e4 * truth.value


def test_balls_in_bins_of_tiny_deltas():
    eight = mechanism(minsep.BandedToeplitz.identity(iterations=8), minsep.BallsInBins(8), 1.0)
    found = minsep.estimate_delta(eight, 2.05, samples=20_000)
    assert found.add == pytest.approx(1.25e-8, abs=DEVIATIONS * found.add_stderr + 1e-10)
    assert found.add_stderr < 0.1 * found.add
    many = mechanism(minsep.BandedToeplitz.identity(iterations=64), minsep.BallsInBins(64), 2.0)
    epsilon = minsep.estimate_epsilon(many, 1e-8, samples=20_000)
    assert epsilon.method == "tilted"
    assert epsilon.value == pytest.approx(0.3295, abs=DEVIATIONS * epsilon.stderr + 5e-4)
    assert epsilon.stderr < 0.01


def test_much_noise_and_a_tiny_delta_are_resolved():
    strategy = minsep.BandedToeplitz.optimal(iterations=2000, bands=64)
    mech = mechanism(strategy, minsep.MinSep(rate=512 / 60_000, min_sep=64), 14.08)
    found = minsep.estimate_delta(mech, 1.0, samples=20_000)
    assert found.resolved
    assert found.stderr < 0.03 * found.value
    assert found.value == pytest.approx(8.2e-9, rel=0.15)


def test_more_bands_than_min_sep_give_an_upper_bound():
    banded = minsep.BandedInverseToeplitz.square_root(iterations=30, bands=4)
    mech = mechanism(banded, minsep.MinSep(rate=0.01, min_sep=8), 1.0)
    estimate = minsep.estimate_delta(mech, 0.4, samples=20_000)
    assert estimate.upper_bound
    assert estimate.add == 0.0
    assert "upper bound" in str(estimate)
    with pytest.raises(ValueError, match="epsilon is 0.01, but with more bands than min_sep, `add` is covered only"):
        minsep.estimate_delta(mech, 0.01, samples=20_000)
    epsilon = minsep.estimate_epsilon(mech, 0.05, samples=20_000)
    assert epsilon.upper_bound
    assert epsilon.value >= epsilon.add > 0


@pytest.mark.parametrize(
    ("mech", "method"),
    [
        (mechanism(uneven(20, 3), minsep.CyclicPoisson(rate=0.1, cycle=2), 1.0), "auto"),
        (mechanism(uneven(20, 3), minsep.Unamplified(5, 4), 1.0, minsep.Truncation(4, 100)), "auto"),
        (mechanism(uneven(20, 3), minsep.Unamplified(5, 4), 1.0), "plain"),
        (mechanism(uneven(20, 3), minsep.MinSep(rate=0.1, min_sep=4), 1.0, minsep.Truncation(4)), "auto"),
        (mechanism(uneven(20, 3), minsep.MinSep(rate=0.1, min_sep=2), 1.0, minsep.Truncation(4, 100)), "auto"),
        (mechanism(uneven(20, 3), minsep.MinSep(rate=0.1, min_sep=4), 1.0), "exact"),
        (mechanism(uneven(20, 3), minsep.CyclicPoisson(0.1, 4), 1.0, minsep.Truncation(4, 100)), "auto"),
        (mechanism(uneven(20, 3), minsep.CyclicPoisson(0.1, 4, "equal"), 1.0), "plain"),
    ],
)
def test_what_is_not_supported_is_refused_with_what_is(mech, method):
    for ask in (
        lambda: minsep.estimate_delta(mech, 1.0, method=method),
        lambda: minsep.estimate_epsilon(mech, 0.1, method=method),
    ):
        with pytest.raises(
            ValueError, match=r"mechanism is .* accounting; supported are: .* with .* \((exact|sampled)"
        ):
            ask()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1.0}, "epsilons is .* finite numbers of at least 0"),
        ({"epsilon": math.nan}, "epsilon is nan"),
        ({"epsilon": 1.0, "samples": 1}, "samples is 1, .* at least 2"),
        ({"epsilon": 1.0, "seed": -1}, "seed is -1"),
        ({"epsilon": 1.0, "method": "fast"}, "method is 'fast', .* 'auto', 'exact', 'plain', 'tilted'"),
        ({"epsilon": 1.0, "compose_with": "gaussian"}, "compose_with is 'gaussian'"),
        ({"epsilon": 1.0, "compose_with": dp_accounting.NonPrivateDpEvent()}, "compose_with is NonPrivateDpEvent"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    mech = mechanism(uneven(20, 3), minsep.MinSep(rate=0.1, min_sep=4), 1.0)
    with pytest.raises(ValueError, match=message):
        minsep.estimate_delta(mech, **arguments)


@pytest.mark.parametrize(
    ("delta", "message"), [(0.0, "delta is 0.0"), (1.5, "delta is 1.5"), (1e-8, "at least 1,000,000,000")]
)
def test_bad_deltas_are_refused(delta, message):
    mech = mechanism(uneven(20, 3), minsep.MinSep(rate=0.1, min_sep=4), 1.0)
    with pytest.raises(ValueError, match=message):
        minsep.estimate_epsilon(mech, delta, method="plain")


def test_a_mechanism_can_be_sent_to_workers():
    mech = mechanism(uneven(20, 3), minsep.MinSep(rate=0.1, min_sep=4), 1.0, minsep.Truncation(9, 50))
    assert pickle.loads(pickle.dumps(mech)) == mech


LONG = [minsep.BallsInBins(epoch=9), minsep.MinSep(0.06, 8), minsep.MinSep(0.06, 8, "cold")]


@pytest.mark.parametrize("scheme", LONG, ids=repr)
def test_separations_longer_than_the_run_are_those_of_the_enumeration(scheme):
    samples = np.random.default_rng(0).normal(size=(50, 4))
    mech = mechanism(uneven(4, 3), scheme, 0.7)
    pair = best_reduction(mech, 1.0, 1e-3, "remove").pair
    whole, share = pair_of(mech, np.float64).shortened()
    assert pair == whole
    assert pair.min_sep == 4
    truth = np.exp(log_ratio(participation_law(scheme, 4), mech.strategy.dense(), 0.7, samples))
    assert_allclose(share * np.exp(pair.log_ratios(samples)) + 1 - share, truth, rtol=1e-12)
    short = mechanism(uneven(2, 2), scheme, 0.7)
    law = participation_law(scheme, 2)
    for direction in ("remove", "add"):
        for epsilon in (0.02, 0.2, 1.0):
            truth = exact_delta(law, short.strategy.dense(), 0.7, epsilon, direction)
            sampling = minsep.privacy_curve(short, [epsilon], samples=40_000)
            mean, stderr = getattr(sampling, direction)[0], getattr(sampling, f"{direction}_stderr")[0]
            assert mean == pytest.approx(truth, abs=DEVIATIONS * stderr + 2e-3 * truth + 1e-12)
    epsilon = minsep.estimate_epsilon(short, 0.01, samples=40_000)
    assert minsep.estimate_delta(short, epsilon.value, samples=40_000).value == pytest.approx(0.01, rel=0.05)


def test_what_is_not_known_is_not_bounded_by_the_other_direction():
    """Found by a review: an epsilon of 1,245 was said to be at most 2.4."""
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=100, bands=4), minsep.MinSep(0.02, 10), 0.05)
    found = minsep.estimate_epsilon(mech, 1e-5, samples=4_000)
    assert found.resolved or found.bound is None


def test_a_composition_is_resolved_where_its_parts_are():
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=100, bands=4), minsep.MinSep(0.02, 10), 1.0)
    event = dp_accounting.GaussianDpEvent(3.0)
    tilted, plain = (
        minsep.estimate_delta(mech, 1.0, samples=50_000, compose_with=event, method=method)
        for method in ("tilted", "plain")
    )
    assert tilted.resolved
    assert tilted.value == pytest.approx(plain.value, abs=DEVIATIONS * (plain.stderr + tilted.stderr))


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(1e-17, 1.0, 1.0), (0.02, 1e17, 1.0), (0.02, 1.0, 100.0)])
def test_losses_that_are_all_alike_are_not_resolved(rate, sigma, epsilon):
    mech = mechanism(minsep.BandedToeplitz.optimal(iterations=20, bands=4), minsep.MinSep(rate, 10), sigma)
    found = minsep.estimate_delta(mech, epsilon, samples=2_000)
    assert not found.resolved
    assert 0 < found.bound < 1e-12
