from dataclasses import replace

import pytest

import minsep
from minsep.accounting.certification import calibration
from minsep.accounting.certification.proofs import Refusal, SampledProof
from minsep.accounting.schemes import exact_curve
from minsep.accounting.sequential import betting_verifier


def refusing(certify_by):
    """Refuse whatever is tested, but not what is computed exactly in its place."""

    def refuse(prover, mechanism, *arguments):
        certificate = certify_by(prover, mechanism, *arguments)
        if exact_curve(mechanism) is not None:
            return certificate
        return replace(certificate, proofs=tuple(Refusal(proof.claim, "refused") for proof in certificate.proofs))

    return refuse


@pytest.mark.parametrize(
    "scheme",
    [
        minsep.MinSep(0.02, 10),
        pytest.param(minsep.MinSep(0.02, 10, "cold"), marks=pytest.mark.slow),
        pytest.param(minsep.BallsInBins(50), marks=pytest.mark.slow),
        minsep.RandomAllocation(40),
        minsep.Poisson(0.02),
    ],
    ids=repr,
)
def test_calibration_is_certified_and_near_the_estimate(scheme):
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=min(4, scheme.min_sep))
    found = minsep.calibrate(strategy, scheme, epsilon=2.0, delta=1e-3, seed=0)
    assert found.certificate.passed
    assert found.certificate.description == found.mechanism.describe()
    estimate = minsep.estimate_delta(found.mechanism, 2.0, samples=50_000)
    assert estimate.value <= 1e-3
    lower = found.mechanism.with_noise_multiplier(found.mechanism.noise_multiplier / 1.03)
    assert minsep.estimate_delta(lower, 2.0, samples=50_000).value > 1e-3 * 0.9
    assert minsep.verify(found.certificate).holds


def test_calibration_always_has_an_answer(monkeypatch):
    """If every test refuses, the rung with a deterministic proof is left."""
    monkeypatch.setattr(calibration, "certify_by", refusing(calibration.certify_by))
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    found = minsep.calibrate(strategy, minsep.MinSep(0.02, 10), epsilon=2.0, delta=1e-3, seed=0)
    assert found.certificate.passed
    assert isinstance(found.mechanism.scheme, minsep.CyclicPoisson)
    assert not found.rungs[-1].passed


def test_random_allocation_falls_back_to_poisson_sampling(monkeypatch):
    monkeypatch.setattr(calibration, "certify_by", refusing(calibration.certify_by))
    identity = minsep.BandedToeplitz.identity(iterations=60)
    found = minsep.calibrate(identity, minsep.RandomAllocation(20), epsilon=2.0, delta=1e-3, seed=0)
    assert found.certificate.passed
    assert found.mechanism.scheme == minsep.Poisson(1 / 20)
    assert "DP-SGD, random allocation was not certified" in found.fallback


def test_progress_is_reported():
    seen = []
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    minsep.calibrate(strategy, minsep.MinSep(0.02, 10), 2.0, 1e-3, seed=0, progress=seen.append)
    assert list(dict.fromkeys(event.stage for event in seen)) == ["estimating", "testing"]
    assert all(event.total is not None and event.samples > 0 for event in seen if event.stage == "testing")


def test_a_design_is_calibrated_like_its_parts():
    strategy = minsep.BandedToeplitz.optimal(iterations=50, bands=2)
    scheme = minsep.MinSep(0.02, 10)
    by_parts = minsep.calibrate(strategy, scheme, epsilon=2.0, delta=1e-3, seed=0)
    by_design = minsep.calibrate(minsep.Design(strategy, scheme), epsilon=2.0, delta=1e-3, seed=0)
    assert by_parts == by_design
    with pytest.raises(ValueError, match="scheme is None, but a strategy needs one"):
        minsep.calibrate(strategy, epsilon=2.0, delta=1e-3)
    with pytest.raises(ValueError, match="scheme is MinSep.*, but the design has its own"):
        minsep.calibrate(minsep.Design(strategy, scheme), scheme, 2.0, 1e-3)
    with pytest.raises(ValueError, match="epsilon is None, but it must be a finite number above 0"):
        minsep.calibrate(strategy, scheme, delta=1e-3)


