import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import minsep
from minsep.accounting import calibration
from minsep.accounting.betting import Wealth
from minsep.accounting.certification import prove_add
from minsep.accounting.direction_tests import BettingTest, DirectionTest, upward_values
from minsep.accounting.exact import exact_curve
from minsep.accounting.pairs import MinSepPair
from minsep.accounting.rounding import rounding_of
from minsep.accounting.truncation import closed_form, participation_rates
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: replace(c, delta=c.delta / 2), "level|failure"),
        (lambda c: replace(c, epsilon=1.5), "does not hold"),
        (lambda c: replace(c, seed=c.seed + 1), "does not hold"),
        (
            lambda c: replace(c, mechanism={**c.mechanism, "noise_multiplier": 1.1}),
            "at no more than that of the mechanism",
        ),
        (lambda c: replace(c, mechanism={**c.mechanism, "scheme": {"kind": "magic"}}), "kind 'magic'"),
        (lambda c: replace(c, proofs=(replace(c.proofs[0], bound=c.proofs[0].bound / 2), c.proofs[1])), "bound is"),
        (lambda c: replace(c, proofs=(replace(c.proofs[0], samples=1), c.proofs[1])), "samples is 1"),
        (lambda c: replace(c, proofs=(replace(c.proofs[0], log_constant=0.0), c.proofs[1])), "log_constant is 0.0"),
        (lambda c: replace(c, versions={**c.versions, "minsep": "0.0.1"}), "made by minsep 0.0.1"),
    ],
)
def test_a_tampered_certificate_is_refused(change, reason):
    import re

    certificate = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3)
    result = minsep.verify(change(certificate))
    assert not result.holds
    assert re.search(reason, result.reason)


def test_files_that_are_not_certificates_are_refused():
    text = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3).to_json()
    content = json.loads(text)
    for changed, message in [
        ("{}", "not a certificate"),
        ("no json", "not a certificate"),
        (json.dumps(content | {"format": 7}), "format 7"),
        (json.dumps(content | {"passed": False}), "the file was changed"),
        (json.dumps({key: value for key, value in content.items() if key != "seed"}), "the file was changed"),
    ]:
        with pytest.raises(ValueError, match=message):
            minsep.Certificate.from_json(changed)


def test_exact_mechanisms_need_no_samples():
    identity = minsep.BandedToeplitz.identity(iterations=100)
    certificate = minsep.certify(minsep.Mechanism(identity, minsep.Poisson(0.02), 1.0), 2.0, 1e-3)
    assert certificate.passed
    assert certificate.samples == 0
    assert certificate.failure_probability == 0.0
    assert minsep.verify(certificate).holds


def test_the_result_does_not_depend_on_who_works():
    one = minsep.certify(mechanism(1.1), 2.0, 1e-3, seed=5, workers=1)
    with ThreadPoolExecutor(3) as executor:
        assert minsep.certify(mechanism(1.1), 2.0, 1e-3, seed=5, executor=executor) == one


def test_values_are_rounded_upward():
    ratios = np.array([-1.0, 0.9999999, 1.0, 1.5, 5.0])
    up = upward_values("remove", 2, ratios, np.zeros(5), 1.0, 1e-6)
    assert (up >= np.maximum(np.exp(ratios) - math.e, 0)).all()
    up = upward_values("add", 2, -ratios, np.zeros(5), 1.0, 1e-6)
    assert (up >= np.maximum(1 - np.exp(1.0 - ratios), 0)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1, 1.5])
def test_a_value_that_cannot_be_rejects_for_good(bad):
    wealth = Wealth.start(0.01, 1.0).after(np.zeros(5000))
    assert wealth.log_wealth > 20
    broken = wealth.after(np.array([bad])).after(np.zeros(5000))
    assert broken.log_wealth == -math.inf
    assert broken.broken


def test_wealth_is_a_supermartingale_at_the_level():
    """2,000 tests of values whose mean is the level: at most q of them ever reach 1/q."""
    q, level, tests = 0.05, 0.02, 2000
    generator = np.random.default_rng(0)
    accepted = 0
    for _ in range(tests):
        wealth, reached = Wealth.start(level, 1.0), False
        for _ in range(10):
            values = (generator.random(100) < 2 * level) * generator.random(100)
            wealth = wealth.after(values)
            reached |= wealth.log_wealth >= -math.log(q)
        accepted += reached
    assert stats.binomtest(accepted, tests, q, alternative="greater").pvalue > FALSE_ALARM


SMALL = [
    (minsep.MinSep(rate=0.3, min_sep=2), 2),
    (minsep.MinSep(rate=0.3, min_sep=2, start="cold"), 2),
    (minsep.BallsInBins(epoch=2), 2),
    (minsep.MinSep(rate=0.4, min_sep=1), 1),
    (minsep.Poisson(rate=0.4), 1),
    (minsep.CyclicPoisson(rate=0.3, cycle=2), 2),
]


