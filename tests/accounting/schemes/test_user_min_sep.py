"""Users with several examples: what is accounted for is what an adversary sees, others' participation included."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import minsep
from minsep.accounting.certification.prover import Prover
from minsep.accounting.schemes import exact_curve
from minsep.accounting.sequential import BettingVerifier
from tests.oracles.attribution import batches, neighbours, probabilities
from tests.oracles.participation import participation_law
from tests.oracles.quadrature import delta as integrated
from tests.oracles.users import joint_law, sum_law

FALSE_ALARM = 1e-7
ONE = minsep.Compute(workers=1)

# Examples of up to four users; the first user is the one who is protected.
GRAPHS = [
    [{0}, {0}],
    [{0, 1}, {0}, {1}],
    [{0, 1}, {0, 2}, {1, 2}],
    [{0, 1}, {0, 2}, {1, 3}, {2, 3}],
    [{0, 1, 2, 3}, {0}, {1}, {2}, {3}],
    [{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}],
]


def shape_of(vectors):
    return tuple(tuple(int(value) for value in x) for x in vectors)


@pytest.mark.parametrize("lists", GRAPHS, ids=str)
@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize(("n", "min_sep"), [(3, 2), (4, 3), (5, 4)])
def test_others_tell_nothing_about_a_user(lists, start, n, min_sep):
    """The joint law over every coin: given the others' participation, the user's is that of independent vectors."""
    scheme = minsep.MinSep(0.15, min_sep, start)
    mine = [place for place, users in enumerate(lists) if 0 in users]
    others = [place for place in range(len(lists)) if place not in mine]
    expected = sum_law(participation_law(scheme, n), len(mine))
    by_others = {}
    for vectors, weight in joint_law(scheme, n, len(lists)).items():
        seen = shape_of(vectors[place] for place in others)
        total = tuple(int(value) for value in np.sum([vectors[place] for place in mine], axis=0))
        law = by_others.setdefault(seen, {})
        law[total] = law.get(total, 0.0) + weight
    for law in by_others.values():
        whole = sum(law.values())
        assert {x: weight / whole for x, weight in law.items()} == pytest.approx(expected, rel=1e-9)


def test_blocking_across_examples_tells_something():
    """The same test fails for the paper's Algorithm 3: a neighbour that stays away shows that the user was sampled."""
    lists = [{0, 1}, {1}]
    coins = np.array(list(itertools.product((False, True), repeat=4))).reshape(-1, 2, 2)
    taking_part = batches(coins, neighbours(lists), 2, "sampled")
    weights = probabilities(coins, 0.3)
    shown = taking_part[:, 1, 1]
    sampled = taking_part[:, 0, 0]
    given = weights[shown & sampled].sum() / weights[shown].sum()
    assert given < 0.5 * weights[sampled].sum()


@pytest.mark.parametrize("user_bound", [2, 3])
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("tests", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_soundness(user_bound, direction, tests):
    """A mechanism whose true delta is just above the level passes no more often than q allows."""
    n, sigma, epsilon, q = 2, 1.6, 0.4, 0.05
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.6], iterations=n)
    scheme = minsep.UserMinSep(0.25, 2, user_bound)
    mech = minsep.Mechanism(strategy, scheme, sigma)
    law = sum_law(participation_law(scheme.for_examples, n), user_bound)
    true = integrated(law, strategy.dense(), sigma, epsilon, direction)
    prover = Prover(epsilon, BettingVerifier(0.99 * true, q, 1, 4000), compute=ONE)
    accepted = sum(prover.prove(mech, direction, seed).passed for seed in range(tests))
    assert stats.binomtest(accepted, tests, q, alternative="greater").pvalue > FALSE_ALARM
    generous = Prover(epsilon, BettingVerifier(1.5 * true, q, 1, 100_000), compute=ONE)
    assert generous.prove(mech, direction, 0).passed


@pytest.mark.parametrize(
    ("user_bound", "start"),
    [
        (2, "warm"),
        (3, "cold"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(2, "cold"), (3, "warm"), (4, "warm"), (4, "cold")]),
    ],
)
def test_estimates_agree_with_the_integral(user_bound, start):
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.6], iterations=2)
    scheme = minsep.UserMinSep(0.2, 2, user_bound, start)
    mech = minsep.Mechanism(strategy, scheme, 1.8)
    law = sum_law(participation_law(scheme.for_examples, 2), user_bound)
    for method in ("plain", "tilted"):
        found = minsep.estimate_delta(mech, 0.3, samples=100_000, method=method)
        for direction in ("remove", "add"):
            truth = integrated(law, strategy.dense(), 1.8, 0.3, direction)
            error = getattr(found, f"{direction}_stderr")
            assert abs(getattr(found, direction) - truth) <= stats.norm.isf(FALSE_ALARM / 2) * error


def test_a_user_is_certified_and_calibrated():
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    scheme = minsep.UserMinSep(0.005, 4, 2)
    best = minsep.calibrate(strategy, scheme, epsilon=2.0, delta=1e-4, seed=0)
    certificate = best.certificate
    assert (certificate.passed, certificate.unit, certificate.assumptions) == (True, "user", ())
    assert minsep.verify(minsep.Certificate.from_json(certificate.to_json()), reproduce=True).holds
    alone = minsep.calibrate(strategy, scheme.for_examples, epsilon=2.0, delta=1e-4, seed=0)
    sigma = best.mechanism.noise_multiplier
    assert alone.mechanism.noise_multiplier < sigma < 2.2 * alone.mechanism.noise_multiplier
    lower = minsep.estimate_delta(best.mechanism.with_noise_multiplier(sigma / 1.03), 2.0, samples=50_000)
    assert lower.value > 0.9e-4


