import json
import math
from functools import partial

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import minsep
from minsep.accounting.exact import user_norms
from minsep.accounting.schemes import exact_curve
from minsep.core.identity import Described

CHAIN = minsep.AttributionGraph.from_lists([[k, k + 1] for k in range(60)])
ALONE = minsep.AttributionGraph.from_lists([[k // 2] for k in range(20)])
STRATEGY = minsep.BandedToeplitz.optimal(iterations=24, bands=3)
Scheme = partial(minsep.MultiAttributionMinSep, accept_assumption=True)


def test_a_scheme_describes_public_numbers_alone():
    scheme = Scheme(0.02, 4, CHAIN)
    description = scheme.describe()
    assert all(isinstance(value, str | int | float | bool) for value in description.values())
    assert CHAIN.fingerprint not in description.values()
    mechanism = minsep.Mechanism(STRATEGY, scheme, 1.0)
    again = minsep.Mechanism.from_description(mechanism.describe())
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    assert isinstance(again.scheme, Described)
    assert again.scheme.graph is None
    assert minsep.estimate_delta(again, 1.0, 2000).value == minsep.estimate_delta(mechanism, 1.0, 2000).value
    for ask in (
        lambda: again.batches(60),
        lambda: again.scheme.rate,
        lambda: again.scheme.mean_batch_size,
        lambda: again.scheme.expected_batch_size(60),
    ):
        with pytest.raises(ValueError, match="graph is None, but .* must come from one"):
            ask()
    for other in (Scheme(0.02, 4, CHAIN, user_bound=3), Scheme(0.02, 4, CHAIN, burn_in=0), Scheme(0.02, 5, CHAIN)):
        assert other != scheme


def test_one_example_a_user_is_cold_start_min_sep():
    prob, min_sep = 0.03, 4
    cold = minsep.MinSep(prob / (1 + (min_sep - 1) * prob), min_sep, "cold")
    assert cold.sampling_prob == pytest.approx(prob, rel=1e-15)
    prob = cold.sampling_prob
    single = minsep.Mechanism(STRATEGY, cold, 0.8)
    users = minsep.Mechanism(STRATEGY, Scheme(prob, min_sep, user_bound=1), 0.8)
    for method in ("plain", "tilted"):
        one, two = (minsep.estimate_delta(each, 1.0, 2000, method=method) for each in (users, single))
        assert one == two
    one, two = (minsep.certify(mechanism, 2.0, 5e-3, seed=1) for mechanism in (users, single))
    assert one.passed
    assert one.proofs == two.proofs
    assert minsep.verify(one).holds


@pytest.mark.slow
def test_one_example_a_user_is_calibrated_as_cold_start_min_sep():
    cold = minsep.MinSep(0.03, 4, "cold")
    users = Scheme(cold.sampling_prob, 4, user_bound=1)
    best, reference = (minsep.calibrate(STRATEGY, each, 2.0, 1e-3, seed=1) for each in (users, cold))
    assert best.certificate.passed
    assert best.mechanism.noise_multiplier == pytest.approx(reference.mechanism.noise_multiplier, rel=0.015)


def test_one_example_a_user_without_separation_is_poisson():
    identity = minsep.BandedToeplitz.identity(iterations=10)
    poisson = minsep.Mechanism(identity, minsep.Poisson(0.05), 0.9)
    users = minsep.Mechanism(identity, Scheme(0.05, 1, user_bound=1), 0.9)
    assert minsep.estimate_epsilon(users, 1e-4) == minsep.estimate_epsilon(poisson, 1e-4)


def test_without_separation_the_recursion_is_a_mixture_of_gaussians():
    """dp_accounting's privacy loss distribution of such a mixture is another method for the same number."""
    identity, prob, bound, sigma = minsep.BandedToeplitz.identity(iterations=12), 0.1, 3, 1.1
    counts = range(bound + 1)
    chances = [math.comb(bound, j) * prob**j * (1 - prob) ** (bound - j) for j in counts]
    losses = pld.from_mixture_gaussian_mechanism(sigma, counts, chances, value_discretization_interval=1e-2)
    exact = losses.self_compose(12).get_delta_for_epsilon(1.0)
    mechanism = minsep.Mechanism(identity, Scheme(prob, 1, user_bound=bound), sigma)
    sampled = minsep.estimate_delta(mechanism, 1.0, 20_000, method="plain")
    # 5.4 standard errors, a false alarm in 1e-7; the coarse distribution is up to 2e-4 above.
    assert sampled.value == pytest.approx(exact, abs=5.4 * sampled.stderr + 2e-4)
    assert sampled.stderr < 0.02 * exact


def test_more_examples_a_user_cost_more():
    deltas = [
        minsep.estimate_delta(minsep.Mechanism(STRATEGY, Scheme(0.02, 4, user_bound=bound), 1.5), 1.0, 4000).value
        for bound in (1, 2, 3)
    ]
    assert (np.diff(deltas) > 0).all()


def test_certificates_of_several_examples_a_user():
    best = minsep.calibrate(STRATEGY, Scheme(0.02, 4, CHAIN), 2.0, 1e-3, seed=0)
    assert best.certificate.passed
    assert best.mechanism.scheme.graph is CHAIN
    assert minsep.verify(minsep.Certificate.from_json(best.certificate.to_json())).holds
    quieter = best.mechanism.with_noise_multiplier(best.mechanism.noise_multiplier / 1.03)
    assert minsep.estimate_delta(quieter, 2.0, 8000).value > 1e-3


def test_public_coins_are_never_cheaper():
    for block in ("sampled", "participated"):
        scheme = Scheme(0.02, 4, user_bound=2, block=block, accept_assumption=True)
        public = minsep.Mechanism(STRATEGY, scheme.with_public_coins(), 1.2)
        secret = minsep.Mechanism(STRATEGY, scheme, 1.2)
        for epsilon in (0.5, 2.0):
            exact = minsep.estimate_delta(public, epsilon)
            assert exact.method == "gaussian"
            assert exact.upper_bound
            assert exact.value > minsep.estimate_delta(secret, epsilon, 4000).value
        found = minsep.calibrate(STRATEGY, public.scheme, 2.0, 1e-3)
        assert found.certificate.passed
        assert found.certificate.failure_probability == 0
        assert minsep.verify(found.certificate).holds


def test_public_coins_are_the_mean_over_what_takes_part():
    """Against a mean over all participation vectors, with columns of their own norms below the bound."""
    from tests.oracles.divergence import group_law

    n, min_sep, prob, bound, sigma = 7, 3, 0.3, 3, 1.3
    strategy = minsep.BandedToeplitz.identity(iterations=n)
    curve = exact_curve(minsep.Mechanism(strategy, Scheme(prob, min_sep, user_bound=bound, coins="public"), sigma))
    for epsilon in (0.0, 0.7, 2.0, -1.0):
        expected = 0.0
        for x, weight in group_law(prob, min_sep, bound, n).items():
            shift = math.sqrt(sum(count**2 for count in x)) / sigma
            expected += weight * (_gaussian(shift, epsilon) if shift else max(-math.expm1(epsilon), 0.0))
        assert float(curve.delta(epsilon, "remove")) == pytest.approx(expected, rel=1e-10)


def _gaussian(shift, epsilon):
    from scipy.stats import norm

    return norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)


def test_the_table_of_squared_norms_ends_on_the_safe_side(monkeypatch):
    values, probabilities = user_norms.user_norm_law(0.2, 3, 2, 30)
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    monkeypatch.setattr(user_norms, "_MOST_VALUES", 11)
    short_values, short = user_norms.user_norm_law(0.2, 3, 2, 30)
    assert short.sum() == pytest.approx(1, abs=1e-12)
    assert short[:11] == pytest.approx(probabilities[:11], rel=1e-12)
    assert short_values[-1] == values[-1] == 9 * 15


def test_a_strategy_with_more_bands_than_min_sep():
    wide = minsep.BandedToeplitz.optimal(iterations=30, bands=6)
    mechanism = minsep.Mechanism(wide, Scheme(0.01, 2, user_bound=2), 2.0)
    assert minsep.estimate_delta(mechanism, 3.0, 2000, method="plain").upper_bound
    public = minsep.Mechanism(wide, Scheme(0.01, 2, user_bound=2, coins="public"), 2.0)
    curve = exact_curve(public)
    assert curve.shift == pytest.approx(2 * wide.sensitivity(2, 15) / 2.0)


def test_what_is_not_covered_is_refused():
    conjecture = {"block": "participated", "accept_assumption": True, "user_bound": 2}
    for strategy, scheme, truncation in [
        (minsep.Dense(np.eye(10)), Scheme(0.1, 2, **conjecture), None),
        (minsep.BandedToeplitz.optimal(iterations=10, bands=3), Scheme(0.1, 2, **conjecture), None),
        (minsep.BandedToeplitz.identity(iterations=10), Scheme(0.1, 2, user_bound=2), minsep.Truncation(4, 10)),
    ]:
        with pytest.raises(ValueError, match="but that has no sampled accounting"):
            minsep.estimate_delta(minsep.Mechanism(strategy, scheme, 1.0, truncation), 1.0, 100)


def test_the_assumption_must_be_accepted_by_name():
    for options in ({}, {"block": "participated"}):
        with pytest.raises(ValueError, match=r"accept_assumption is False, but .* not proven. It .* minsep.UserMinSep"):
            minsep.MultiAttributionMinSep(0.1, 2, CHAIN, **options)
    for options in ({"coins": "public"}, {"shared": False, "graph": ALONE}, {"min_sep": 1}):
        scheme = minsep.MultiAttributionMinSep(**({"sampling_prob": 0.1, "min_sep": 2, "graph": CHAIN} | options))
        assert scheme.assumptions == ()
    with pytest.raises(ValueError, match="accept_assumption is False"):
        minsep.MultiAttributionMinSep(0.1, 2, ALONE, shared=False, block="participated")
    with pytest.raises(ValueError, match="shared is False, but example 0 belongs to 2 users"):
        minsep.MultiAttributionMinSep(0.1, 2, CHAIN, shared=False)


def test_a_conditional_certificate_says_so_first():
    strategy = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
    conditional = minsep.certify(minsep.Mechanism(strategy, Scheme(0.01, 10, user_bound=2), 1.8), 2.0, 1e-3, seed=1)
    assert conditional.passed
    assert conditional.conditional
    assert conditional.statement.startswith("CONDITIONAL. It assumes")
    content = json.loads(conditional.to_json())
    assert list(content)[:3] == ["passed", "conditional", "statement"]
    assert content["conditional"] is True
    with pytest.raises(ValueError, match="the file was changed"):
        minsep.Certificate.from_json(json.dumps(content | {"conditional": False}))
    alone = minsep.Mechanism(strategy, minsep.MultiAttributionMinSep(0.01, 10, user_bound=2, shared=False), 1.8)
    assert minsep.certify(alone, 2.0, 1e-3, seed=1).statement.startswith("Certified (2, 0.001)-DP")


def in_words(scheme):
    return " ".join(assumption.sentence for assumption in scheme.assumptions)


def test_assumptions_are_said_in_words():
    said = in_words(Scheme(0.1, 2, CHAIN))
    assert "other users" in said
    conjectured = in_words(Scheme(0.1, 2, CHAIN, block="participated", accept_assumption=True))
    assert "conjecture" in conjectured
    for quiet in (
        Scheme(0.1, 2, CHAIN, coins="public"),
        Scheme(0.1, 2, CHAIN, coins="public", block="participated"),
        Scheme(0.1, 2, user_bound=1),
        Scheme(0.1, 1, user_bound=5),
        minsep.MinSep(0.1, 2),
    ):
        assert in_words(quiet) == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": CHAIN}, "exactly one of them must be given"),
        ({"graph": CHAIN, "sampling_prob": 0.1, "expected_batch": 3}, "exactly one of them must be given"),
        ({"sampling_prob": 0.1}, "user_bound is None, but without a graph"),
        ({"expected_batch": 3, "user_bound": 2}, "without a graph give sampling_prob"),
        ({"sampling_prob": 0.0, "graph": CHAIN}, "sampling_prob is 0.0"),
        ({"sampling_prob": 1.1, "graph": CHAIN}, "sampling_prob is 1.1"),
        ({"expected_batch": -1, "graph": CHAIN}, "expected_batch is -1"),
        ({"sampling_prob": 0.1, "graph": [[0]]}, "graph is .* must be an AttributionGraph"),
        ({"sampling_prob": 0.1, "graph": CHAIN, "user_bound": 1}, "user_bound is 1, but user 1 has 2 examples"),
        ({"sampling_prob": 0.1, "graph": CHAIN, "min_sep": 0}, "min_sep is 0"),
        ({"sampling_prob": 0.1, "graph": CHAIN, "block": "all"}, "block is 'all'"),
        ({"sampling_prob": 0.1, "graph": CHAIN, "coins": "none"}, "coins is 'none'"),
        ({"sampling_prob": 0.1, "graph": CHAIN, "burn_in": -1}, "burn_in is -1"),
        ({"sampling_prob": 0.1, "graph": CHAIN, "accept_assumption": 1}, "accept_assumption is 1"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Scheme(**arguments)
