"""Making certificates."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minsep.accounting.certification.certificate import ADJACENCY, Certificate
from minsep.accounting.certification.claims import Claim
from minsep.accounting.certification.curve_prover import SAMPLES, prove_curve
from minsep.accounting.certification.promise import Promise
from minsep.accounting.certification.proofs import ExactProof, Proof, Refusal
from minsep.accounting.certification.prover import Prover, prove_exactly
from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.exact import spacing_for
from minsep.accounting.importance import DEFAULT_MEMORY
from minsep.accounting.reduction import Alongside
from minsep.accounting.schemes import exact_curve, has_pair
from minsep.accounting.sequential import Verifier, betting_verifier
from minsep.core import validation as validate
from minsep.core.budget import Budget, check_delta, warn_of_delta
from minsep.core.progress import Listener
from minsep.core.versions import library_versions
from minsep.engine import LOCAL, Compute
from minsep.journal import begin, today
from minsep.mechanism import Design, Mechanism

SHARE_OF_CURVE = 0.5
"""The share of the chance of an error that is kept for a curve."""


def certify(
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    *,
    attempts: int = 1,
    seed: int | None = None,
    failure_probability: float | None = None,
    max_samples: int | None = None,
    memory: int = DEFAULT_MEMORY,
    model_size: int | None = None,
    num_examples: int | None = None,
    curve: bool = False,
    alongside: Sequence[Any] = (),
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> Certificate:
    """Test whether a mechanism is (epsilon, delta)-DP, and return the certificate of the outcome.

    Exact curves need no samples, down to deltas that their rounding allows. Otherwise samples come from the
    distribution with the lowest bound, and a test by betting stops as soon as it is sure, either way.

    Args:
        mechanism: The mechanism that is tested.
        epsilon: The budget's epsilon.
        delta: The budget's delta.
        attempts: The most mechanisms that are tested, of which one that passes is run. They share the chance of an
            error.
        seed: The number that samples come from. By default it is drawn from the system's entropy, and recorded. A
            rejected test may be continued (same seed, larger `max_samples`), never begun again with another seed.
        failure_probability: The chance that a mechanism passes that should not. By default it is delta/100.
        max_samples: The number of samples at which a test ends. By default a test ends when its wealth grows too slowly
            to get anywhere.
        memory: The most bytes of a table of a sampling distribution.
        model_size: The number of trainable parameters. A small part of the budget is kept for rounding in a run that
            releases so many values in each iteration. By default it is enough for 1e10 released values in all.
        num_examples: The number of examples that the mechanism is run on, for the record: a training from the
            certificate refuses another number. The proofs do not depend on it. By default it is that of the truncation,
            if there is one.
        curve: Whether to prove delta at other epsilons as well, for `certificate.curve`: what attackers can do, and
            several runs together. It takes more samples, and half of the chance of an error. Exact curves need neither.
        alongside: What else is released about the same data, such as a histogram: events of dp_accounting, and
            mechanisms with exact curves. The budget is for all together. The noise of the mechanism hardly grows for
            others that are much noisier, and no closed form is used for truncation.
        compute: Where samples are drawn. It does not change the result.
        journal: A file that holds what was drawn so far. The same call continues from there, after a crash and with any
            `compute`, and ends in the identical certificate.
        progress: A function that is called with how far the test is.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=1.2)
        >>> certify(mechanism, epsilon=2.0, delta=1e-3).passed
        True
        >>> import os, tempfile
        >>> journal = os.path.join(tempfile.mkdtemp(), "certify.journal")
        >>> first, second = (certify(mechanism, 2.0, 1e-3, journal=journal) for _ in range(2))
        >>> first.to_json() == second.to_json()
        True
    """
    num_examples = dataset_size(mechanism.design, num_examples)
    budget = Budget(epsilon, check_delta(delta))
    if num_examples is not None:
        warn_of_delta(budget.delta, num_examples)
    promise = Promise.of(mechanism.strategy, budget, model_size)
    verifier = betting_verifier(
        promise.tested.delta,
        attempts,
        failure_probability,
        max_samples,
        share_of_curve=SHARE_OF_CURVE if curve else 0.0,
    )
    others = Alongside.of(alongside, mechanism.scheme.unit)
    prover = Prover(promise.tested.epsilon, verifier, memory, alongside=others)
    inputs = {
        "mechanism": mechanism,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "attempts": attempts,
        "failure_probability": failure_probability,
        "max_samples": max_samples,
        "memory": memory,
        "model_size": model_size,
        "num_examples": num_examples,
        "curve": curve,
        "alongside": list(others.texts),
    }
    with begin(journal, "certify", inputs, seed, compute, progress) as run:
        prover = replace(prover, compute=run.compute, progress=run.progress)
        certificate = certify_by(prover, mechanism, promise, run.seed)
        certificate = with_curve(certificate, prover, run.seed, attempts) if curve else certificate
        certificate = replace(certificate, date=run.date, num_examples=num_examples)
        return run.finish(certificate, certificate.statement)


def dataset_size(design: Design, num_examples: int | None) -> int | None:
    """Return the number of examples to record: what was given, or else what batches are truncated for."""
    truncation = design.truncation
    if num_examples is None:
        return None if truncation is None else truncation.num_examples
    size = validate.integer(num_examples=num_examples, at_least=1)
    if truncation is not None and truncation.num_examples != size:
        raise ValueError(
            f"num_examples is {size:,}, but the truncation is for {truncation.num_examples:,}: leave it out."
        )
    return size


def certify_by(
    prover: Prover,
    mechanism: Mechanism,
    promise: Promise,
    seed: int,
    add_proof: Proof | None = None,
    expected: float = 0.0,
) -> Certificate:
    """Return the certificate of a mechanism by a prover.

    Args:
        add_proof: A proof of `add` by the same prover, for the same design with no more noise.
        expected: The number of samples of `remove` that should suffice, where it is known.
    """
    verifier, budget = prover.verifier, promise.tested
    curve = prover.alongside.with_curve(exact_curve(mechanism, spacing_for(budget.epsilon)))
    if curve is not None:
        # Where samples may be drawn as well, a calibration is within delta only if whatever passes keeps their level.
        exact_only = curve.carries(budget.delta) or not has_pair(mechanism.design)
        level, chance = (budget.delta, 0.0) if exact_only else (verifier.level, verifier.failure_probability)
        remove, add = (prove_exactly(curve, direction, budget.epsilon, level) for direction in DIRECTIONS)
        if exact_only or (remove.passed and add.passed):
            return _certificate(prover, mechanism, promise, seed, level, chance, (remove, add))
    proofs = prover.prove(mechanism, "remove", seed, expected), add_proof or prover.prove(mechanism, "add", seed)
    return _certificate(prover, mechanism, promise, seed, verifier.level, verifier.failure_probability, proofs)


def with_curve(
    certificate: Certificate, prover: Prover, seed: int, attempts: int, samples: int = SAMPLES
) -> Certificate:
    """Return a certificate with a curve, if it passed with samples; one with exact proofs has a curve already.

    Args:
        certificate: The certificate.
        prover: The prover of the certificate, whose test keeps a share of the chance of an error.
        seed: The seed that the prover was given.
        attempts: The most curves that are made, of which one is relied on.
        samples: The number of samples of each distribution.
    """
    if not certificate.passed or all(isinstance(proof, ExactProof) for proof in certificate.proofs):
        return certificate
    chance = prover.verifier.failure_probability_of_curve / attempts
    proven = prove_curve(prover, certificate.mechanism, certificate.level, chance, attempts, seed, samples)
    return replace(certificate, curve_proof=proven)


def not_certified(mechanism: Mechanism, budget: Budget, seed: int, reason: str) -> Certificate:
    """Return a certificate that was refused without a test, and says why."""
    promise = Promise.of(mechanism.strategy, budget, None)
    verifier, epsilon = betting_verifier(promise.tested.delta), promise.tested.epsilon
    remove, add = (Refusal(Claim(direction, epsilon, verifier.level), reason) for direction in DIRECTIONS)
    prover = Prover(epsilon, verifier)
    return _certificate(prover, mechanism, promise, seed, verifier.level, verifier.failure_probability, (remove, add))


def _certificate(
    prover: Prover,
    mechanism: Mechanism,
    promise: Promise,
    seed: int,
    level: float,
    failure_probability: float,
    proofs: tuple[Proof, Proof],
) -> Certificate:
    verifier: Verifier = prover.verifier
    return Certificate(
        description=mechanism.describe(),
        epsilon=promise.budget.epsilon,
        delta=promise.budget.delta,
        unit=mechanism.scheme.unit,
        adjacency=ADJACENCY,
        assumptions=mechanism.scheme.assumptions,
        reserve=promise.reserve,
        level=level,
        failure_probability=failure_probability,
        attempts=verifier.attempts,
        proofs=proofs,
        test=verifier.kind,
        seed=seed,
        max_samples=verifier.max_samples,
        memory=prover.memory,
        date=today(),
        versions=library_versions(),
        alongside=prover.alongside.records,
    )
