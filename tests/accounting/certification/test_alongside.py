"""Runs that are certified together with other mechanisms: against brute force, and against estimates."""

import json
import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

import minsep
from minsep.accounting import Certificate
from minsep.accounting.exact import PldCurve
from minsep.accounting.importance import best_law
from minsep.accounting.pairs import MinSepPair
from minsep.accounting.reduction import Alongside
from minsep.randomness import Key

STRATEGY = minsep.BandedToeplitz.optimal(iterations=60, bands=3)
SCHEME = minsep.MinSep(rate=0.03, min_sep=5)
MECHANISM = minsep.Mechanism(STRATEGY, SCHEME, noise_multiplier=1.2)
OTHERS = [GaussianDpEvent(4.0), LaplaceDpEvent(12.0)]

WIDTH = 0.1
masses = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=5).filter(lambda parts: sum(parts) > 0.1)
directions = st.sampled_from(["remove", "add"])


def normalised(parts):
    return np.array(parts) / math.fsum(parts)


def losses_on_a_grid(first, probabilities, infinite):
    pmf = pld_pmf.DensePLDPmf(WIDTH, first, probabilities * (1 - infinite), infinite, True)
    return PldCurve(pld.PrivacyLossDistribution(pmf))


@settings(max_examples=200, deadline=None)
@given(masses, masses, masses, st.integers(-6, 2), st.floats(0, 0.3), st.floats(-2, 3), directions)
def test_delta_of_both_is_the_mean_of_a_payoff(p, q, other, first, infinite, epsilon, direction):
    # One mechanism: densities p and q on a few points. The other one: losses on a grid, and an infinite one.
    size = min(len(p), len(q))
    p, q, other = normalised(p[:size]), normalised([value + 0.01 for value in q[:size]]), normalised(other)
    curve = losses_on_a_grid(first, other, infinite)
    ratios = p / q
    with np.errstate(divide="ignore"):
        losses = np.log(ratios) if direction == "remove" else -np.log(ratios)
    law = p if direction == "remove" else q
    grid = WIDTH * (first + np.arange(other.size))
    # By brute force: the sum of the two losses, the first under P for `remove` and under Q for `add`.
    total = losses[:, None] + grid
    chance = law[:, None] * other * (1 - infinite)
    beyond = np.where(total > epsilon, -np.expm1(np.minimum(epsilon - total, 0.0)), 0.0)
    truth = infinite + float((np.where(chance > 0, chance, 0.0) * np.where(np.isnan(beyond), 0.0, beyond)).sum())
    # By the identity.
    gaps = (
        epsilon - np.log(np.maximum(ratios, 1e-300))
        if direction == "remove"
        else epsilon + np.log(np.maximum(ratios, 1e-300))
    )
    weights = ratios if direction == "remove" else np.ones(size)
    paid = curve.infinite_delta(direction) + float((q * weights * curve.finite_delta(gaps, direction)).sum())
    assert truth - 1e-12 <= paid <= truth + 1e-9


@settings(max_examples=200, deadline=None)
@given(masses, st.integers(-6, 2), st.floats(0, 0.3), st.floats(0, 8), directions)
def test_the_peak_of_a_payoff_is_its_largest_value(other, first, infinite, order, direction):
    curve = losses_on_a_grid(first, normalised(other), infinite)
    epsilons = np.linspace(WIDTH * first - (12 if order < 1 else 3), WIDTH * (first + len(other)), 20_001)
    with np.errstate(divide="ignore"):
        seen = float((np.log(curve.finite_delta(epsilons, direction)) + order * epsilons).max())
    peak = curve.log_peak(order, direction)
    assert seen <= peak + 1e-12
    assert order == 0 or peak <= seen + 1e-3 or order < 0.5


@pytest.mark.parametrize(("direction", "epsilon"), [("remove", 0.5), ("remove", 2.0), ("add", 0.5), ("add", 1.5)])
def test_values_beside_others_never_exceed_their_bound_and_their_mean_is_delta(direction, epsilon):
    others = Alongside.of(OTHERS)
    pair = MinSepPair(STRATEGY, 1.2, prob=SCHEME.sampling_prob, min_sep=5, warm=True)
    law = best_law(pair, direction, epsilon, payoff=others.payoff(direction))
    values = np.concatenate([law.draw_values(Key.from_seed(3), k, epsilon) for k in range(30)])
    assert (values <= law.upward_bound(epsilon) * (1 + 1e-9)).all()
    mean = float(values.mean()) + others.payoff(direction).infinite
    error = float(values.std()) / math.sqrt(values.size)
    event = ComposedDpEvent(OTHERS)
    estimate = minsep.estimate_delta(MECHANISM, epsilon, samples=60_000, seed=8, compose_with=event)
    truth, stderr = getattr(estimate, direction), getattr(estimate, f"{direction}_stderr")
    # Six standard errors, and what rounding up may add: a false alarm of less than 1e-8.
    assert abs(mean - truth) <= 6 * math.hypot(error, stderr) + 2e-3 * truth


