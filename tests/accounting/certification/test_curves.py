"""Curves of certificates: nowhere below the truth, and refused once a number is changed."""

import copy
import json
import math
from dataclasses import replace
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import minsep
from minsep.accounting.certification.certify import certify_by, with_curve
from minsep.accounting.certification.curve_proof import chance_of_each
from minsep.accounting.certification.levels import least_level, rounded_up
from minsep.accounting.certification.promise import Promise
from minsep.accounting.certification.prover import Prover
from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.sequential import betting_verifier, log_wealth_of
from minsep.accounting.sequential.betting import _BETS
from minsep.core.budget import Budget
from tests.accounting.certification.test_checker import numbers, refused
from tests.oracles import quadrature
from tests.oracles.divergence import log_ratio
from tests.oracles.participation import participation_law

FALSE_ALARM = 1e-6
SAMPLES = 1 << 10


def mechanism(scheme, sigma, iterations=60, bands=4, truncation=None):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, scheme, sigma, truncation)


def certified(tested, epsilon, delta, seed=1, samples=SAMPLES, failure_probability=None):
    """A certificate with a curve from few samples."""
    promise = Promise.of(tested.strategy, Budget(epsilon, delta), None)
    verifier = betting_verifier(promise.tested.delta, 1, failure_probability, share_of_curve=0.5)
    prover = Prover(promise.tested.epsilon, verifier)
    return with_curve(certify_by(prover, tested, promise, seed), prover, seed, 1, samples)


CASES = {
    "sampled": (mechanism(minsep.MinSep(0.02, 10), 0.85), 2.0, 1e-3),
    "no samples beside the curve": (mechanism(minsep.BallsInBins(20), 2.0), 1.5, 1e-2),
    "both sampled": (mechanism(minsep.BallsInBins(20), 1.9), 0.8, 2e-2),
    "long separation": (mechanism(minsep.MinSep(0.008, 100), 0.85), 2.0, 1e-3),
    "cut": (mechanism(minsep.MinSep(0.02, 10), 0.85, truncation=minsep.Truncation(50, 1000)), 2.0, 1e-3),
    "cut, by recursions": (mechanism(minsep.MinSep(0.02, 10), 1.05, truncation=minsep.Truncation(35, 1000)), 2.0, 5e-3),
}