@pytest.mark.parametrize(("scheme", "bands"), SMALL, ids=repr)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("tests", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_soundness(scheme, bands, direction, tests):
    """A mechanism whose true delta is just above the level passes no more often than q allows."""
    n, sigma, epsilon, q = 2, 0.9, 0.4, 0.05
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.6][:bands], iterations=n)
    mech = minsep.Mechanism(strategy, scheme, sigma)
    true = exact_delta(participation_law(scheme, n), strategy.dense(), sigma, epsilon, direction)
    level = 0.99 * true
    accepted = 0
    for seed in range(tests):
        test = DirectionTest(mech, epsilon, BettingTest(level, q, q, 4000), seed, 1 << 30, 1, None, None)
        accepted += test.prove(direction).passed
    assert stats.binomtest(accepted, tests, q, alternative="greater").pvalue > FALSE_ALARM
    generous = DirectionTest(mech, epsilon, BettingTest(1.5 * true, q, q, 100_000), 0, 1 << 30, 1, None, None)
    assert generous.prove(direction).passed


def test_truncation_in_closed_form_has_the_published_terms():
    scheme = minsep.MinSep(1793 / 14_745_600, 256)
    shifts = closed_form(scheme, 7200, minsep.Truncation(2048, 14_745_600), "remove", 10.0, 0.405)
    assert shifts[1].extra == pytest.approx(1.836e-9, rel=1e-3)
    assert shifts[2].extra == pytest.approx(1.795e-9, rel=1e-3)
    (free,) = closed_form(scheme, 7200, minsep.Truncation(2048, 14_745_600), "add", 10.0, 0.405)
    assert free.free
    assert free.extra == pytest.approx(1.794e-9, rel=1e-3)


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_truncation_in_closed_form_is_above_the_recursions(start):
    """The closed form bounds what the paper's recursions give, both directions."""
    scheme = minsep.MinSep(rate=0.05, min_sep=4, start=start)
    truncation = minsep.Truncation(batch_size=9, num_examples=80)
    strategy = minsep.BandedToeplitz.optimal(iterations=12, bands=3)
    cut = minsep.Mechanism(strategy, scheme, 1.0, truncation)
    whole = minsep.Mechanism(strategy, scheme, 1.0)
    estimate = minsep.estimate_delta(cut, 1.0, samples=100_000, method="plain")
    never = participation_law(scheme, 12)[(0,) * 12]
    for direction in ("remove", "add"):
        bounds = []
        for shift in closed_form(scheme, 12, truncation, direction, 1.0, never):
            without = 0.0 if shift.free else getattr(minsep.estimate_delta(whole, shift.epsilon), direction)
            bounds.append(shift.factor * without + shift.extra)
        slack = stats.norm.isf(FALSE_ALARM) * math.sqrt(getattr(estimate, direction) / 100_000 + 1e-9)
        assert not bounds or getattr(estimate, direction) <= min(bounds) * 1.05 + slack


@pytest.mark.parametrize("min_sep", [1, 3, 5])
def test_participation_rates_of_a_cold_start(min_sep):
    scheme = minsep.MinSep(rate=0.15, min_sep=min_sep, start="cold")
    law = participation_law(scheme, 9)
    expected = np.array(list(law.values())) @ np.array(list(law))
    np.testing.assert_allclose(participation_rates(scheme, 9), expected, rtol=1e-12)


def test_a_truncated_mechanism_is_certified():
    truncation = minsep.Truncation(batch_size=60, num_examples=1000)
    certificate = minsep.certify(mechanism(1.2, truncation=truncation), 2.0, 1e-3, seed=1)
    assert certificate.passed
    assert certificate.proofs[0].truncation_terms > 0
    assert minsep.verify(certificate).holds


@pytest.mark.parametrize(
    "scheme",
    [minsep.MinSep(0.02, 10), minsep.MinSep(0.02, 10, "cold"), minsep.BallsInBins(50), minsep.Poisson(0.02)],
    ids=repr,
)
def test_calibration_is_certified_and_near_the_estimate(scheme):
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=min(4, scheme.min_sep))
    found = minsep.calibrate(strategy, scheme, epsilon=2.0, delta=1e-3, seed=0)
    assert found.certificate.passed
    assert found.certificate.mechanism == found.mechanism.describe()
    estimate = minsep.estimate_delta(found.mechanism, 2.0, samples=50_000)
    assert estimate.value <= 1e-3
    lower = found.mechanism.with_noise_multiplier(found.mechanism.noise_multiplier / 1.03)
    assert minsep.estimate_delta(lower, 2.0, samples=50_000).value > 1e-3 * 0.9
    assert minsep.verify(found.certificate).holds


