import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from scipy import stats

import minsep
from minsep.accounting.certification.proofs import BettingOutcome, SampledProof, odds
from minsep.accounting.certification.prover import Prover
from minsep.accounting.sequential import BettingVerifier
from minsep.randomness import Key
from tests.oracles.participation import participation_law
from tests.oracles.quadrature import delta as exact_delta

FALSE_ALARM = 1e-7


def mechanism(sigma, scheme=None, bands=4, iterations=100, truncation=None):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, scheme or minsep.MinSep(rate=0.02, min_sep=10), sigma, truncation)


def test_a_private_mechanism_passes_and_verifies(tmp_path):
    certificate = minsep.certify(mechanism(0.9), epsilon=2.0, delta=1e-3)
    assert certificate.passed
    assert certificate.samples > 0
    certificate.save(tmp_path / "certificate.json")
    loaded = minsep.Certificate.load(tmp_path / "certificate.json")
    assert loaded == certificate
    result = minsep.verify(loaded)
    assert result.holds
    assert "(2, 0.001)-DP" in result.reason


def test_a_mechanism_that_is_not_private_is_refused():
    certificate = minsep.certify(mechanism(0.6), epsilon=2.0, delta=1e-3, seed=0)
    assert not certificate.passed
    assert "Not certified" in certificate.statement
    assert not minsep.verify(certificate).holds


def test_files_that_are_not_certificates_are_refused():
    text = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3).to_json()
    content = json.loads(text)
    for changed, message in [
        ("{}", "not a certificate"),
        ("no json", "not a certificate"),
        (json.dumps(content | {"format": 7}), "format 7, but .* reads format 3: use a version that reads it"),
        (json.dumps(content | {"format": 1}), "format 1, but .* reads format 3: certify the mechanism again"),
        (json.dumps(content | {"extra": 1}), "the file was changed"),
        (json.dumps(content | {"passed": False}), "the file was changed"),
        (json.dumps({key: value for key, value in content.items() if key != "seed"}), "the file was changed"),
    ]:
        with pytest.raises(ValueError, match=message):
            minsep.Certificate.from_json(changed)


def test_the_number_of_examples_is_recorded_where_it_is_known(tmp_path):
    sampled = minsep.certify(mechanism(0.9), 2.0, 1e-3, seed=3, num_examples=500)
    assert sampled.samples > 0
    assert json.loads(sampled.to_json())["num_examples"] == 500
    assert minsep.Certificate.from_json(sampled.to_json()) == sampled
    assert minsep.verify(sampled, reproduce=True).holds
    unknown = minsep.certify(mechanism(0.9), 2.0, 1e-3, seed=3)
    assert unknown.num_examples is None
    assert "num_examples" not in json.loads(unknown.to_json())
    assert unknown != sampled
    assert replace(unknown, num_examples=500) == sampled  # nothing else depends on it
    truncation = minsep.Truncation(batch_size=40, num_examples=500)
    design = minsep.Design(minsep.BandedToeplitz.identity(iterations=5), minsep.Poisson(rate=0.02), truncation)
    assert minsep.calibrate(design, epsilon=2.0, delta=1e-3).certificate.num_examples == 500
    with pytest.raises(ValueError, match="num_examples is 400, but the truncation is for 500"):
        minsep.calibrate(design, epsilon=2.0, delta=1e-3, num_examples=400)


@pytest.mark.parametrize("number", [0, -5, 1.5, True, "500"])
def test_a_number_of_examples_that_cannot_be_is_refused(number):
    content = json.loads(minsep.certify(mechanism(4.0), 2.0, 1e-3, seed=3).to_json())
    with pytest.raises(ValueError, match=r"the file was changed .*num_examples"):
        minsep.Certificate.from_json(json.dumps(content | {"num_examples": number}))