@cache
def certificate_of(name):
    return certified(*CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_certificates_with_curves_hold(name):
    certificate = certificate_of(name)
    assert certificate.passed, certificate.statement
    assert len(certificate.curve_proof.points("remove")) > 30
    read = minsep.Certificate.from_json(certificate.to_json())
    assert read == certificate
    result = minsep.verify(read)
    assert result.holds, result.reason
    assert "epsilons of the curve" in result.caveats[-1]


def test_a_curve_is_reproduced():
    certificate = certificate_of("sampled")
    result = minsep.verify(certificate, reproduce=True)
    assert result.holds, result.reason


# --- against the truth -------------------------------------------------------------------------------------------

TINY = {
    "one": (minsep.MinSep(0.3, 2), 1, 1),
    "two": (minsep.MinSep(0.3, 2), 2, 2),
    "two, apart": (minsep.MinSep(0.2, 2, start="cold"), 2, 1),
    "two, in bins": (minsep.BallsInBins(2), 2, 2),
}


def test_a_curve_of_three_iterations_is_nowhere_below_the_divergence():
    """An integral over three dimensions, by the product rule, with the same chance of a false alarm as below."""
    scheme = minsep.MinSep(0.3, 2)
    tested = mechanism(scheme, 1.2, 3, 2)
    exact = certified(tested, 3.0, 0.1, samples=1 << 13, failure_probability=2e-7).curve.exact
    points, weights = np.polynomial.legendre.leggauss(96)
    points, weights = 6.0 * points + 0.6, 6.0 * weights
    grid = np.stack(np.meshgrid(points, points, points, indexing="ij"), axis=-1).reshape(-1, 3)
    volume = np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
    log_q = -(grid**2).sum(axis=1) / (2 * 1.2**2) - 3 * math.log(1.2 * math.sqrt(2 * math.pi))
    ratio = np.exp(log_ratio(participation_law(scheme, 3), tested.strategy.dense(), 1.2, grid))
    for epsilon in (0.0, 0.7, 1.5, 2.5, 3.3):
        remove = volume @ (np.exp(log_q) * np.maximum(ratio - math.exp(epsilon), 0))
        add = volume @ (np.exp(log_q) * np.maximum(1 - math.exp(epsilon) * ratio, 0))
        for direction, truth in zip(DIRECTIONS, (remove, add), strict=True):
            found = float(exact.delta(epsilon, direction))
            assert truth * (1 - 1e-2) - 1e-6 <= found <= 1.5 * truth + 0.02


@pytest.mark.parametrize("name", TINY)
def test_a_curve_is_nowhere_below_the_divergence_by_numerical_integration(name):
    """Each level errs with a chance of at most 1e-7 in all, so a false alarm is as rare."""
    scheme, iterations, bands = TINY[name]
    tested = mechanism(scheme, 1.2, iterations, bands)
    certificate = certified(tested, 3.0, 0.1, samples=1 << 13, failure_probability=2e-7)
    assert certificate.passed
    assert certificate.curve_proof is not None
    exact = certificate.curve.exact
    law, matrix = participation_law(scheme, iterations), tested.strategy.dense()
    tried = [0.0, 0.3, 1.0, 1.9, 3.1, 4.5]
    for direction in DIRECTIONS:
        for epsilon in tried:
            truth = quadrature.delta(law, matrix, 1.2, epsilon, direction)
            found = float(exact.delta(epsilon, direction))
            assert found >= truth * (1 - 3e-3) - 1e-9, (direction, epsilon)
            assert found <= 1.5 * truth + 0.02, (direction, epsilon)
            assert certificate.curve.delta(epsilon, direction) >= found


POINTS, REPETITIONS, Q = 64, 100, 0.5


def curves_that_err(chance):
    """The number of curves with any level below its mean, at the hardest kind of value: 0 or the bound."""
    generator = np.random.default_rng(7)
    means = np.linspace(0.02, 0.3, POINTS)

    def errs():
        drawn = ((mean, (generator.random(200) < mean).astype(float)) for mean in means)
        return any(rounded_up(least_level(values, 1.0, -math.log(chance))) < mean for mean, values in drawn)

    return sum(errs() for _ in range(REPETITIONS))


def too_many(wrong, repetitions=REPETITIONS, q=Q):
    return stats.binomtest(wrong, repetitions, q, alternative="greater").pvalue <= FALSE_ALARM


def test_curves_err_as_rarely_as_they_say():
    """A binomial tail of 1e-6. With a chance of q for each point instead of all together, four in five curves err."""
    assert not too_many(curves_that_err(chance_of_each(Q, 1, POINTS)))
    assert too_many(curves_that_err(Q))


@pytest.mark.slow
def test_curves_of_a_mechanism_err_as_rarely_as_they_say():
    """A whole curve of a real mechanism, with q = 0.4: at most two fifths of 60 curves err, at 1e-6."""
    q, repetitions = 0.4, 60
    scheme, iterations, bands = TINY["two"]
    tested = mechanism(scheme, 1.2, iterations, bands)
    prover = Prover(2.0, betting_verifier(0.2, 1, 0.1, share_of_curve=0.5))
    law, matrix = participation_law(scheme, iterations), tested.strategy.dense()
    passed = certificate_of_two()
    wrong, truth = 0, None
    for seed in range(repetitions):
        curve = with_curve(passed, wide(prover, q), seed, 1, 256).curve_proof
        if truth is None:
            truth = {
                direction: [quadrature.delta(law, matrix, 1.2, each, direction) for each in curve.epsilons[::16]]
                for direction in DIRECTIONS
            }
        wrong += any(
            level < true * (1 - 3e-3)
            for direction in DIRECTIONS
            for level, true in zip(curve.levels(direction)[::16], truth[direction], strict=True)
        )
    assert not too_many(wrong, repetitions, q)


def wide(prover, q):
    """A prover that spends q on its curve."""
    verifier = replace(prover.verifier, failure_probability=2 * q, share_of_curve=0.5)
    return replace(prover, verifier=verifier)


@cache
def certificate_of_two():
    scheme, iterations, bands = TINY["two"]
    return minsep.certify(mechanism(scheme, 1.2, iterations, bands), 2.0, 0.2, seed=3)


# --- the least level ---------------------------------------------------------------------------------------------


def slow_wealth(values, level, bound):
    """The wealth with 50 digits, from its definition."""
    with mpmath.workdps(50):
        products = [
            mpmath.fprod(
                1
                + mpmath.mpf(float(bet)) * (mpmath.mpf(level) - float(value)) / (mpmath.mpf(bound) - mpmath.mpf(level))
                for value in values
            )
            for bet in _BETS
        ]
        return mpmath.log(sum(products) / len(products))


def slow_level(values, bound, target):
    """The least level by bisection, with 50 digits."""
    low, high = 0.0, bound * (1 - 1e-12)
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if slow_wealth(values, middle, bound) >= target else (middle, high)
    return high


samples = st.lists(st.floats(0, 1), min_size=5, max_size=24)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples, st.floats(0.1, 2.0), st.floats(0.5, 8.0))
def test_the_least_level_is_that_of_a_slow_search(shares, bound, target):
    values = bound * np.array(shares) ** 4
    found, slow = least_level(values, bound, target), slow_level(values, bound, target)
    assert slow * (1 - 2e-7) <= found <= slow * (1 + 2e-4) + 1e-300 or found == bound >= slow
    assert found == bound or log_wealth_of(values, found, bound) >= target


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples, st.floats(0.1, 2.0), st.floats(1e-6, 0.999), st.floats(1e-6, 0.999))
def test_the_wealth_grows_with_the_level(shares, bound, one, other):
    values = bound * np.array(shares)
    low, high = sorted((bound * one, bound * other))
    assert log_wealth_of(values, low, bound) <= log_wealth_of(values, high, bound) + 1e-9


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(1e-300, 1.0))
def test_levels_are_rounded_up_to_few_digits(level):
    found = rounded_up(level)
    assert level * (1 - 1e-15) <= found <= level * (1 + 1.1e-4)
    assert float(f"{found:.4e}") == found