def test_calibration_always_has_an_answer(monkeypatch):
    """If every test refuses, the rung with a deterministic proof is left."""
    import minsep.accounting.calibration as calibration

    real = calibration.certify

    def refusing(mech, *arguments, **options):
        certificate = real(mech, *arguments, **options)
        if isinstance(mech.scheme, minsep.MinSep):
            refused = replace(certificate.proofs[0], passed=False, reason="refused")
            return replace(certificate, proofs=(refused, certificate.proofs[1]))
        return certificate

    monkeypatch.setattr(calibration, "certify", refusing)
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    found = minsep.calibrate(strategy, minsep.MinSep(0.02, 10), epsilon=2.0, delta=1e-3, seed=0)
    assert found.certificate.passed
    assert isinstance(found.mechanism.scheme, minsep.CyclicPoisson)
    assert not found.rungs[-1].passed


def test_progress_is_reported():
    seen = []
    strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    minsep.calibrate(
        strategy, minsep.MinSep(0.02, 10), 2.0, 1e-3, seed=0, progress=lambda sigma, state: seen.append((sigma, state))
    )
    assert any(state is None for _, state in seen)
    assert any(state is not None and state.samples > 0 for _, state in seen)


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


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_known_never_counts_as_no_loss(direction, bad):
    fine = np.zeros(3)
    spoilt = np.array([0.0, bad, 0.0])
    assert np.isnan(upward_values(direction, 2, spoilt, fine, 0.5, 1e-6)[1])
    far = fine + 9 if direction == "remove" else fine - 9
    assert not np.isfinite(upward_values(direction, 2, far, spoilt, 0.5, 1e-6)[1])


@pytest.mark.parametrize("sigma", [0.02, 1e-5])
def test_hardly_any_noise_is_never_certified(sigma):
    strategy = minsep.BandedToeplitz.optimal(iterations=40, bands=2)
    mech = minsep.Mechanism(strategy, minsep.MinSep(rate=0.35, min_sep=2), sigma)
    for epsilon in (2.0, 60.0):
        assert not minsep.certify(mech, epsilon=epsilon, delta=1e-3, seed=1, max_samples=20_000).passed
    with pytest.raises(ValueError, match="noise_multiplier is 1e-154, but it must be"):
        minsep.certify(mech.with_noise_multiplier(1e-154), epsilon=60.0, delta=1e-3)


def test_a_proof_of_add_must_be_of_the_same_mechanism_budget_and_test():
    mech = mechanism(0.9)
    proof = prove_add(mech.with_noise_multiplier(0.85), 2.0, 1e-3, seed=1)
    certificate = minsep.certify(mech, 2.0, 1e-3, seed=2, add_proof=proof)
    assert certificate.passed
    assert minsep.verify(certificate).holds
    others = [
        prove_add(mech.with_noise_multiplier(0.95), 2.0, 1e-3, seed=1),
        prove_add(mech.with_noise_multiplier(0.85), 2.5, 1e-3, seed=1),
        prove_add(mech.with_noise_multiplier(0.85), 2.0, 1e-3, seed=1, failure_probability=1e-4),
        prove_add(minsep.Mechanism(mech.strategy, minsep.MinSep(0.001, 10), 0.85), 2.0, 1e-3, seed=1),
        certificate.proofs[0],
    ]
    for other in others:
        with pytest.raises(ValueError, match="add_proof is of"):
            minsep.certify(mech, 2.0, 1e-3, seed=2, add_proof=other)


def test_what_is_run_when_all_tests_reject_keeps_their_level(monkeypatch):
    """Whatever is chosen, the whole is within delta only if the fallback leaves room for a wrong certificate."""
    real = calibration.certify

    def rejecting(mech, *arguments, **options):
        found = real(mech, *arguments, **options)
        if not isinstance(mech.scheme, minsep.MinSep):
            return found
        return replace(found, proofs=tuple(replace(proof, passed=False) for proof in found.proofs))

    monkeypatch.setattr(calibration, "certify", rejecting)
    strategy = minsep.BandedToeplitz.optimal(iterations=50, bands=2)
    found = minsep.calibrate(strategy, minsep.MinSep(0.02, 10), 2.0, 1e-3, seed=0, failure_probability=5e-4)
    curve = exact_curve(found.mechanism)
    assert isinstance(found.mechanism.scheme, minsep.CyclicPoisson)
    assert found.certificate.passed
    level = (1e-3 - 5e-4) / (1 - 5e-4)
    assert max(float(curve.delta(2.0, direction)) for direction in ("remove", "add")) <= level