def test_exact_mechanisms_need_no_samples():
    identity = minsep.BandedToeplitz.identity(iterations=100)
    certificate = minsep.certify(minsep.Mechanism(identity, minsep.Poisson(0.02), 1.0), 2.0, 1e-3)
    assert certificate.passed
    assert certificate.samples == 0
    assert certificate.failure_probability == 0.0
    assert minsep.verify(certificate).holds


def test_the_result_does_not_depend_on_who_works():
    one = minsep.certify(mechanism(1.1), 2.0, 1e-3, seed=5, compute=minsep.Compute(workers=1))
    with ThreadPoolExecutor(3) as executor:
        assert minsep.certify(mechanism(1.1), 2.0, 1e-3, seed=5, compute=minsep.Compute(executor=executor)) == one


ONE = minsep.Compute(workers=1)
SMALL = [
    (minsep.MinSep(rate=0.3, min_sep=2), 2),
    (minsep.MinSep(rate=0.3, min_sep=2, start="cold"), 2),
    (minsep.BallsInBins(epoch=2), 2),
    (minsep.MinSep(rate=0.4, min_sep=1), 1),
    pytest.param(minsep.Poisson(rate=0.4), 1, marks=pytest.mark.slow),  # the same law
    (minsep.CyclicPoisson(rate=0.3, cycle=2), 2),
]


@pytest.mark.parametrize(("scheme", "bands"), SMALL, ids=repr)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("tests", [50, pytest.param(2000, marks=pytest.mark.slow)])
def test_soundness(scheme, bands, direction, tests):
    """A mechanism whose true delta is just above the level passes no more often than q allows."""
    n, sigma, epsilon, q = 2, 0.9, 0.4, 0.05
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.6][:bands], iterations=n)
    mech = minsep.Mechanism(strategy, scheme, sigma)
    true = exact_delta(participation_law(scheme, n), strategy.dense(), sigma, epsilon, direction)
    level = 0.99 * true
    accepted = 0
    for seed in range(tests):
        prover = Prover(epsilon, BettingVerifier(level, q, 1, 4000), compute=ONE)
        accepted += prover.prove(mech, direction, seed).passed
    assert stats.binomtest(accepted, tests, q, alternative="greater").pvalue > FALSE_ALARM
    generous = Prover(epsilon, BettingVerifier(1.5 * true, q, 1, 100_000), compute=ONE)
    assert generous.prove(mech, direction, 0).passed


