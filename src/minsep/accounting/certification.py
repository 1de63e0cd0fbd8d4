"""Making certificates, and checking them."""

import json
import math
import secrets
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from minsep import _validation as validate
from minsep.accounting.certificates import Certificate, DirectionProof
from minsep.accounting.direction_tests import DirectionTest, Report, TestPlan, test_plan, what_to_test
from minsep.accounting.exact import ExactCurve, exact_curve, spacing_for
from minsep.accounting.pairs import DIRECTIONS, Direction
from minsep.accounting.proposals import DEFAULT_MEMORY
from minsep.accounting.support import samples_can_be_drawn
from minsep.mechanism import Mechanism

_TOLERANCE = 1e-6
_MOST_MEMORY = 1 << 50
_MOST_ITERATIONS = 5_000_000  # of a certificate that is checked


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds, and why not."""

    holds: bool
    reason: str


def certify(
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    *,
    test: str = "betting",
    attempts: int = 1,
    seed: int | None = None,
    failure_probability: float | None = None,
    max_samples: int | None = None,
    memory: int = DEFAULT_MEMORY,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Report | None = None,
    add_proof: DirectionProof | None = None,
) -> Certificate:
    """Test whether a mechanism is (epsilon, delta)-DP, and return the certificate of the outcome.

    - Exact curves need no samples, down to deltas that their rounding allows. Otherwise samples come from the tilted
      proposal of least bound, and a test by betting stops as soon as it is sure, either way.
    - `failure_probability` (default: delta/100) is the chance that a mechanism passes that should not.
    - `attempts` is how many mechanisms are tested at most, of which one that passes is run: they share the chance.
    - `test="fixed"` is the verifier of the b-min-sep paper, to the letter: a fixed number of plain samples (about
      100/delta), an average of at most delta/2, and its recursions for a truncation.
    - `add_proof` is an earlier proof of `add` for the same mechanism with no more noise, and the same budget and test.
    - Without a seed the samples come from fresh system entropy, which is recorded. A rejected test may be continued
      (same seed, larger `max_samples`), never begun again with another seed. Without `max_samples` a test ends as
      well when its wealth grows too slowly to get anywhere.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=1.2)
    >>> certify(mechanism, epsilon=2.0, delta=1e-3).passed
    True
    """
    epsilon = validate.real(epsilon=epsilon, above=0)
    delta = validate.real(delta=delta, above=0, below=1)
    memory = validate.integer(memory=memory, at_least=1, at_most=_MOST_MEMORY)
    plan = test_plan(test, delta, attempts, failure_probability, max_samples)
    seed = secrets.randbits(128) if seed is None else validate.integer(seed=seed, at_least=0)
    common: dict[str, Any] = {
        "mechanism": mechanism.describe(),
        "epsilon": epsilon,
        "delta": delta,
        "test": test,
        "attempts": attempts,
        "max_samples": max_samples,
        "memory": memory,
        "seed": seed,
        "versions": {name: version(name) for name in ("minsep", "numpy", "scipy", "numba", "dp-accounting")},
    }
    curve = exact_curve(mechanism, spacing_for(epsilon))
    if curve is not None:
        # Where samples may be asked as well, a calibration is within delta only if whatever passes keeps their level.
        exact_only = curve.carries(delta) or not samples_can_be_drawn(mechanism)
        level, chance = (delta, 0.0) if exact_only else (plan.level, plan.failure_probability)
        exact = [_exact_proof(mechanism, curve, direction, seed, epsilon, level) for direction in DIRECTIONS]
        if exact_only or all(proof.passed for proof in exact):
            return Certificate(**common, failure_probability=chance, level=level, proofs=(exact[0], exact[1]))
    tested = DirectionTest(mechanism, epsilon, plan, seed, memory, workers, executor, progress)
    if add_proof is not None:
        _check_add_proof(add_proof, mechanism, epsilon, plan)
    proofs = tested.prove("remove"), add_proof or tested.prove("add")
    return Certificate(**common, failure_probability=plan.failure_probability, level=plan.level, proofs=proofs)


def _check_add_proof(proof: DirectionProof, mechanism: Mechanism, epsilon: float, plan: TestPlan) -> None:
    """Refuse a proof that is not one of `add`, for this mechanism with no more noise and the same test."""
    if proof.direction != "add" or not proof.passed or proof.noise_multiplier > mechanism.noise_multiplier:
        raise ValueError(
            f"add_proof is of {proof.direction!r} at noise multiplier {proof.noise_multiplier:g}, but it must have "
            f"passed for 'add' at no more than that of the mechanism, {mechanism.noise_multiplier:g}."
        )
    quieter = mechanism.with_noise_multiplier(proof.noise_multiplier)
    _, shift = what_to_test(quieter, epsilon, plan, "add")
    expected = (quieter.fingerprint, shift.epsilon, shift.level(plan.level), plan.chance)
    if (proof.tested, proof.epsilon, proof.level, proof.chance) != expected:
        raise ValueError("add_proof is of another mechanism, budget or test, but it must be of this one.")


def prove_add(
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    *,
    seed: int,
    test: str = "betting",
    attempts: int = 1,
    failure_probability: float | None = None,
    max_samples: int | None = None,
    memory: int = DEFAULT_MEMORY,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Report | None = None,
) -> DirectionProof:
    """Test the direction `add` alone, for use with mechanisms of no less noise."""
    plan = test_plan(test, delta, attempts, failure_probability, max_samples)
    return DirectionTest(mechanism, epsilon, plan, seed, memory, workers, executor, progress).prove("add")


def verify(certificate: Certificate, *, workers: int | None = None, executor: Executor | None = None) -> Verification:
    """Check a certificate: compute its parameters and bounds anew, draw its samples again, and compare.

    It answers whatever the certificate holds: one that makes no sense does not hold, and the reason says why.

    >>> import minsep
    >>> identity = minsep.BandedToeplitz.identity(iterations=100)
    >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=1.0)
    >>> certificate = certify(mechanism, epsilon=2.0, delta=1e-3)
    >>> verify(certificate).holds
    True
    """
    if workers is not None:
        validate.integer(workers=workers, at_least=1)
    try:
        return _verify(certificate, workers, executor)
    except Exception as error:  # whatever a forged number may lead to
        return Verification(False, f"The certificate's mechanism or parameters are not valid: {error}")


def _verify(certificate: Certificate, workers: int | None, executor: Executor | None) -> Verification:
    mechanism = Mechanism.from_description(certificate.mechanism)
    if mechanism.iterations > _MOST_ITERATIONS:
        return Verification(False, f"The certificate is of {mechanism.iterations:,} iterations, too many to check.")
    options: dict[str, Any] = {
        "test": certificate.test,
        "attempts": certificate.attempts,
        "failure_probability": (certificate.failure_probability or None) if certificate.test == "betting" else None,
        "max_samples": certificate.max_samples,
        "memory": certificate.memory,
        "workers": workers,
        "executor": executor,
    }
    recorded = certificate.proofs[1]
    add_proof = None
    if recorded.noise_multiplier != mechanism.noise_multiplier or recorded.seed != certificate.seed:
        quieter = mechanism.with_noise_multiplier(recorded.noise_multiplier)
        add_proof = prove_add(quieter, certificate.epsilon, certificate.delta, seed=recorded.seed, **options)
    again = certify(
        mechanism,
        certificate.epsilon,
        certificate.delta,
        seed=certificate.seed,
        add_proof=add_proof,
        **options,
    )
    difference = _difference(json.loads(certificate.to_json()), json.loads(again.to_json()))
    if difference:
        return Verification(False, f"The certificate does not hold: {difference}.")
    if not certificate.passed:
        return Verification(False, "The certificate is of a mechanism that did not pass.")
    return Verification(True, certificate.statement)


def _exact_proof(
    mechanism: Mechanism, curve: ExactCurve, direction: Direction, seed: int, epsilon: float, delta: float
) -> DirectionProof:
    found = float(curve.delta(epsilon, direction))
    passed = found <= delta
    reason = "" if passed else f"delta is {found:.4g}"
    if not passed and not curve.carries(delta):
        reason += f", of which {curve.rounding:.2g} may be rounding"
    sigma = mechanism.noise_multiplier
    return DirectionProof(direction, curve.method, passed, reason, sigma, seed, epsilon, delta, bound=found)


def _difference(recorded: Any, found: Any, name: str = "") -> str:
    """Return the first thing that differs, up to rounding, or nothing."""
    if isinstance(recorded, dict) and isinstance(found, dict) and name != ".versions":
        for key in sorted({*recorded, *found}):
            difference = _difference(recorded.get(key), found.get(key), f"{name}.{key}")
            if difference:
                return difference
        return ""
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for place, (one, other) in enumerate(zip(recorded, found, strict=True)):
            difference = _difference(one, other, f"{name}[{place}]")
            if difference:
                return difference
        return ""
    if name == ".versions":
        made_by = recorded.get("minsep") if isinstance(recorded, dict) else None
        if made_by != found["minsep"]:
            return f"it was made by minsep {made_by}, and this is {found['minsep']}"
        return ""
    both_numbers = all(isinstance(value, float | int) and not isinstance(value, bool) for value in (recorded, found))
    if (
        both_numbers
        and isinstance(recorded, float)
        and math.isclose(recorded, found, rel_tol=_TOLERANCE, abs_tol=1e-300)
    ):
        return ""
    return "" if recorded == found else f"{name[1:]} is {recorded!r}, but should be {found!r}"