def test_a_certificate_is_of_both_together():
    estimate = minsep.estimate_epsilon(MECHANISM, 1e-3, compose_with=GaussianDpEvent(4.0))
    together = minsep.certify(MECHANISM, 1.04 * estimate.value, 1e-3, alongside=[GaussianDpEvent(4.0)], seed=1)
    assert together.passed
    assert "together with GaussianDpEvent(noise_multiplier=4.0)" in together.statement
    assert minsep.verify(together, reproduce=True).holds
    assert Certificate.from_json(together.to_json()) == together
    refused = minsep.certify(MECHANISM, 0.97 * estimate.value, 1e-3, alongside=[GaussianDpEvent(4.0)], seed=1)
    assert not refused.passed
    alone = minsep.certify(MECHANISM, together.epsilon, 1e-3, curve=True, seed=2)
    composed = minsep.compose([alone, GaussianDpEvent(4.0)], delta=1e-3)
    assert estimate.value - 6 * estimate.stderr < composed.epsilon < 1.1 * estimate.value


def test_a_curve_beside_others_lies_above_that_of_the_run_alone():
    together = minsep.certify(MECHANISM, 3.0, 1e-3, alongside=OTHERS, curve=True, seed=1)
    alone = minsep.certify(MECHANISM, 3.0, 1e-3, curve=True, seed=1)
    assert minsep.verify(together).holds
    for epsilon in (0.2, 1.0, 2.0):
        assert together.curve.delta(epsilon) > alone.curve.delta(epsilon)
        estimate = minsep.estimate_delta(MECHANISM, epsilon, seed=4, compose_with=ComposedDpEvent(OTHERS))
        assert estimate.value - 6 * estimate.stderr <= together.curve.delta(epsilon)
        assert together.curve.delta(epsilon) - together.curve.chance <= 1.4 * estimate.value


def test_noise_is_calibrated_for_all_together():
    alone = minsep.calibrate(STRATEGY, SCHEME, 2.0, 1e-3, seed=1)
    together = minsep.calibrate(STRATEGY, SCHEME, 2.0, 1e-3, alongside=OTHERS, seed=1)
    assert together.certificate.passed
    assert 1.005 < together.mechanism.noise_multiplier / alone.mechanism.noise_multiplier < 1.3


def test_an_exact_mechanism_composes_exactly_with_others():
    identity = minsep.BandedToeplitz.identity(iterations=100)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), 1.0)
    other = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), 2.0)
    truth = minsep.compose([mechanism, other], delta=1e-4).epsilon
    assert minsep.certify(mechanism, truth + 2e-3, 1e-4, alongside=[other]).passed
    assert not minsep.certify(mechanism, truth - 2e-3, 1e-4, alongside=[other]).passed
    found = minsep.calibrate(identity, minsep.Poisson(rate=0.02), truth + 1e-3, 1e-4, alongside=[other])
    assert found.mechanism.noise_multiplier == pytest.approx(1.0, rel=2e-3)
    assert minsep.verify(found.certificate).holds


def test_what_runs_alongside_cannot_be_forged():
    certificate = minsep.certify(MECHANISM, 3.0, 1e-3, alongside=[GaussianDpEvent(4.0)], seed=1)
    for changed in (
        [],
        [{"class_name": "GaussianDpEvent", "noise_multiplier": 3.0}],
        [{"class_name": "GaussianDpEvent", "noise_multiplier": 4.5}],
        [{"class_name": "NoOpDpEvent"}],
        [{"class_name": "GaussianDpEvent"}],
        [{}],
    ):
        content = json.loads(certificate.to_json())
        content["alongside"] = changed
        content["versions"]["minsep"] = "0.0"
        assert not minsep.verify(Certificate.from_json(json.dumps(content))).holds


@pytest.mark.parametrize(
    ("alongside", "sentence"),
    [
        (["gaussian"], "alongside is 'gaussian', but it must be a DpEvent"),
        ([MECHANISM], "alongside holds b-min-sep, b = 5, 3 bands, which has no exact curve: compose its certificate"),
    ],
)
def test_what_has_no_exact_curve_is_refused_in_a_sentence(alongside, sentence):
    with pytest.raises(ValueError, match=sentence):
        minsep.certify(MECHANISM, 3.0, 1e-3, alongside=alongside)


def test_others_that_use_up_delta_are_refused():
    refused = minsep.certify(MECHANISM, 0.5, 1e-6, alongside=[GaussianDpEvent(0.5)], max_samples=2000)
    assert not refused.passed