def test_a_truncated_mechanism_is_certified():
    truncation = minsep.Truncation(batch_size=60, num_examples=1000)
    certificate = minsep.certify(mechanism(1.2, truncation=truncation), 2.0, 1e-3, seed=1)
    assert certificate.passed
    assert certificate.proofs[0].claim.truncation_terms > 0
    assert minsep.verify(certificate).holds


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0, "delta": 1e-3}, "epsilon is 0.0"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta is 0.0"),
        ({"epsilon": 1.0, "delta": 1e-3, "failure_probability": 0.1}, "failure_probability is 0.1, .* below delta"),
        ({"epsilon": 1.0, "delta": 1e-3, "max_samples": 0}, "max_samples is 0"),
        ({"epsilon": 1.0, "delta": 1e-3, "seed": -1}, "seed is -1"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        minsep.certify(mechanism(1.0), **arguments)


def test_fresh_entropy_is_recorded():
    one, two = (minsep.certify(mechanism(2.0), 2.0, 1e-3) for _ in range(2))
    assert one.seed != two.seed
    assert Key.from_seed(one.seed)


@pytest.mark.parametrize("sigma", [0.02, 1e-5])
def test_hardly_any_noise_is_never_certified(sigma):
    strategy = minsep.BandedToeplitz.optimal(iterations=40, bands=2)
    mech = minsep.Mechanism(strategy, minsep.MinSep(rate=0.35, min_sep=2), sigma)
    for epsilon in (2.0, 30.0):
        assert not minsep.certify(mech, epsilon=epsilon, delta=1e-3, seed=1, max_samples=20_000).passed
    with pytest.raises(ValueError, match="noise_multiplier is 1e-154, but it must be"):
        minsep.certify(mech.with_noise_multiplier(1e-154), epsilon=30.0, delta=1e-3)


NOT_NUMBERS = [math.nan, math.inf, -math.inf, "many", None, [], 10**400]


@pytest.mark.parametrize("field", ["epsilon", "delta", "failure_probability", "level", "attempts"])
def test_verify_answers_whatever_a_field_holds(field):
    certificate = minsep.certify(mechanism(0.9), epsilon=2.0, delta=1e-3, seed=3)
    for value in NOT_NUMBERS:
        result = minsep.verify(replace(certificate, **{field: value}))
        assert not result.holds
        assert result.reason


@pytest.mark.parametrize("field", ["noise_multiplier", "bound", "log_constant", "seed", "law", "outcome", "claim"])
def test_verify_answers_whatever_a_proof_holds(field):
    certificate = minsep.certify(mechanism(0.9), epsilon=2.0, delta=1e-3, seed=3)
    remove, add = certificate.proofs
    assert isinstance(remove, SampledProof)
    for value in NOT_NUMBERS:
        assert not minsep.verify(replace(certificate, proofs=(replace(remove, **{field: value}), add))).holds
    for outcome in ({"samples": 0}, {"samples": 10**30}, {"log_wealth": math.nan}, {"log_wealth": "much"}):
        changed = replace(remove, outcome=replace(remove.outcome, **outcome))
        assert not minsep.verify(replace(certificate, proofs=(changed, add))).holds


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "b-min-sep"},
        {"description": {"scheme": "min-sep"}},
        {"proofs": ()},
        {"assumptions": None},
        {"unit": "user"},
        {"adjacency": "replace-one"},
    ],
)
def test_verify_answers_whatever_the_parts_are(changes):
    certificate = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3)
    assert not minsep.verify(replace(certificate, **changes)).holds
    scheme = {**certificate.description, "scheme": "min-sep"}
    assert not minsep.verify(replace(certificate, description=scheme)).holds


def test_every_proof_says_in_words_what_it_shows():
    mech = mechanism(0.85, iterations=60)
    remove, add = minsep.certify(mech, epsilon=2.0, delta=1e-3, seed=1).proofs
    assert isinstance(remove.outcome, BettingOutcome)
    needed = odds(-math.log(remove.false_pass_probability))
    assert f"{remove.samples:,} samples of a tilted law" in remove.summary()
    assert f": evidence {odds(remove.outcome.log_wealth)} to 1 that delta <= " in remove.summary()
    assert f"({needed} required)" in remove.summary()
    assert 100_000 <= int(needed.replace(",", "")) < 100_100
    assert add.summary() == "delta is 0: e^-epsilon is at most the probability of never taking part"


def test_a_hopeless_test_ends():
    strategy = minsep.BandedToeplitz.optimal(iterations=1000, bands=3)
    mech = minsep.Mechanism(strategy, minsep.BallsInBins(epoch=10), noise_multiplier=1.0)
    certificate = minsep.certify(mech, epsilon=1.0, delta=1e-8, seed=0)
    assert not certificate.passed
    assert certificate.samples < 1_000_000
    patient = minsep.certify(mech, epsilon=1.0, delta=1e-8, seed=0, max_samples=10**9)
    assert patient.samples < 1_000_000


def test_the_mechanism_is_built_once_and_recorded_as_its_description():
    certificate = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3)
    assert certificate.mechanism is certificate.mechanism == mechanism(1.2)
    content = json.loads(certificate.to_json())
    assert list(content)[3] == "mechanism"
    assert content["mechanism"] == certificate.description == mechanism(1.2).describe()
    for changed in (content | {"description": content["mechanism"]}, renamed(content, "mechanism", "description")):
        with pytest.raises(ValueError, match="the file was changed"):
            minsep.Certificate.from_json(json.dumps(changed))


def renamed(content, name, other):
    return {other if key == name else key: value for key, value in content.items()}
