"""Exact curves where rounding counts: never below the truth, and refused where they carry nothing."""

import json
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft, stats

import minsep
from minsep.accounting.exact import GaussianCurve, PldCurve, user_poisson_curve
from minsep.accounting.exact.normal import normal_excess
from minsep.accounting.exact.pld import _composed
from minsep.accounting.schemes import exact_curve

mpmath.mp.dps = 50


def identity(scheme, iterations, sigma, truncation=None):
    return minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=iterations), scheme, sigma, truncation)


def gaussian_delta(shift, epsilon):
    shift, epsilon = mpmath.mpf(shift), mpmath.mpf(epsilon)
    first = mpmath.ncdf(shift / 2 - epsilon / shift)
    return first - mpmath.exp(epsilon) * mpmath.ncdf(-shift / 2 - epsilon / shift)


@settings(max_examples=300, deadline=None)
@given(st.floats(-4, 3), st.floats(-3, 15))
def test_the_excess_of_a_normal_is_never_too_small_and_hardly_too_large(log_deviation, distance):
    deviation = 10.0**log_deviation
    middle = distance * deviation
    m, d = mpmath.mpf(middle), mpmath.mpf(deviation)
    truth = mpmath.ncdf(-m / d) - mpmath.exp(m + d * d / 2) * mpmath.ncdf(-m / d - d)
    found = mpmath.mpf(float(normal_excess(middle, deviation)))
    assert truth <= found <= truth * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("1e-299")


@pytest.mark.parametrize(("iterations", "sigma"), [(100, 10.0), (10_000, 100.0), (100_000, 300.0)])
def test_a_loss_distribution_is_never_below_the_gaussian_that_it_stands_for(iterations, sigma):
    one = pld.from_gaussian_mechanism(
        sigma, sampling_prob=1.0, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL
    )
    curve = PldCurve(_composed(one, iterations), compositions=iterations)
    shift = math.sqrt(iterations) / sigma
    for epsilon in np.linspace(0, shift**2 / 2 + 9 * shift, 40):
        truth = gaussian_delta(shift, epsilon)
        assert float(curve.delta(epsilon, "remove")) >= truth


@pytest.mark.parametrize(
    ("iterations", "sigma", "prob"), [(100, 1.0, 0.01), (1000, 0.5, 0.01), (1000, 10.0, 0.5), (100_000, 10.0, 0.001)]
)
def test_the_allowance_for_rounding_exceeds_what_80_bits_show(iterations, sigma, prob):
    one = pld.from_gaussian_mechanism(
        sigma, sampling_prob=prob, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
        value_discretization_interval=1e-3,
    )  # fmt: skip
    curve = PldCurve(_composed(one, iterations), compositions=iterations)
    for direction, pmf in (("remove", one._pmf_remove), ("add", one._pmf_add)):
        dense = pmf.to_dense_pmf()
        masses = np.asarray(dense._probs)
        low, high = common.compute_self_convolve_bounds(masses, iterations, 1e-15)
        length = fft.next_fast_len(max(high - low + 1, masses.size))
        power = fft.fft(masses.astype(np.longdouble), length) ** np.longdouble(iterations)
        exact = np.roll(np.real(fft.ifft(power)), -low)[: high - low + 1]
        losses = (np.arange(exact.size) + low + dense._lower_loss * iterations) * np.longdouble(dense._discretization)
        for epsilon in np.linspace(0, float(losses[-1]), 20):
            beyond = losses > epsilon
            truth = float(np.sum(exact[beyond] * -np.expm1(epsilon - losses[beyond])))
            assert float(curve.delta(epsilon, direction)) >= truth


def test_full_batches_are_gaussian_and_certified_down_to_tiny_deltas():
    mechanism = identity(minsep.Poisson(rate=1.0), 10_000, 100.0)
    assert isinstance(exact_curve(mechanism), GaussianCurve)
    epsilon = 7.55
    truth = float(gaussian_delta(1.0, epsilon))
    assert 5e-14 < truth < 2e-13
    assert not minsep.certify(mechanism, epsilon, 0.85 * truth, model_size=1).passed
    assert minsep.certify(mechanism, epsilon, 1.001 * truth, model_size=1).passed
    cyclic = identity(minsep.CyclicPoisson(rate=0.25, cycle=4), 40_000, 100.0)
    assert isinstance(exact_curve(cyclic), GaussianCurve)
    users = minsep.MultiAttributionMinSep(
        sampling_prob=1, min_sep=1, graph=minsep.AttributionGraph.from_lists([[0], [1]])
    )
    assert minsep.estimate_delta(identity(users, 100, 30.0), 1.0).value == pytest.approx(
        float(gaussian_delta(10 / 30, 1.0)), rel=1e-9
    )


def test_below_what_a_curve_carries_it_is_refused_or_tested_by_samples():
    mechanism = identity(minsep.Poisson(rate=0.001), 2000, 1.0)
    curve = exact_curve(mechanism)
    assert curve.rounding == 2000 * 4 * 2**-52
    assert curve.carries(1e-10)
    assert not curve.carries(1e-11)
    certificate = minsep.certify(mechanism, epsilon=4.0, delta=1e-13, seed=1)
    assert certificate.passed
    assert [proof.kind for proof in certificate.proofs] == ["bound", "immediate"]
    assert certificate.failure_probability > 0
    assert minsep.verify(certificate).holds
    cyclic = identity(minsep.CyclicPoisson(rate=0.001, cycle=2, parts="equal"), 2000, 1.0)
    refused = minsep.certify(cyclic, epsilon=4.0, delta=1e-13)
    assert not refused.passed
    assert "may be rounding" in refused.statement
    with pytest.raises(
        ValueError, match="delta is 9.99.*e-14, but exact accounting .* needs a delta of at least 8.9e-12"
    ):
        minsep.calibrate(cyclic.strategy, cyclic.scheme, 4.0, 1e-13)


