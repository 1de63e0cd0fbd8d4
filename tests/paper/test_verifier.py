"""Certificates by the verifier of the paper, and its Algorithm 5."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

import minsep
from minsep import paper
from minsep.accounting import Prover, fixed_sample_verifier
from minsep.accounting.certification.proofs import Refusal
from minsep.accounting.schemes import exact_curve
from minsep.paper import verifier

SMALL = minsep.Design(minsep.BandedToeplitz.optimal(iterations=20, bands=2), minsep.MinSep(0.05, 4))


@pytest.fixture(scope="module")
def mechanism() -> minsep.Mechanism:
    strategy = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=1.0)


def test_certificates_pass_below_half_of_delta_and_are_refused_above(mechanism: minsep.Mechanism) -> None:
    truth = minsep.estimate_delta(mechanism, 1.0, 200_000, method="tilted")
    # Three standard errors of the fixed test's average are a tenth of delta/2 or less here.
    passed = paper.certify(mechanism, 1.0, 2.4 * truth.value, seed=0)
    refused = paper.certify(mechanism, 1.0, 1.6 * truth.value, seed=0)
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
    certificate = paper.certify(truncated, 2.0, 1e-2, seed=1)
    assert certificate.passed
    assert certificate.proofs[0].claim.truncation_terms == 0
    assert minsep.verify(certificate).holds


def test_an_exact_curve_needs_no_samples() -> None:
    identity = minsep.BandedToeplitz.identity(iterations=20)
    certificate = paper.certify(minsep.Mechanism(identity, minsep.Poisson(0.05), 1.0), 2.0, 1e-3)
    assert certificate.passed
    assert certificate.samples == 0
    design = minsep.Design(identity, minsep.Poisson(0.05))
    assert paper.calibrate(design, 2.0, 1e-3, seed=0) == minsep.calibrate(design, epsilon=2.0, delta=1e-3, seed=0)


def test_a_level_beyond_the_chernoff_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="delta is 0.9, but it must be a finite number above 0 and below 0.5"):
        paper.certify(SMALL.with_noise(1.0), 0.5, 0.9, seed=0)
    refused = Prover(0.5, fixed_sample_verifier(0.9)).prove(SMALL.with_noise(1.0), "remove", 0)
    assert not refused.passed
    assert "a fixed number of samples shows no level of 0.5 or more" in refused.summary()


def test_attempts_share_the_chance_of_an_error() -> None:
    certificate = paper.certify(SMALL.with_noise(1.0), 2.0, 5e-2, attempts=3, seed=0)
    assert certificate.attempts == 3
    assert certificate.samples > paper.certify(SMALL.with_noise(1.0), 2.0, 5e-2, seed=0).samples
    assert minsep.verify(certificate, reproduce=True).holds
    with pytest.raises(ValueError, match="attempts is 0, but it must be an integer of at least 1"):
        paper.certify(SMALL.with_noise(1.0), 2.0, 5e-2, attempts=0)


def test_algorithm_5_goes_down_a_ladder_of_powers_to_the_first_that_is_rejected() -> None:
    found = paper.calibrate(SMALL, 2.0, 5e-2, seed=0)
    safe, *tested = found.rungs
    assert [rung.passed for rung in tested] == [True] * (len(tested) - 1) + [False]
    assert safe.noise_multiplier > tested[0].noise_multiplier
    for above, below in pairwise(tested):
        assert above.noise_multiplier == pytest.approx(1.01 * below.noise_multiplier, rel=1e-5)
    assert found.mechanism.noise_multiplier == tested[-2].noise_multiplier
    assert found.certificate.mechanism == found.mechanism
    assert found.certificate.test == "fixed"
    assert found.certificate.attempts == verifier._RUNGS
    assert minsep.verify(found.certificate, reproduce=True).holds


def test_if_the_top_rung_is_rejected_the_answer_has_an_exact_proof_at_the_level_of_all_rungs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = verifier.certify_by

    def refusing(prover, mechanism, *arguments):
        certificate = real(prover, mechanism, *arguments)
        if exact_curve(mechanism) is not None:
            return certificate
        return replace(certificate, proofs=tuple(Refusal(proof.claim, "refused") for proof in certificate.proofs))

    monkeypatch.setattr(verifier, "certify_by", refusing)
    found = paper.calibrate(SMALL, 2.0, 5e-2, seed=0)
    assert [rung.passed for rung in found.rungs] == [True, False]
    assert isinstance(found.mechanism.scheme, minsep.CyclicPoisson)
    assert found.certificate.passed
    assert "was not verified below noise multiplier" in found.fallback
    tested = found.certificate.tested
    level = fixed_sample_verifier(tested.delta, verifier._RUNGS).level
    curve = exact_curve(found.mechanism)
    assert max(float(curve.delta(tested.epsilon, direction)) for direction in ("remove", "add")) <= level


def test_a_journal_goes_on(tmp_path) -> None:
    path = tmp_path / "a.journal"
    first, second = (paper.calibrate(SMALL, 2.0, 5e-2, journal=path) for _ in range(2))
    assert first.certificate.to_json() == second.certificate.to_json()
    assert first == second
