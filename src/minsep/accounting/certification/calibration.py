"""The smallest noise multiplier with a certificate: the paper's estimate-verify-release without empty outputs.

The ladder of noise multipliers is fixed beforehand, from estimates with randomness of their own, and so is the rung at
which testing begins: the lowest that should pass with a reasonable number of samples. From one that does not, testing
goes up. Above them stands a mechanism with a deterministic proof, so there is always an answer. All tests together
share the chance of an error, so the whole is (epsilon, delta)-DP.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from minsep.accounting.certification.certificate import Certificate
from minsep.accounting.certification.certify import SHARE_OF_CURVE, certify_by, dataset_size, with_curve
from minsep.accounting.certification.exact_noise import exact_mechanism
from minsep.accounting.certification.promise import Promise
from minsep.accounting.certification.prover import Outlook, Prover
from minsep.accounting.certification.tuned_budget import ATTEMPTS, TunedBudget
from minsep.accounting.curves import Trials, trials_of
from minsep.accounting.directions import Direction
from minsep.accounting.estimation import (
    TYPICAL_SLOPE,
    estimated_noise_multiplier,
    estimated_slope,
    guessed_noise_multiplier,
)
from minsep.accounting.importance import DEFAULT_MEMORY, Law
from minsep.accounting.reduction import Alongside
from minsep.accounting.schemes import exact_curve_carries, fallback, has_exact_curve, has_pair, unsupported
from minsep.accounting.sequential import betting_verifier
from minsep.core import validation as validate
from minsep.core.budget import Budget, check_delta, warn_of_delta
from minsep.core.identity import to_digits
from minsep.core.progress import Listener, Progress
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.mechanism import NOISE_DIGITS, Design, Mechanism
from minsep.participation import Scheme, Truncation
from minsep.randomness import Key
from minsep.strategy import Strategy

_RUNG_RATIO = 1.005
_RUNGS = (1, 2, 2.6, 4, 5, 6, 8, 16)
_MOST_TESTS = len(_RUNGS) + 1  # one of `add`, and one for each rung
_OUTLOOK_RUNG = 2  # the rung that shows what tests would be like
# Samples times iterations times vectors of a test: some seconds, and half a minute.
_SHORT_TEST_VALUES, _LONG_TEST_VALUES = 4e8, 6e9
_LONG_TEST_RUNG = 2  # the rung for which the longer is worth it
_ESTIMATE_SAMPLES = 16_000
_ESTIMATE_SEED = int.from_bytes(b"minsep ladder", "big")  # fixed, so that a calibration repeated finds the same ladder
_ROUGH_TOLERANCE, _ROUGH_SPACING = 0.01, 1e-3  # of the noise above which nothing is tested
_SHARE_OF_EXACT_NOISE = 0.8  # of the noise that the deterministic proof needs


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: a noise multiplier, and whether it passed.

    Attributes:
        noise_multiplier: The noise multiplier that was tested.
        passed: Whether it passed.
        samples: The number of samples that its test drew.
    """

    noise_multiplier: float
    passed: bool
    samples: int


@dataclass(frozen=True)
class Calibration:
    """The mechanism with the smallest certified noise multiplier, its certificate, and how it was found.

    Attributes:
        mechanism: The mechanism to run.
        certificate: The certificate of the mechanism.
        epsilon: The epsilon of the whole procedure.
        delta: The delta of the whole procedure, the chance of a wrong certificate included.
        rungs: The noise multipliers that were tested.
        fallback: Why the mechanism is another one than was requested. It is empty if it is not.
    """

    mechanism: Mechanism
    certificate: Certificate
    epsilon: float
    delta: float
    rungs: tuple[Rung, ...]
    fallback: str = ""