def test_one_example_a_user_is_min_sep():
    strategy = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
    for truncation in (None, minsep.Truncation(50, 1000)):
        user = minsep.Mechanism(strategy, minsep.UserMinSep(0.02, 10, 1), 0.85, truncation)
        plain = minsep.Mechanism(strategy, minsep.MinSep(0.02, 10), 0.85, truncation)
        one, other = (minsep.certify(mechanism, 2.0, 1e-3, seed=1) for mechanism in (user, plain))
        assert one.passed
        assert one.proofs == other.proofs


def test_independent_iterations_are_exact():
    identity = minsep.BandedToeplitz.identity(iterations=30)
    user = minsep.Mechanism(identity, minsep.UserMinSep(0.02, 1, 3), 2.0)
    exact, sampled = (minsep.estimate_delta(user, 0.5, method=method) for method in ("exact", "tilted"))
    assert exact.method == "pld"
    assert abs(exact.value - sampled.value) <= stats.norm.isf(FALSE_ALARM / 2) * sampled.stderr + 1e-3 * exact.value


def test_public_coins_are_an_upper_bound_and_the_fallback():
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.6], iterations=2)
    public = minsep.Mechanism(strategy, minsep.UserMinSep(0.2, 2, 2, coins="public"), 1.8)
    secret = minsep.estimate_delta(minsep.Mechanism(strategy, minsep.UserMinSep(0.2, 2, 2), 1.8), 0.3)
    found = minsep.estimate_delta(public, 0.3)
    assert found.upper_bound
    assert found.value > secret.value
    # The largest sensitivity: both examples in the first iteration.
    assert exact_curve(public).shift == pytest.approx(2 / 1.8)
    # Given every coin a user moves the output by C x, at most that far.
    law = sum_law(participation_law(minsep.MinSep(0.2, 2), 2), 2)
    worst = max(np.linalg.norm(strategy.dense() @ np.array(x)) for x in law)
    assert worst <= 2 * strategy.sensitivity(2, 1) + 1e-12


def test_algorithm_3_exceeds_its_accounted_delta_where_independent_processes_do_not():
    """n = b = 2: one example of the user with many neighbours, each the only example of somebody else.

    An adversary sees which neighbours take part, and y. With Algorithm 3 a neighbour that is sampled in the second
    iteration stays away if the user's example was sampled in the first. With independent processes it does not.
    """
    p, sigma, epsilon, many = 0.05, 1.0, 2.0, 60
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 1e-9], iterations=2)
    accounted = integrated(
        {(0, 0): (1 - p) ** 2, (1, 0): p, (0, 1): p * (1 - p)}, strategy.dense(), sigma, epsilon, "remove"
    )
    # Nobody in the second batch: certain if the example was sampled in the first, else (1 - p)^many.
    nobody = (1 - p) ** many
    shown = p * 1.0 + (1 - p) * nobody
    # Given that, the example took part in the first iteration with this probability: a Gaussian of shift 1/sigma.
    posterior = p / shown
    line = np.linspace(-12, 14, 200_001)
    density = stats.norm.pdf(line, scale=sigma)
    moved = stats.norm.pdf(line - 1, scale=sigma)
    # Against the same event without the example's gradient, whose probability is the same.
    excess = np.maximum(posterior * moved + (1 - posterior) * density - math.exp(epsilon) * density, 0)
    exceeded = shown * float(np.trapezoid(excess, line))
    assert exceeded > 1.5 * accounted
    scheme = minsep.UserMinSep(p / (1 + p), 2, 1, "cold")
    assert scheme.sampling_prob == pytest.approx(p)
    independent = integrated(participation_law(scheme.for_examples, 2), strategy.dense(), sigma, epsilon, "remove")
    assert independent == pytest.approx(accounted, rel=1e-6)


@pytest.mark.parametrize(
    ("user_bound", "min_sep", "truncation", "message"),
    [
        (5, 8, None, "user_bound is 5, but it must be at most 4 for sampled accounting: bound contributions again"),
        (2, 8, minsep.Truncation(50, 1000), "truncation cuts batches at 50, but user_bound is 2: leave it out"),
        (2, 200, None, "min_sep is 200, but with user_bound 2 it must be from the bands, 4, to the iterations, 100"),
        (2, 2, None, "min_sep is 2, but with user_bound 2 it must be from the bands, 4, to the iterations, 100"),
        (4, 64, None, "min_sep is 64, but with user_bound 4 it must be at most 23"),
    ],
)
def test_a_refusal_is_one_sentence_that_says_what_would_work(user_bound, min_sep, truncation, message):
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    scheme = minsep.UserMinSep(0.004, min_sep, user_bound)
    for refused in (
        lambda: minsep.certify(minsep.Mechanism(strategy, scheme, 1.0, truncation), 1.0, 1e-3),
        lambda: minsep.estimate_delta(minsep.Mechanism(strategy, scheme, 1.0, truncation), 1.0),
        lambda: minsep.calibrate(strategy, scheme, 1.0, 1e-3, truncation),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            refused()
        assert len(str(caught.value)) < 200
