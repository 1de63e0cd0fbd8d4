"""The verifier of the paper: its bound against the exact binomial tail, and its certificates."""

import json

import pytest
from scipy import stats

import minsep
from minsep.accounting.sequential.fixed_sample import _overall, fixed_sample_verifier


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-3, 0.1, 0.5, 1.0])
def test_bound_covers_the_exact_tail_and_samples_are_the_fewest(delta: float) -> None:
    test = fixed_sample_verifier(delta)
    tail = stats.binom.cdf(int(test.threshold * test.samples), test.samples, test.level)
    assert tail <= test.failure_probability
    assert test.level + test.failure_probability * (1 - test.level) <= delta
    assert test.samples == 1 or _overall(delta, test.threshold, test.samples - 1, 1)[0] > delta


def test_bound_is_no_looser_than_a_chernoff_bound_must_be() -> None:
    test = fixed_sample_verifier(1e-5)
    tail = stats.binom.cdf(int(test.threshold * test.samples), test.samples, test.level)
    assert test.failure_probability < 40 * tail


@pytest.fixture(scope="module")
def mechanism() -> minsep.Mechanism:
    strategy = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=1.0)


def test_certificates_pass_below_half_of_delta_and_are_refused_above(mechanism: minsep.Mechanism) -> None:
    truth = minsep.estimate_delta(mechanism, 1.0, 200_000, method="tilted")
    # Three standard errors of the fixed test's average are a tenth of delta/2 or less here.
    passed = minsep.certify(mechanism, 1.0, 2.4 * truth.value, test="fixed", seed=0)
    refused = minsep.certify(mechanism, 1.0, 1.6 * truth.value, test="fixed", seed=0)
    assert passed.passed
    assert not refused.passed
    assert "the average is" in refused.statement
    assert passed.proofs[0].samples == fixed_sample_verifier(passed.tested.delta).samples
    assert minsep.verify(passed).holds
    changed = json.loads(passed.to_json())
    changed["proofs"][0]["outcome"]["mean"] *= 0.9
    verification = minsep.verify(minsep.Certificate.from_json(json.dumps(changed)))
    assert not verification.holds
    assert "mean" in verification.reason


def test_truncated_mechanisms_follow_the_recursions_of_the_paper(mechanism: minsep.Mechanism) -> None:
    truncated = minsep.Mechanism(
        mechanism.strategy, minsep.MinSep(rate=0.02, min_sep=10), 1.5, minsep.Truncation(30, 1000)
    )
    certificate = minsep.certify(truncated, 2.0, 1e-2, test="fixed", seed=1)
    assert certificate.passed
    assert certificate.proofs[0].claim.truncation_terms == 0
    assert minsep.verify(certificate).holds


def test_what_the_test_derives_is_not_taken(mechanism: minsep.Mechanism) -> None:
    with pytest.raises(ValueError, match=r"max_samples is 5, but test='fixed' derives it"):
        minsep.certify(mechanism, 1.0, 1e-2, test="fixed", max_samples=5)
    with pytest.raises(ValueError, match="test is 'chernoff'"):
        minsep.certify(mechanism, 1.0, 1e-2, test="chernoff")
