"""The lower bound for Gaussian noise: what an audit does not rule out, and the epsilon of that."""

import numpy as np
import pytest

import minsep
from minsep.accounting import epsilon_at_least
from minsep.accounting.estimation import lower_limit
from minsep.accounting.importance import PlainLaw
from minsep.accounting.schemes import pair_of
from minsep.auditing import plain_loop
from minsep.auditing.gaussian import gaussian_bound
from minsep.auditing.tally import Tally, Weight
from minsep.randomness import Key
from tests.auditing.faults import less_noise

AUDITS = 400


def mechanism_of(scheme=None, bands=2, noise_multiplier=1.0, **options):
    strategy = minsep.BandedToeplitz.optimal(iterations=16, bands=bands)
    return minsep.Mechanism(strategy, scheme or minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier, **options)


@pytest.mark.parametrize("delta", [1e-3, 1e-8])
@pytest.mark.parametrize(
    ("scheme", "bands"),
    [
        (minsep.MinSep(rate=0.1, min_sep=4), 2),
        (minsep.Poisson(rate=0.1), 1),
        pytest.param(minsep.BallsInBins(epoch=8), 2, marks=pytest.mark.slow),
    ],
)
def test_the_limit_is_just_below_the_estimate(scheme, bands, delta):
    mechanism = mechanism_of(scheme, bands)
    limit = epsilon_at_least(mechanism, delta, chance=1e-7)
    assert 0.9 < limit / minsep.estimate_epsilon(mechanism, delta).value < 1.0


def test_the_limit_is_known_only_where_the_ratio_is_exact():
    truncated = minsep.Truncation(batch_size=3, num_examples=20)
    assert epsilon_at_least(mechanism_of(truncation=truncated), 1e-3, 1e-6) == 0
    assert epsilon_at_least(mechanism_of(minsep.Poisson(rate=0.1)), 1e-3, 1e-6) == 0  # an upper bound on P/Q


def test_a_limit_above_epsilon_is_as_rare_as_stated(monkeypatch):
    """At the exact epsilon, 1/q is reached with probability at most q (five deviations)."""
    monkeypatch.setattr(lower_limit, "_TEST_SAMPLES", 1)  # one chunk
    mechanism = mechanism_of(minsep.Poisson(rate=0.1), bands=1)
    exact = minsep.estimate_epsilon(mechanism, delta=0.01, method="exact")
    law = PlainLaw(pair_of(mechanism, np.float64), "remove")
    epsilons = np.array([exact.remove, 0.5 * exact.remove])
    wealths = [lower_limit._log_wealths(law, Key.from_seed(seed), epsilons, 0.01) for seed in range(AUDITS)]
    at_exact, far_below = np.array(wealths).T
    for q in (0.3, 0.1, 0.03):
        assert np.mean(at_exact >= -np.log(q)) <= q + 5 * (q * (1 - q) / AUDITS) ** 0.5
    assert far_below.min() > 10


def test_what_is_ruled_out_holds_the_truth_as_rarely_as_stated(monkeypatch):
    """Noise of 1.1 and canaries of weight 0.9: a noise multiplier below 1.1/0.9 is too low (five deviations)."""
    seen = []
    monkeypatch.setattr("minsep.auditing.gaussian.epsilon_at_least", lambda mechanism, *_: seen.append(mechanism) or 1)
    generator, mechanism = np.random.default_rng(0), mechanism_of()
    for _ in range(AUDITS):
        tally = Tally.__new__(Tally)
        tally.absent = 50
        tally.squares_absent = 1.1**2 * generator.chisquare(50, size=16)
        overlap = 0.9 * 400 + 1.1 * 20 * generator.standard_normal()
        tally.weights = {2.0: Weight(1.0, 400.0, overlap), 0.3: Weight(0.3, 100.0, 0.0)}
        gaussian_bound(mechanism, tally, 1e-3, 0.1, 0)
    too_low = np.mean([mechanism.noise_multiplier < 1.1 / 0.9 for mechanism in seen])
    assert len(seen) == AUDITS
    assert too_low <= 0.1 + 5 * (0.09 / AUDITS) ** 0.5
    assert np.mean([mechanism.noise_multiplier for mechanism in seen]) < 1.5


def test_the_bound_is_near_the_certified_epsilon_and_absent_after_an_alarm():
    mechanism = mechanism_of()
    epsilon = minsep.estimate_epsilon(mechanism, delta=1e-5).value
    certificate = minsep.certify(mechanism, epsilon=1.05 * epsilon, delta=1e-5, seed=0)
    result = minsep.audit(certificate, plain_loop, seed=1, verify=False)
    assert 0.8 * result.epsilon < result.gaussian_bound < result.epsilon
    assert result.lower_bound < 0.8 * result.epsilon
    assert f"If the noise is Gaussian, epsilon is at least {result.gaussian_bound:.3g}." in result.statement
    assert minsep.audit(certificate, less_noise, seed=1, verify=False).gaussian_bound is None
