"""The smallest noise multiplier with a certificate: the paper's estimate-verify-release without empty outputs.

The ladder of noise multipliers is fixed beforehand, from estimates with randomness of their own. Testing begins at a
rung that should pass, and goes down from one that does and up from one that does not. Above them stands a mechanism
with a deterministic proof, so there is always an answer. All tests together share the chance of an error, so the whole
is (epsilon, delta)-DP.
"""

import math
import secrets
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

from minsep import _validation as validate
from minsep.accounting.certificates import Certificate
from minsep.accounting.certification import certify, prove_add
from minsep.accounting.direction_tests import Progress, test_plan
from minsep.accounting.exact import exact_curve, spacing_for
from minsep.accounting.pairs import DIRECTIONS
from minsep.accounting.proposals import DEFAULT_MEMORY
from minsep.accounting.search import estimated_noise_multiplier, noise_at_target
from minsep.accounting.support import samples_can_be_drawn
from minsep.attribution import MultiAttributionMinSep
from minsep.mechanism import Mechanism
from minsep.participation import BallsInBins, CyclicPoisson, MinSep, Poisson, Scheme, Truncation, Unamplified
from minsep.randomness import Key
from minsep.strategy import Strategy

_STEP = 1.005
_RUNGS = (-1, 0, 1, 2, 3, 5, 8, 16)
_MOST_TESTS = len(_RUNGS) + 1  # one of `add`, and one for each rung
_FIRST_RUNG = 3
_ESTIMATE_SAMPLES = 16_000
_LEAST, _MOST = 1e-3, 1e6
_FINE, _COARSE = 1e-4, 1e-3  # spacing of privacy losses
_GUESS = 0.8  # of the noise that the deterministic proof needs


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: a noise multiplier, and whether it passed."""

    noise_multiplier: float
    passed: bool
    samples: int


@dataclass(frozen=True)
class Calibration:
    """The mechanism with the smallest certified noise multiplier, its certificate, and how it was found."""

    mechanism: Mechanism
    certificate: Certificate
    epsilon: float
    delta: float
    """Of the whole procedure, the chance of a wrong certificate included."""
    rungs: tuple[Rung, ...]
    fallback: str = ""
    """Why the mechanism is another one than was asked for; empty if it is not."""


Report = Callable[[float, Progress | None], None]
"""Told the noise multiplier at hand, and how its test stands (None while the ladder is being placed)."""


def calibrate(
    strategy: Strategy,
    scheme: Scheme,
    epsilon: float,
    delta: float,
    truncation: Truncation | None = None,
    *,
    test: str = "betting",
    near: float | None = None,
    seed: int | None = None,
    failure_probability: float | None = None,
    memory: int = DEFAULT_MEMORY,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Report | None = None,
) -> Calibration:
    """Find the smallest noise multiplier that is certified as (epsilon, delta)-DP.

    Where an exact curve exists it gives the answer directly. Otherwise a ladder around the noise multiplier at which
    the estimated delta is the target, with steps of 0.5 %, is tested. `progress` is told the noise multiplier at hand
    and how its test stands. `near` says where to look first. `test="fixed"` uses the verifier of the b-min-sep paper.
    Where no rung passes, the answer is another mechanism with an exact proof, and `fallback` says so.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    >>> best = calibrate(strategy, minsep.MinSep(rate=0.02, min_sep=10), epsilon=2.0, delta=1e-3, seed=0)
    >>> best.certificate.passed
    True
    >>> 0.8 < best.mechanism.noise_multiplier < 0.9
    True
    """
    epsilon = validate.real(epsilon=epsilon, above=0)
    delta = validate.real(delta=delta, above=0, below=1)
    seed = secrets.randbits(128) if seed is None else validate.integer(seed=seed, at_least=0)
    start = Mechanism(strategy, scheme, 1.0, truncation)
    curve = exact_curve(start)
    if curve is not None and (curve.carries(delta) or not samples_can_be_drawn(start)):
        mechanism = exact_noise_multiplier(start, epsilon, delta)
        certificate = certify(mechanism, epsilon, delta, seed=seed)
        return Calibration(mechanism, certificate, epsilon, delta, (Rung(mechanism.noise_multiplier, True, 0),))
    # What is run when all tests reject must be within the level of the tests, for the whole to be within delta.
    level = level_of_tests(delta, test, failure_probability)
    safe = exact_noise_multiplier(deterministic(start, level), epsilon, level, tolerance=0.01)
    highest = safe.noise_multiplier
    center = estimated_noise_multiplier(
        start,
        epsilon,
        delta,
        _GUESS * highest if near is None else validate.real(near=near, above=0),
        _ESTIMATE_SAMPLES,
        _rung_seed(seed, 10**6),
        workers=workers,
        executor=executor,
        report=None if progress is None else lambda sigma: progress(sigma, None),
    )
    rungs_in_reach = (center * _STEP**steps for steps in _RUNGS)
    ladder = [sigma for sigma in rungs_in_reach if sigma < highest] or [highest / _STEP]
    options: dict[str, Any] = {
        "test": test,
        "attempts": _MOST_TESTS,  # however short the ladder is: what is run if it rejects keeps the level of so many
        "failure_probability": failure_probability,
        "memory": memory,
        "workers": workers,
        "executor": executor,
    }
    # `add` is tested once, at the lowest rung: what passes there holds for all above it.
    lowest = start.with_noise_multiplier(ladder[0])
    reporting = None if progress is None else partial(progress, lowest.noise_multiplier)
    add = prove_add(lowest, epsilon, delta, seed=_rung_seed(seed, len(ladder)), progress=reporting, **options)
    rungs = [Rung(safe.noise_multiplier, True, 0)]

    def test_rung(place: int) -> Certificate:
        certificate = certify(
            start.with_noise_multiplier(ladder[place]),
            epsilon,
            delta,
            seed=_rung_seed(seed, place),
            progress=None if progress is None else partial(progress, ladder[place]),
            add_proof=add if add.passed else None,
            **options,
        )
        rungs.append(Rung(ladder[place], certificate.passed, certificate.samples))
        return certificate

    first = min(_FIRST_RUNG, len(ladder) - 1)
    best = test_rung(first)
    if best.passed:
        lower = takewhile(lambda certificate: certificate.passed, map(test_rung, reversed(range(first))))
        best = next(iter(deque(lower, maxlen=1)), best)
    else:
        higher = (certificate for certificate in map(test_rung, range(first + 1, len(ladder))) if certificate.passed)
        best = next(higher, best)
    if not best.passed:
        why = "; ".join(f"{proof.direction}: {proof.reason}" for proof in best.proofs if not proof.passed)
        fallback = (
            f"{start.name} was not certified below noise multiplier {highest:.4g} ({why}), so this is {safe.name}, "
            "which has an exact proof."
        )
        return Calibration(safe, certify(safe, epsilon, delta, seed=seed), epsilon, delta, tuple(rungs), fallback)
    mechanism = start.with_noise_multiplier(best.mechanism["noise_multiplier"])
    return Calibration(mechanism, best, epsilon, delta, tuple(rungs))


def level_of_tests(delta: float, test: str = "betting", failure_probability: float | None = None) -> float:
    """Return the level at which a calibration tests: what is run instead if it rejects must keep it as well."""
    return test_plan(test, delta, _MOST_TESTS, failure_probability, None).level


def deterministic(mechanism: Mechanism, delta: float) -> Mechanism:
    """Return a mechanism with the same strategy and batch sizes that an exact curve covers, down to this delta.

    Cyclic Poisson sampling where the bands allow it, public coins where an example has several users, and else the
    Gaussian mechanism of a fixed order.
    """
    scheme = mechanism.scheme
    if isinstance(scheme, MultiAttributionMinSep) and mechanism.truncation is None:
        return replace(mechanism, scheme=scheme.with_public_coins())
    if isinstance(scheme, MinSep | Poisson | BallsInBins) and mechanism.strategy.bands <= scheme.min_sep:
        cyclic = CyclicPoisson(scheme.rate, scheme.min_sep, "equal" if mechanism.truncation else "random")
        safe = replace(mechanism, scheme=cyclic)
        curve = exact_curve(safe)
        if curve is not None and curve.carries(delta):
            return safe
    if mechanism.truncation is None:
        passes = -(-mechanism.iterations // scheme.min_sep)
        return replace(mechanism, scheme=Unamplified(scheme.min_sep, passes))
    raise ValueError(
        f"scheme is {scheme!r} with {mechanism.strategy.bands} bands and a truncation, but no deterministic proof of "
        f"delta {delta:g} is known for it: use a min_sep of at least the bands, a larger delta, or no truncation."
    )


def exact_noise_multiplier(
    mechanism: Mechanism, epsilon: float, delta: float, tolerance: float = 1e-4, finest: float = _FINE
) -> Mechanism:
    """Return the mechanism with the smallest noise multiplier that its exact curve allows, within a tolerance above.

    >>> import minsep
    >>> identity = minsep.BandedToeplitz.identity(iterations=25)
    >>> mechanism = Mechanism(identity, minsep.Unamplified(1, 25), noise_multiplier=1.0)
    >>> round(exact_noise_multiplier(mechanism, epsilon=1.0, delta=0.7876).noise_multiplier, 3)
    1.667
    """

    wider = spacing_for(epsilon) / _FINE

    def delta_at(sigma: float, spacing: float = _FINE) -> float:
        curve = exact_curve(mechanism.with_noise_multiplier(sigma), wider * max(spacing, finest))
        assert curve is not None
        if not curve.carries(delta):
            raise curve.refusal(delta)
        return max(float(curve.delta(epsilon, direction)) for direction in DIRECTIONS)

    def log_excess(sigma: float, spacing: float = _FINE) -> float:
        return math.log(max(delta_at(sigma, spacing), 1e-300) / delta)

    near = noise_at_target(partial(log_excess, spacing=_COARSE), 1.0, max(tolerance, 0.01))
    guess = near if finest == _COARSE else noise_at_target(log_excess, near, tolerance)
    low, high = _bracket(lambda sigma: delta_at(sigma) <= delta, guess, 1 + tolerance / 4)
    if high is None:
        raise ValueError(
            f"epsilon is {epsilon:g} at delta {delta:g}, but no noise multiplier up to {_MOST:g} is known to give it."
        )
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return mechanism.with_noise_multiplier(high)


def _bracket(enough: Callable[[float], bool], guess: float, step: float) -> tuple[float, float | None]:
    """Return a noise multiplier that is not enough and one that is (None: there is none), by growing steps."""
    sigma = guess
    if enough(guess):
        while sigma > _LEAST and enough(sigma / step):
            sigma, step = sigma / step, step**2
        return sigma / step, sigma
    while not enough(sigma * step):
        sigma, step = sigma * step, step**2
        if sigma > _MOST:
            return sigma, None
    return sigma, sigma * step


def _rung_seed(seed: int, place: int) -> int:
    """Return a seed for a rung, independent of the others."""
    return int.from_bytes(Key.from_seed(seed).derive(f"rung {place}").secret[:16], "big")
