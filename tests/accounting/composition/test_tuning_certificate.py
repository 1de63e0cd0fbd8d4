"""The certificate of a tuning: what it proves, what it refuses, and how it composes."""

import json

import pytest
from dp_accounting import GaussianDpEvent

import minsep
from minsep.accounting import NegativeBinomial, PoissonTrials, read_certificate

IDENTITY = minsep.BandedToeplitz.identity(iterations=50)


def certified(sigma, **more):
    mechanism = minsep.Mechanism(IDENTITY, minsep.Poisson(rate=0.05), sigma)
    return minsep.certify(mechanism, 3.0, 1e-4, **more)


QUIET, LOUD = certified(3.0), certified(1.5)
WHOLE = minsep.TuningCertificate.of([QUIET, LOUD, QUIET], trials=10, law="logarithmic", delta=1e-5)


def test_it_is_the_same_after_a_file(tmp_path):
    path = tmp_path / "tuning.json"
    WHOLE.save(path)
    again = minsep.TuningCertificate.load(path)
    assert again == WHOLE
    assert read_certificate(path) == WHOLE
    assert again.verify().holds
    QUIET.save(tmp_path / "run.json")
    assert read_certificate(tmp_path / "run.json") == QUIET


def test_its_epsilon_follows_from_the_mean_curve():
    mean = minsep.accounting.mean_curve([(QUIET.curve, 2.0), (LOUD.curve, 1.0)])
    needed = mean.tuned(NegativeBinomial(10.0, 0.0)).epsilon(1e-5)
    assert needed <= WHOLE.epsilon <= needed * 1.0002
    assert WHOLE.weights == (2.0, 1.0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plain: plain.update(epsilon=1.0), "but the curves prove"),
        (lambda plain: plain["trials"].update(mean=20.0), "but the curves prove"),
        (lambda plain: plain.update(weights=[1.0, 20.0]), "but the curves prove"),
        (lambda plain: plain.update(delta=1e-7), "but the curves prove"),
        (lambda plain: plain["certificates"][0]["mechanism"].update(noise_multiplier=0.5), "does not hold"),
    ],
)
def test_a_forged_tuning_does_not_hold(change, reason):
    plain = json.loads(WHOLE.to_json())
    change(plain)
    result = minsep.TuningCertificate.from_json(json.dumps(plain)).verify()
    assert not result.holds
    assert reason in result.reason


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda plain: plain.update(tuning=2), "has format 2, but this version"),
        (lambda plain: plain.pop("tuning"), "does not say so"),
        (lambda plain: plain.pop("trials"), "does not hold: 'trials'"),
        (lambda plain: plain["trials"].update(kind="cauchy"), "it must be one of 'negative-binomial'"),
        (lambda plain: plain.update(weights=[1.0]), "weights has 1 numbers for 2 certificates"),
        (lambda plain: plain.update(weights=[1.0, -1.0]), "weight is -1.0"),
        (lambda plain: plain.update(epsilon="4"), "epsilon is '4'"),
        (lambda plain: plain.update(certificates=[]), "does not hold"),
    ],
)
def test_a_file_that_makes_no_sense_is_one_sentence(change, sentence):
    plain = json.loads(WHOLE.to_json())
    change(plain)
    with pytest.raises(ValueError, match=sentence):
        minsep.TuningCertificate.from_json(json.dumps(plain))


def test_configurations_must_be_about_the_same_examples():
    with pytest.raises(ValueError, match="for 10 and 20 examples"):
        minsep.TuningCertificate.of([certified(3.0, num_examples=10), certified(1.5, num_examples=20)])
    with pytest.raises(ValueError, match="did not pass"):
        minsep.TuningCertificate.of([certified(0.3)])
    with pytest.raises(ValueError, match="is not a list of"):
        minsep.TuningCertificate.of([])


def test_it_composes_with_other_runs():
    """Never below either, and never above the sum."""
    together = minsep.compose([WHOLE, QUIET, GaussianDpEvent(20.0)], delta=1e-4)
    alone = WHOLE.curve.epsilon(1e-4)
    assert alone < together.epsilon < alone + QUIET.curve.epsilon(1e-5) + 0.5
    assert together.unit == "example"
    assert len(together.certificates) == 2
    only = minsep.compose([WHOLE])
    assert only.epsilon == pytest.approx(WHOLE.epsilon, rel=1e-3)
    assert only.delta == WHOLE.delta


def test_no_trial_at_all_is_in_its_words():
    whole = minsep.TuningCertificate.of([QUIET], trials=PoissonTrials(3.0))
    assert "(Poisson)" in whole.statement