# --- forged curves -----------------------------------------------------------------------------------------------


def test_the_chance_of_a_curve_is_part_of_that_of_the_certificate():
    """Levels that were proven with a chance of a half are no part of a delta of 1e-2."""
    certificate = certificate_of("no samples beside the curve")
    loose = replace(betting_verifier(0.5, 1, 0.4), share_of_curve=0.9)
    prover = Prover(certificate.tested.epsilon, loose, certificate.memory)
    forged = with_curve(replace(certificate, curve_proof=None), prover, 1, 1, SAMPLES)
    assert forged.curve_proof.failure_probability > 0.3
    assert not minsep.verify(forged).holds
    assert not minsep.verify(forged, curve=False).holds


@pytest.mark.parametrize("change", [{"failure_probability": -0.5}, {"attempts": -10_000}, {"attempts": 0}])
def test_a_curve_cannot_lend_its_chance_to_the_test(change):
    """A negative chance of a curve would leave more for the test, which the checker of a run relies on."""
    certificate = certificate_of("sampled")
    curve = replace(certificate.curve_proof, **change)
    chance = certificate.failure_probability - curve.failure_probability * curve.attempts
    proofs = tuple(
        replace(proof, false_pass_probability=chance) if proof.kind == "sampled" else proof
        for proof in certificate.proofs
    )
    # As many samples as that chance needs, so that nothing else is wrong.
    forged = replace(certificate, curve_proof=curve, proofs=proofs)
    result = minsep.verify(forged, curve=False)
    assert not result.holds
    assert "chance that the curve errs" in result.reason


def test_a_curve_with_more_samples_than_memory_is_refused_at_once():
    certificate = certificate_of("sampled")
    curve = certificate.curve_proof
    laws = (replace(curve.laws[0], samples=10**15), *curve.laws[1:])
    forged = replace(certificate, curve_proof=replace(curve, laws=laws))
    assert "too many to check" in minsep.verify(forged).reason


