"""Certificates by the verifier of the paper, and its Algorithm 5: estimate, verify, release.

The verifier draws a fixed number of plain samples, about 100/delta, and compares their average with delta/2.
"""

import os
from dataclasses import replace

from minsep import accounting
from minsep.accounting import (
    Calibration,
    Certificate,
    Promise,
    Prover,
    Rung,
    certify_by,
    estimated_noise_multiplier,
    exact_mechanism,
    fallback,
    fixed_sample_verifier,
    has_exact_curve,
    has_pair,
    rung_seed,
)
from minsep.core.budget import Budget, check_delta
from minsep.core.progress import Listener
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.mechanism import Design, Mechanism
from minsep.paper.ladder import first_exponent, power

_RUNGS = 10
_ESTIMATE_SAMPLES = 16_000
_ESTIMATE_SEED = int.from_bytes(b"paper ladder", "big")  # fixed, so that a calibration repeated finds the same ladder


def certify(
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    *,
    attempts: int = 1,
    seed: int | None = None,
    model_size: int | None = None,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> Certificate:
    """Test whether a mechanism is (epsilon, delta)-DP by the paper's verifier, and return the certificate.

    Each direction passes if the average of about 100/delta plain samples is at most delta/2. Truncated batches are
    accounted for by the paper's recursions. Mechanisms with an exact curve need no samples. `minsep.verify` checks the
    certificate.

    Args:
        mechanism: The mechanism that is tested.
        epsilon: The budget's epsilon.
        delta: The budget's delta.
        attempts: As for `minsep.certify`.
        seed: As for `minsep.certify`.
        model_size: As for `minsep.certify`.
        compute: As for `minsep.certify`.
        journal: As for `minsep.certify`.
        progress: As for `minsep.certify`.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.05, min_sep=4), noise_multiplier=1.0)
        >>> certificate = certify(mechanism, epsilon=2.0, delta=0.05)
        >>> certificate.passed, certificate.test
        (True, 'fixed')
    """
    budget = Budget(epsilon, check_delta(delta))
    promise = Promise.of(mechanism.strategy, budget, model_size)
    prover = Prover(promise.tested.epsilon, fixed_sample_verifier(promise.tested.delta, attempts))
    inputs = {
        "mechanism": mechanism,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "attempts": attempts,
        "model_size": model_size,
    }
    with begin(journal, "paper.certify", inputs, seed, compute, progress) as run:
        prover = replace(prover, compute=run.compute, progress=run.progress)
        certificate = replace(certify_by(prover, mechanism, promise, run.seed), date=run.date)
        return run.finish(certificate, certificate.statement)


def calibrate(
    design: Design,
    epsilon: float,
    delta: float,
    *,
    seed: int | None = None,
    model_size: int | None = None,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> Calibration:
    """Find the noise multiplier of a design by the paper's Algorithm 5, and its certificate.

    The ladder consists of ten powers of 1.01, from below the noise multiplier at which the estimated delta is half the
    target. Above them stands a mechanism with an exact proof. The rungs are verified from the top down, and the lowest
    one is taken above which all rungs passed. The rungs share the chance of an error, so that the certificate holds by
    itself: the paper's theorem needs no sharing, which saves about a sixth of the samples. A design with an exact curve
    needs no verifier, so its answer is that of `minsep.calibrate`.

    Args:
        design: The design that is calibrated.
        epsilon: The budget's epsilon.
        delta: The budget's delta.
        seed: As for `minsep.calibrate`.
        model_size: As for `minsep.calibrate`.
        compute: As for `minsep.calibrate`.
        journal: As for `minsep.calibrate`.
        progress: As for `minsep.calibrate`.

    Returns:
        The mechanism, its certificate, and the rungs that were tested.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
        >>> design = minsep.Design(strategy, minsep.MinSep(rate=0.05, min_sep=4))
        >>> best = calibrate(design, epsilon=2.0, delta=0.05, seed=0)
        >>> best.certificate.passed, best.certificate.test
        (True, 'fixed')
        >>> 0.5 < best.mechanism.noise_multiplier < 0.6
        True
    """
    if has_exact_curve(design) or not has_pair(design):
        return accounting.calibrate(
            design,
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            model_size=model_size,
            compute=compute,
            journal=journal,
            progress=progress,
        )
    budget = Budget(epsilon, check_delta(delta))
    promise = Promise.of(design.strategy, budget, model_size)
    prover = Prover(promise.tested.epsilon, fixed_sample_verifier(promise.tested.delta, attempts=_RUNGS))
    inputs = {"design": design, "epsilon": budget.epsilon, "delta": budget.delta, "model_size": model_size}
    with begin(journal, "paper.calibrate", inputs, seed, compute, progress) as run:
        prover = replace(prover, compute=run.compute, progress=run.progress)
        found = _descend(design, promise, prover, run)
        found = replace(found, certificate=replace(found.certificate, date=run.date))
        return run.finish(
            found, f"noise multiplier {found.mechanism.noise_multiplier!r}: {found.certificate.statement}"
        )


def _descend(design: Design, promise: Promise, prover: Prover, run: Call) -> Calibration:
    """Verify the rungs from the top down, until one is rejected."""
    budget, level = promise.tested, prover.verifier.level
    # What is run if the top rung is rejected must be within the level, for the whole to be within delta.
    safe = exact_mechanism(fallback(design, level), budget.epsilon, level)
    rungs = [Rung(safe.noise_multiplier, True, 0)]
    lowest: tuple[Mechanism, Certificate] | None = None
    for place, sigma in enumerate(_ladder(design, budget, safe.noise_multiplier, run.compute)):
        mechanism, seed = design.with_noise(sigma), rung_seed(run.seed, place)
        certificate = certify_by(prover, mechanism, promise, seed)
        rungs.append(Rung(sigma, certificate.passed, certificate.samples))
        outcome = "passed" if certificate.passed else "rejected"
        run.compute.note(f"noise multiplier {sigma:.6g} {outcome} after {certificate.samples:,} samples")
        if not certificate.passed:
            break
        lowest = mechanism, certificate
    if lowest is not None:
        return Calibration(*lowest, promise.budget.epsilon, promise.budget.delta, tuple(rungs))
    words = (
        f"{design} was not verified below noise multiplier {safe.noise_multiplier:.4g}, so this is {safe.name}, which "
        "has an exact proof."
    )
    proven = certify_by(prover, safe, promise, run.seed)
    return Calibration(safe, proven, promise.budget.epsilon, promise.budget.delta, tuple(rungs), words)


def _ladder(design: Design, budget: Budget, highest: float, compute: Compute) -> list[float]:
    """Return the rungs below the noise multiplier of the exact proof, from the top down."""
    half = replace(budget, delta=budget.delta / 2)
    estimate = estimated_noise_multiplier(design, half, highest, _ESTIMATE_SAMPLES, _ESTIMATE_SEED, compute=compute)
    first = first_exponent(estimate)
    return [sigma for place in reversed(range(_RUNGS)) if (sigma := power(first + place)) < highest]