def test_what_is_run_when_all_tests_reject_keeps_their_level(monkeypatch):
    """Whatever is chosen, the whole is within delta only if the fallback leaves room for a wrong certificate."""
    monkeypatch.setattr(calibration, "certify_by", refusing(calibration.certify_by))
    strategy = minsep.BandedToeplitz.optimal(iterations=50, bands=2)
    found = minsep.calibrate(strategy, minsep.MinSep(0.02, 10), 2.0, 1e-3, seed=0, failure_probability=5e-4)
    curve = exact_curve(found.mechanism)
    assert isinstance(found.mechanism.scheme, minsep.CyclicPoisson)
    assert found.certificate.passed
    level = (found.certificate.tested.delta - 5e-4) / (1 - 5e-4)
    assert (
        max(float(curve.delta(found.certificate.tested.epsilon, direction)) for direction in ("remove", "add")) <= level
    )


def test_tests_of_a_cut_ladder_share_the_chance_of_a_whole_one(monkeypatch):
    """What is run when all tests reject keeps the level of as many tests as there can be."""
    monkeypatch.setattr(calibration, "estimated_noise_multiplier", lambda *arguments, **options: 1e3)
    attempts, chances = [], []
    real = calibration.certify_by

    def noting(prover, *arguments):
        certificate = real(prover, *arguments)
        attempts.append(prover.verifier.attempts)
        chances.extend(proof.false_pass_probability for proof in certificate.proofs if isinstance(proof, SampledProof))
        return certificate

    monkeypatch.setattr(calibration, "certify_by", noting)
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
    found = minsep.calibrate(strategy, minsep.MinSep(0.05, 4), 2.0, 0.05, seed=0)
    assert len(found.rungs) == 2
    assert attempts[0] == len(calibration._RUNGS) + 1
    assert chances
    assert max(chances) <= 0.05 / 100 / attempts[0] * (1 + 1e-9)
    assert found.certificate.level <= betting_verifier(0.05, attempts[0]).level
    assert found.certificate.level + found.certificate.failure_probability * (1 - found.certificate.level) <= 0.05


@pytest.mark.parametrize("memory", [0, -5, "x", 1e9])
def test_memory_is_checked(memory):
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
    with pytest.raises(ValueError, match="memory is .*, but it must be an integer of at least 1"):
        minsep.calibrate(strategy, minsep.MinSep(0.05, 4), 2.0, 1e-3, memory=memory)


@pytest.mark.parametrize(
    ("design", "epsilon", "delta"),
    [
        (minsep.Design(minsep.BandedToeplitz.identity(iterations=5), minsep.RandomAllocation(1)), 1.0, 1e-3),
        (minsep.Design(minsep.BandedToeplitz.identity(iterations=25), minsep.RandomAllocation(10)), 0.5, 0.499),
    ],
)
def test_a_ladder_above_the_fallback_ends_there(design, epsilon, delta):
    """Where the estimate is no better than the mechanism with an exact proof, that is the answer."""
    found = minsep.calibrate(design, epsilon=epsilon, delta=delta, seed=0)
    assert found.certificate.passed


def test_a_calibrated_certificate_is_reproduced():
    """The law is chosen at the rung itself, so that repeating the prover there finds the same one."""
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
    found = minsep.calibrate(strategy, minsep.BallsInBins(2), epsilon=1.0, delta=1e-3, seed=0)
    assert found.certificate.samples > 0
    assert minsep.verify(found.certificate, reproduce=True).holds


def test_calibrations_of_which_one_is_run_share_the_chance_of_an_error():
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
    alone, one_of_three = (
        minsep.calibrate(strategy, minsep.MinSep(0.05, 4), 2.0, 1e-3, attempts=attempts, seed=0) for attempts in (1, 3)
    )
    assert one_of_three.certificate.attempts == 3 * alone.certificate.attempts
    assert one_of_three.certificate.level == alone.certificate.level
    exact = minsep.BandedToeplitz.identity(iterations=20)
    found = minsep.calibrate(exact, minsep.Poisson(0.05), 2.0, 1e-3, attempts=3, seed=0)
    curve = exact_curve(found.mechanism)
    assert (
        max(float(curve.delta(found.certificate.tested.epsilon, direction)) for direction in ("remove", "add"))
        <= one_of_three.certificate.level
    )