@pytest.mark.parametrize("name", ["sampled", "both sampled"])
def test_every_number_of_a_curve_is_refused_if_it_is_changed(name):
    content = json.loads(certificate_of(name).to_json())
    curve = content["curve_proof"]
    lists = {"epsilons": 7, "remove": 9, "add": 4}
    paths = [*numbers({key: value for key, value in curve.items() if key not in lists}), *lists.items()]
    accepted = [path for path in paths if not refused(forge(content, path, _slightly(curve, path)))]
    assert [path for path in accepted if path[-1] != "samples"] == []
    # `samples` is what the prover was given: `reproduce` compares it.
    other = minsep.Certificate.from_json(json.dumps(forge(content, ("samples",), SAMPLES + 1)))
    assert not minsep.verify(other, reproduce=True).holds


def _slightly(curve, path):
    value = curve
    for step in path:
        value = value[step]
    return value + 1 if isinstance(value, int) else 0.99 * value if value else 1e-3


def forge(content, path, value):
    content = copy.deepcopy(content)
    place = content["curve_proof"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return content


JUNK = (None, -1, 0, 1, 2, 1e-9, 0.5, 1.5, -0.3, 1e300, 10**30, "1", [], {}, True, float("nan"), float("inf"))


def forgeries(content, generator, count):
    """Random changes of the curve: of its size, of one number, of a type, of its distributions."""
    curve = content["curve_proof"]
    paths = list(numbers(curve))
    for _ in range(count):
        path = paths[generator.integers(len(paths))]
        value = curve
        for step in path:
            value = value[step]
        kind = generator.integers(5)
        if kind == 0:
            new = JUNK[generator.integers(len(JUNK))]
        elif kind == 1 and isinstance(value, int):
            new = value + int(generator.integers(-3, 4) or 1)
        elif kind == 2:
            key = list(curve)[generator.integers(len(curve))]
            path = (key,)
            new = JUNK[generator.integers(len(JUNK))]
        elif kind == 3:
            key = ("epsilons", "remove", "add", "laws")[generator.integers(4)]
            path, new = (key,), list(curve[key])
            new.pop(generator.integers(len(new))) if generator.integers(2) else new.append(new[-1])
        else:
            new = value * float(1 + generator.normal() * 10.0 ** generator.integers(-3, 1))
            new = int(new) if isinstance(value, int) else new
        yield path, forge(content, path, new)


def immaterial(content, forged, path):
    """Whether a change is none, raises a level a little or to 1, or moves an epsilon by hardly anything.

    A few samples more or less prove the same levels: a test is valid at every sample size.
    """
    old, new = content["curve_proof"], forged["curve_proof"]
    if old == new or path[-1] == "samples":
        return True
    if len(path) != 2 or not isinstance(new[path[0]][path[1]], float | int):
        return False
    key, place = path
    if key == "epsilons":
        # How much the level would change there, by the steeper of its two neighbours.
        moved, slopes = abs(new[key][place] - old[key][place]), [0.0]
        for way in DIRECTIONS:
            for first in range(max(place - 1, 0), min(place + 1, len(old[key]) - 1)):
                levels, gap = old[way][first : first + 2], old[key][first + 1] - old[key][first]
                slopes.append(math.log(max(levels) / min(levels)) / gap if min(levels) > 0 else math.inf)
        return moved * max(slopes) <= 1e-3
    before, after = old[key][place], new[key][place]
    return key in DIRECTIONS and (before * (1 - 1e-4) <= after <= before * (1 + 3e-4) or after == 1)


def check_forgeries(name, seed, count):
    content = json.loads(certificate_of(name).to_json())
    generator = np.random.default_rng(seed)
    found = list(forgeries(content, generator, count))
    accepted = [(path, forged) for path, forged in found if not refused(forged)]
    assert len(accepted) < count / 4
    material = [path for path, forged in accepted if not immaterial(content, forged, path)]
    assert material == []


def test_forged_curves_are_refused():
    check_forgeries("both sampled", 0, 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_forged_curves_are_refused(name):
    check_forgeries(name, 1, 170)