NOT_NUMBERS = [math.nan, math.inf, -math.inf, "many", None, [], 10**400]


@pytest.mark.parametrize("field", ["epsilon", "delta", "failure_probability", "level", "seed", "attempts", "memory"])
def test_verify_answers_whatever_a_field_holds(field):
    certificate = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3)
    for value in NOT_NUMBERS:
        result = minsep.verify(replace(certificate, **{field: value}))
        assert not result.holds
        assert result.reason


@pytest.mark.parametrize("field", ["noise_multiplier", "epsilon", "level", "bound", "samples", "log_wealth", "scale"])
def test_verify_answers_whatever_a_proof_holds(field):
    certificate = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3)
    for value in NOT_NUMBERS:
        for place in (0, 1):
            proofs = list(certificate.proofs)
            proofs[place] = replace(proofs[place], **{field: value})
            assert not minsep.verify(replace(certificate, proofs=tuple(proofs))).holds


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": "0.1.0"},
        {"versions": None},
        {"mechanism": "b-min-sep"},
        {"mechanism": {"scheme": "min-sep"}},
        {"proofs": ()},
    ],
)
def test_verify_answers_whatever_the_parts_are(changes):
    certificate = minsep.certify(mechanism(1.2), epsilon=2.0, delta=1e-3, seed=3)
    assert not minsep.verify(replace(certificate, **changes)).holds
    scheme = {**certificate.mechanism, "scheme": "min-sep"}
    assert not minsep.verify(replace(certificate, mechanism=scheme)).holds
    text = json.dumps({**json.loads(certificate.to_json()), "mechanism": scheme})
    with pytest.raises(ValueError, match="the file was changed"):
        minsep.Certificate.from_json(text)


def test_a_hopeless_test_ends():
    strategy = minsep.BandedToeplitz.optimal(iterations=1000, bands=3)
    mech = minsep.Mechanism(strategy, minsep.BallsInBins(epoch=10), noise_multiplier=1.0)
    certificate = minsep.certify(mech, epsilon=1.0, delta=1e-8, seed=0)
    assert not certificate.passed
    assert certificate.samples < 1_000_000
    patient = minsep.certify(mech, epsilon=1.0, delta=1e-8, seed=0, max_samples=10**9)
    assert patient.samples < 1_000_000


def test_tests_of_a_cut_ladder_share_the_chance_of_a_whole_one(monkeypatch):
    """What is run when all tests reject keeps the level of as many tests as there can be."""
    monkeypatch.setattr(calibration, "estimated_noise_multiplier", lambda *arguments, **options: 1e3)
    plans = []
    real = calibration.certify

    def noting(*given, **options):
        plans.append(options.get("attempts"))
        return real(*given, **options)

    monkeypatch.setattr(calibration, "certify", noting)
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
    found = minsep.calibrate(strategy, minsep.MinSep(0.05, 4), 2.0, 0.05, test="fixed", seed=0)
    assert len(found.rungs) == 2
    assert plans[0] == len(calibration._RUNGS) + 1
    level = calibration.level_of_tests(0.05, "fixed")
    assert found.certificate.level <= level
    assert found.certificate.level + found.certificate.failure_probability * (1 - found.certificate.level) <= 0.05


def test_the_allowance_for_rounding_grows_with_what_it_must_cover():
    """ln R beside 60 digits, at noise so small that double precision loses its digits."""
    import mpmath

    mpmath.mp.dps = 60
    strategy = minsep.BandedToeplitz.optimal(iterations=12, bands=3)
    for sigma in (1e-5, 1e-3, 0.1, 1.0):
        pair = MinSepPair(strategy, sigma, prob=0.1, min_sep=3)
        samples = strategy.dense() @ np.tile([1.0, 0.0, 0.0], 4) + sigma * np.random.default_rng(0).normal(size=(8, 12))
        columns = [[mpmath.mpf(float(value)) for value in column] for column in strategy.dense().T]
        worst = 0.0
        for sample, found in zip(samples, pair.log_ratios(samples), strict=True):
            f = [mpmath.mpf(1)] * 16
            for i in range(11, -1, -1):
                score = sum(c * mpmath.mpf(float(y)) for c, y in zip(columns[i], sample, strict=True))
                norm = sum(c * c for c in columns[i])
                gain = (score - norm / 2) / mpmath.mpf(sigma) ** 2
                f[i] = mpmath.mpf("0.9") * f[i + 1] + mpmath.mpf("0.1") * mpmath.exp(gain) * f[i + 3]
            worst = max(worst, abs(float(mpmath.log(f[0]) - mpmath.mpf(float(found)))))
        assert worst <= rounding_of(pair)
    assert rounding_of(MinSepPair(strategy, 1e-5, prob=0.1, min_sep=3)) > 1e-6