def calibrate(
    strategy: Strategy | Design,
    scheme: Scheme | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    truncation: Truncation | None = None,
    *,
    attempts: int = 1,
    near: float | None = None,
    seed: int | None = None,
    failure_probability: float | None = None,
    memory: int = DEFAULT_MEMORY,
    model_size: int | None = None,
    num_examples: int | None = None,
    curve: bool = False,
    trials: float | Trials | None = None,
    law: str = "geometric",
    alongside: Sequence[Any] = (),
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> Calibration:
    """Find the smallest noise multiplier that is certified as (epsilon, delta)-DP.

    Where an exact curve exists it gives the answer directly. Otherwise a ladder from the noise multiplier at which the
    estimated delta is the target upwards, in steps of about 0.5 %, is tested from the lowest rung on that should not
    take long. Where no rung passes, the answer is another mechanism with an exact proof, and `fallback` says so.

    Args:
        strategy: The matrix C that correlates the noise, or a `Design`, which holds the scheme and the truncation as
            well.
        scheme: How batches are sampled, such as `minsep.MinSep`.
        epsilon: The budget's epsilon.
        delta: The budget's delta.
        truncation: How every batch is truncated to one size. By default no batch is truncated.
        attempts: The most calibrations that are made, of which one is run. They share the chance of an error.
        near: The noise multiplier to look at first.
        seed: As for `certify`.
        failure_probability: As for `certify`.
        memory: As for `certify`.
        model_size: As for `certify`.
        num_examples: As for `certify`.
        curve: As for `certify`.
        trials: About how many runs share the budget, of which only the best is released: a number or a distribution, as
            for `minsep.tune`. The certificate is that of one run, with its curve. By default it is for one run.
        law: The distribution of the number of runs by its name, as for `minsep.tune`.
        alongside: As for `certify`.
        compute: As for `certify`.
        journal: As for `certify`.
        progress: A function that is called with how far the calibration is.

    Returns:
        The mechanism, its certificate, and the rungs that were tested.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
        >>> best = calibrate(strategy, minsep.MinSep(rate=0.02, min_sep=10), epsilon=2.0, delta=1e-3, seed=0)
        >>> best.certificate.passed
        True
        >>> 0.8 < best.mechanism.noise_multiplier < 0.9
        True
    """
    design = _design(strategy, scheme, truncation)
    num_examples = dataset_size(design, num_examples)
    budget = Budget(validate.real(epsilon=epsilon, above=0), check_delta(delta))
    if num_examples is not None:
        warn_of_delta(budget.delta, num_examples)
    near = None if near is None else validate.real(near=near, above=0)
    attempts = validate.integer(attempts=attempts, at_least=1)
    tuned = None if trials is None else TunedBudget(budget, trials_of(trials, law))
    work = _Work(
        design,
        attempts=attempts if tuned is None else attempts * ATTEMPTS,
        failure_probability=failure_probability,
        memory=memory,
        model_size=model_size,
        curve=curve or tuned is not None,
        near=near,
        alongside=Alongside.of(alongside, design.scheme.unit),
    )
    work.check(budget)
    inputs = {
        "design": design,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "attempts": attempts,
        "near": near,
        "failure_probability": failure_probability,
        "memory": memory,
        "model_size": model_size,
        "num_examples": num_examples,
        "curve": curve,
        "trials": trials,
        "law": law,
        "alongside": list(work.alongside.texts),
    }
    with begin(journal, "calibrate", inputs, seed, compute, progress) as run:
        if tuned is None:
            found = work.calibrate(budget, run, run.seed)
        else:
            found = tuned.find(lambda one, attempt: work.calibrate(one, run, attempt_seed(run.seed, attempt)))
            found = replace(found, epsilon=budget.epsilon)
        found = replace(found, certificate=replace(found.certificate, date=run.date, num_examples=num_examples))
        return run.finish(
            found, f"noise multiplier {found.mechanism.noise_multiplier!r}: {found.certificate.statement}"
        )


@dataclass(frozen=True)
class _Work:
    """What the calibrations of one call share."""

    design: Design
    attempts: int
    failure_probability: float | None
    memory: int
    model_size: int | None
    curve: bool
    near: float | None
    alongside: Alongside

    def check(self, budget: Budget) -> None:
        """Refuse what no calibration can do."""
        self._prover(self._promise(budget))
        if self._exactly(self._promise(budget)) and not has_exact_curve(self.design):
            raise unsupported(self.design.with_noise(1.0), "sampled")

    def calibrate(self, budget: Budget, run: Call, seed: int) -> Calibration:
        """Return the mechanism with the least noise at a budget."""
        promise = self._promise(budget)
        prover = self._prover(promise)
        if self._exactly(promise):
            # Beside others that are tested, what is run must keep their level.
            level = promise.tested.delta if self.attempts == 1 else prover.verifier.level
            return _exactly(self.design, promise, level, seed, self.alongside)
        prover = replace(prover, compute=run.compute, progress=run.progress)
        found = _Ladder(self.design, promise, prover, seed).calibrate(self.near)
        if not self.curve:
            return found
        return replace(found, certificate=with_curve(found.certificate, prover, seed, self.attempts))

    def _promise(self, budget: Budget) -> Promise:
        return Promise.of(self.design.strategy, budget, self.model_size)

    def _prover(self, promise: Promise) -> Prover:
        verifier = betting_verifier(
            promise.tested.delta,
            _MOST_TESTS * self.attempts,
            self.failure_probability,
            share_of_curve=SHARE_OF_CURVE if self.curve else 0.0,
        )
        return Prover(promise.tested.epsilon, verifier, self.memory, alongside=self.alongside)

    def _exactly(self, promise: Promise) -> bool:
        return exact_curve_carries(self.design, promise.tested.delta) or not has_pair(self.design)


def calibrate_exactly(design: Design, budget: Budget, seed: int, model_size: int | None = None) -> Calibration:
    """Return a design with an exact proof, at the level that tests before it leave: what is run if they reject."""
    promise = Promise.of(design.strategy, budget, model_size)
    level = betting_verifier(promise.tested.delta, _MOST_TESTS).level
    return _exactly(design, promise, level, seed, Alongside())


def _exactly(design: Design, promise: Promise, level: float, seed: int, alongside: Alongside) -> Calibration:
    mechanism = exact_mechanism(design, promise.tested.epsilon, level, alongside=alongside)
    certificate = _certify_exactly(mechanism, promise, seed, alongside)
    rungs = (Rung(mechanism.noise_multiplier, True, 0),)
    return Calibration(mechanism, certificate, promise.budget.epsilon, promise.budget.delta, rungs)


def _certify_exactly(mechanism: Mechanism, promise: Promise, seed: int, alongside: Alongside) -> Certificate:
    """Return the certificate of a mechanism with an exact proof."""
    prover = Prover(promise.tested.epsilon, betting_verifier(promise.tested.delta), alongside=alongside)
    return certify_by(prover, mechanism, promise, seed)


class _Ladder:
    """The rungs of one calibration, and what became of each."""

    def __init__(self, design: Design, promise: Promise, prover: Prover, seed: int) -> None:
        self._design, self._promise, self._prover, self._seed = design, promise, prover, seed
        self._budget = promise.tested
        verifier = prover.verifier
        # What is run when all tests reject must be within their level, for the whole to be within delta.
        self._safe = fallback(design, verifier.level)
        roughly = exact_mechanism(
            self._safe,
            self._budget.epsilon,
            verifier.level,
            _ROUGH_TOLERANCE,
            _ROUGH_SPACING,
            alongside=prover.alongside,
        )
        self._highest = roughly.noise_multiplier
        self._others = prover.alongside.curve if prover.alongside else None
        self._laws: dict[Direction, Law] = {}
        self._rungs = [Rung(self._highest, True, 0)]

    def calibrate(self, near: float | None) -> Calibration:
        """Test rungs until the smallest that passes is known."""
        highest = self._highest
        guess, slope = near, TYPICAL_SLOPE
        if guess is None:
            guess, slope = guessed_noise_multiplier(self._design, self._budget, _SHARE_OF_EXACT_NOISE * highest)
        center = self._estimate(guess, slope)
        in_reach = (to_digits(center * _RUNG_RATIO**steps, NOISE_DIGITS) for steps in _RUNGS)
        ladder = [sigma for sigma in in_reach if sigma < highest] or [to_digits(highest / _RUNG_RATIO, NOISE_DIGITS)]
        scouted = self._design.with_noise(ladder[min(_OUTLOOK_RUNG, len(ladder) - 1)])
        outlook = self._prover.outlook(scouted, "remove", rung_seed(_ESTIMATE_SEED, -1))
        first, expected = (0, 0.0) if outlook is None else self._first_rung(ladder, center, outlook)
        # `add` is tested once, at the first rung: what passes there holds for all above it.
        add = self._prover.prove(self._design.with_noise(ladder[first]), "add", rung_seed(self._seed, len(_RUNGS)))
        for place in range(first, len(ladder)):
            mechanism, seed = self._design.with_noise(ladder[place]), rung_seed(self._seed, place)
            certificate = certify_by(
                self._prover, mechanism, self._promise, seed, add if add.passed else None, expected
            )
            self._rungs.append(Rung(ladder[place], certificate.passed, certificate.samples))
            outcome = "passed" if certificate.passed else "rejected"
            self._prover.compute.note(
                f"noise multiplier {ladder[place]:.6g} {outcome} after {certificate.samples:,} samples"
            )
            if certificate.passed:
                return self._found(mechanism, certificate)
        return self._fall_back(certificate)

    def _found(self, mechanism: Mechanism, certificate: Certificate, fallback: str = "") -> Calibration:
        budget = self._promise.budget
        return Calibration(mechanism, certificate, budget.epsilon, budget.delta, tuple(self._rungs), fallback)

    def _first_rung(self, ladder: list[float], center: float, outlook: Outlook) -> tuple[int, float]:
        """Return the lowest rung that should pass with a reasonable amount of work, and its number of samples."""
        target = -math.log(self._prover.verifier.false_pass_probability)
        size = self._design.strategy.iterations * (1 + outlook.copies)
        slope = estimated_slope(
            self._design,
            self._budget,
            center,
            _ESTIMATE_SAMPLES // 4,
            _ESTIMATE_SEED,
            self._laws,
            self._prover.compute,
            self._others,
        )
        gaps = [-math.expm1(slope * math.log(sigma / center)) for sigma in ladder]
        works = [size * outlook.samples(gap, target) for gap in gaps]
        enough = max(_SHORT_TEST_VALUES, 1.5 * works[-1])
        first = next(place for place, work in enumerate(works) if work <= enough)
        if first > _LONG_TEST_RUNG and works[_LONG_TEST_RUNG] <= _LONG_TEST_VALUES:
            first = _LONG_TEST_RUNG
        return first, works[first] / size if math.isfinite(works[first]) else 0.0

    def _estimate(self, guess: float, slope: float) -> float:
        """Return about where the estimated delta meets the budget."""
        progress = self._prover.progress

        def report(sigma: float) -> None:
            if progress is not None:
                progress(Progress("estimating", f"noise multiplier {sigma:.4f}"))

        return estimated_noise_multiplier(
            self._design,
            self._budget,
            guess,
            _ESTIMATE_SAMPLES,
            _ESTIMATE_SEED,
            slope=slope,
            laws=self._laws,
            compute=self._prover.compute,
            report=report,
            others=self._others,
        )

    def _fall_back(self, refused: Certificate) -> Calibration:
        why = "; ".join(f"{proof.direction}: {proof.summary()}" for proof in refused.proofs if not proof.passed)
        alongside = self._prover.alongside
        safe = exact_mechanism(self._safe, self._budget.epsilon, self._prover.verifier.level, alongside=alongside)
        words = (
            f"{self._design} was not certified below noise multiplier {safe.noise_multiplier:.4g} ({why}), so this is "
            f"{safe.name}, which has an exact proof."
        )
        return self._found(safe, _certify_exactly(safe, self._promise, self._seed, alongside), words)


def _design(strategy: Strategy | Design, scheme: Scheme | None, truncation: Truncation | None) -> Design:
    if not isinstance(strategy, Design):
        if scheme is None:
            raise ValueError("scheme is None, but a strategy needs one, such as minsep.MinSep; a Design holds both.")
        return Design(strategy, scheme, truncation)
    for name, value in (("scheme", scheme), ("truncation", truncation)):
        if value is not None:
            raise ValueError(f"{name} is {value!r}, but the design has its own: leave it out.")
    return strategy


def rung_seed(seed: int, place: int) -> int:
    """Return a seed for a rung, independent of the others."""
    return _derived(seed, f"rung {place}")


def attempt_seed(seed: int, attempt: int) -> int:
    """Return a seed for an attempt, independent of the others."""
    return _derived(seed, f"attempt {attempt}")


def _derived(seed: int, name: str) -> int:
    return int.from_bytes(Key.from_seed(seed).derive(name).secret[:16], "big")