def test_truncated_poisson_says_that_it_is_an_upper_bound():
    mechanism = identity(minsep.Poisson(rate=0.2), 10, 1.0, minsep.Truncation(batch_size=6, num_examples=30))
    exact = minsep.estimate_delta(mechanism, 0.1)
    sampled = minsep.estimate_delta(mechanism, 0.1, method="plain", samples=20_000)
    assert exact.upper_bound
    assert exact.value > sampled.value + 10 * sampled.stderr


@pytest.mark.parametrize("delta", [0.05, 0.4, 0.4999])
def test_calibration_converges_at_large_deltas(delta):
    strategy = minsep.BandedToeplitz.identity(iterations=25)
    best = minsep.calibrate(strategy, minsep.Unamplified(1, 25), 1.0, delta, model_size=1)
    low, high = mpmath.mpf("0.01"), mpmath.mpf(1000)
    for _ in range(100):
        middle = mpmath.sqrt(low * high)
        low, high = (low, middle) if gaussian_delta(5 / middle, 1) <= delta else (middle, high)
    assert float(high) <= best.mechanism.noise_multiplier <= 1.0002 * float(high)


@pytest.mark.slow
def test_a_loss_distribution_that_does_not_fit_into_memory_is_refused_with_its_size():
    mechanism = identity(minsep.Poisson(rate=0.5), 100_000, 0.02)
    with pytest.raises(ValueError, match=r"Exact accounting of 100,000 compositions takes .* but the limit is 2 GiB"):
        minsep.estimate_delta(mechanism, 1.0)
    small = minsep.certify(identity(minsep.Poisson(rate=0.5), 10, 5.0), 1.0, 0.1)
    forged = replace(small, description=json.loads(json.dumps(mechanism.describe())))
    result = minsep.verify(forged)
    assert not result.holds
    assert "GiB" in result.reason


def test_a_proof_at_the_edge_of_what_a_curve_carries_keeps_the_level_of_the_tests():
    """A calibration that may ask samples as well is within delta only if whatever passes is within their level."""
    mechanism = identity(minsep.Poisson(rate=0.01), 1000, 1.0)
    curve = exact_curve(mechanism)
    epsilon = float(curve.epsilon(5e-12, "remove"))
    found = float(curve.delta(epsilon, "remove"))
    assert not curve.carries(1.001 * found)
    options = {"failure_probability": 0.4 * found, "seed": 0}
    sampled = minsep.certify(mechanism, epsilon, 1.001 * found, max_samples=2000, **options)
    assert sampled.proofs[0].kind != "exact"
    passed = minsep.certify(mechanism, epsilon, 1.5 * found, **options)
    assert passed.proofs[0].method == "pld"
    assert found <= passed.level < 1.5 * found
    assert minsep.verify(passed).holds


@pytest.mark.parametrize(("sigma", "prob", "user_bound"), [(1.0, 0.004, 2), (0.4, 0.1, 3), (3.0, 0.05, 4)])
def test_one_step_of_a_user_equals_the_integral(sigma, prob, user_bound):
    """Hockey-stick divergences of the mixture, by quadrature: an independent method."""
    sizes = np.arange(user_bound + 1)
    weights = stats.binom.pmf(sizes, user_bound, prob)
    curve = user_poisson_curve(sigma, user_bound, prob, 1, 1e-4)
    y = np.linspace(-12 * sigma, user_bound + 12 * sigma, 400_001)
    p, q = weights @ stats.norm.pdf(y, sizes[:, None], sigma), stats.norm.pdf(y, 0, sigma)
    for epsilon in (0.0, 0.02, 0.3, 1.0, 2.0):
        for direction, one, other in (("remove", p, q), ("add", q, p)):
            truth = np.trapezoid(np.maximum(one - math.exp(epsilon) * other, 0.0), y)
            found = float(curve.delta(epsilon, direction))
            assert truth * (1 - 1e-7) - 1e-13 <= found <= truth * (1 + 1e-4) + 1e-9


@pytest.mark.parametrize(("sigma", "prob", "user_bound"), [(1.0, 0.01, 2), (0.5, 0.03, 3)])
def test_a_user_equals_the_peers_mixture(sigma, prob, user_bound):
    sizes = np.arange(user_bound + 1)
    peer = pld.from_mixture_gaussian_mechanism(
        sigma, sizes, stats.binom.pmf(sizes, user_bound, prob), value_discretization_interval=1e-2
    ).self_compose(50, 1e-15)
    curve = user_poisson_curve(sigma, user_bound, prob, 50, 1e-2)
    for epsilon in (0.5, 2.0, 5.0):
        found = max(float(curve.delta(epsilon, direction)) for direction in ("remove", "add"))
        assert found == pytest.approx(peer.get_delta_for_epsilon(epsilon), rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    ("sigma", "prob", "user_bound", "epsilon", "direction", "truth"),
    [
        (0.1, 1e-3, 5, 8.0, "remove", 0.004989),
        (0.01, 1e-3, 50, 0.0, "add", 0.04879),
        (1.0, 0.3, 50, 8.0, "remove", 0.99866),
    ],
)
def test_a_user_with_little_noise(sigma, prob, user_bound, epsilon, direction, truth):
    """Where e^loss overflows, and where log P/Q has many kinks: found by a review, against 60 digits."""
    found = float(user_poisson_curve(sigma, user_bound, prob, 1, 1e-4).delta(epsilon, direction))
    assert truth * (1 - 1e-3) <= found <= truth * (1 + 1e-2)
