"""Certificates: a proof of (epsilon, delta)-DP that a third party can check.

A certificate states that a test accepted the mechanism in both directions. A mechanism that is not (epsilon, level)-DP
is accepted with probability at most `failure_probability`, so a mechanism that is run only if it is certified is
(epsilon, delta)-DP with delta = level + failure_probability (1 - level). It holds no data of any person. That the seed
was drawn once, and that no more than `attempts` mechanisms were tested, is the prover's word.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep import _validation as validate
from minsep.accounting.betting import Wealth
from minsep.accounting.convexity import add_bound
from minsep.accounting.exact import ExactCurve, exact_curve
from minsep.accounting.fixed_sample import FixedSampleTest, fixed_sample_test
from minsep.accounting.pairs import DIRECTIONS, Direction, MinSepPair, Pair
from minsep.accounting.proposals import DEFAULT_MEMORY, PlainProposal, Proposal, ShiftedProposal, best_proposal
from minsep.accounting.support import pair_of, tiltable
from minsep.accounting.truncation import Shift, closed_form
from minsep.attribution import assumptions
from minsep.engine import run_chunks
from minsep.identity import Description
from minsep.mechanism import Mechanism
from minsep.participation import BallsInBins, MinSep, Poisson
from minsep.randomness import Key

FloatArray = NDArray[np.float64]

FORMAT = 1
# Proven in docs/certified-sampling.md to be more than the rounding error of a log likelihood ratio.
ROUNDING = 1e-6
_PATIENCE, _MOST_PATIENCE = 6.0, 40.0
_TRIFLING_WORK = 2e8  # samples times iterations: some seconds
_CHEAP_WORK = 1.2e9  # samples times iterations: under a minute
_FAIR_SHARE, _HOPE = 0.25, 0.65
_TOLERANCE = 1e-6
TESTS = ("betting", "fixed")


@dataclass(frozen=True)
class Progress:
    """Where a test is."""

    direction: Direction
    samples: int
    limit: int
    log_wealth: float
    target: float


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class DirectionProof:
    """How one direction was proven, or why it was not."""

    direction: Direction
    method: str
    passed: bool
    reason: str
    noise_multiplier: float
    """That of the mechanism, or a smaller one: more noise is never less private."""
    seed: int
    epsilon: float
    level: float
    truncation_terms: float = 0.0
    copies: int = 0
    scale: float = 0.0
    log_constant: float = 0.0
    bound: float = 0.0
    samples: int = 0
    log_wealth: float = 0.0
    mean: float = 0.0
    """Average of the values of a fixed number of samples."""
    distance: float = 0.0
    """Where the tangent touches, for noise that is moved along one."""
    tested: str = ""
    """Fingerprint of the mechanism with this noise multiplier."""
    chance: float = 0.0
    """Of this test to pass although it should not."""


@dataclass(frozen=True)
class Certificate:
    """The outcome of a test of one mechanism at one (epsilon, delta), with all that is needed to repeat it."""

    mechanism: Description
    epsilon: float
    delta: float
    failure_probability: float
    level: float
    test: str
    attempts: int
    max_samples: int | None
    memory: int
    seed: int
    proofs: tuple[DirectionProof, DirectionProof]
    versions: dict[str, str]
    format: int = FORMAT

    @property
    def passed(self) -> bool:
        """Whether the mechanism is certified."""
        return all(proof.passed for proof in self.proofs)

    @property
    def samples(self) -> int:
        """Number of samples of both directions."""
        return sum(proof.samples for proof in self.proofs)

    @property
    def statement(self) -> str:
        """What the certificate says, in words."""
        if not self.passed:
            reasons = "; ".join(f"{proof.direction}: {proof.reason}" for proof in self.proofs if not proof.passed)
            return f"Not certified as ({self.epsilon:g}, {self.delta:g})-DP: {reasons}."
        conditions = "".join(f" {sentence}" for sentence in [assumptions(self.mechanism["scheme"])] if sentence)
        if self.failure_probability == 0:
            return f"The mechanism is ({self.epsilon:g}, {self.delta:g})-DP.{conditions}"
        return (
            f"Run only because it is certified, the mechanism is ({self.epsilon:g}, {self.delta:g})-DP: a mechanism "
            f"that is not ({self.epsilon:g}, {self.level:.6g})-DP passes with probability at most "
            f"{self.failure_probability:.3g}.{conditions}"
        )

    def to_json(self) -> str:
        """Return the certificate as JSON."""
        content = {**asdict(self), "passed": self.passed, "statement": self.statement}
        return json.dumps(content, indent=2, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file."""
        Path(path).write_text(self.to_json() + "\n")

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate; whether it holds is for `verify` to say."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(
                    f"The certificate has format {content['format']!r}, but this version of minsep reads {FORMAT}."
                )
            passed, statement = content.pop("passed"), content.pop("statement")
            first, second = (DirectionProof(**proof) for proof in content.pop("proofs"))
            certificate = cls(**content, proofs=(first, second))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"This is not a certificate of minsep: {error}.") from None
        if (passed, statement) != (certificate.passed, certificate.statement):
            raise ValueError("The certificate's statement does not follow from its numbers: the file was changed.")
        return certificate

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Certificate":
        """Read a certificate from a file."""
        return cls.from_json(Path(path).read_text())


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

    - Exact curves need no samples. Otherwise samples come from the tilted proposal of least bound, and a test by
      betting stops as soon as it is sure.
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
    delta = validate.real(delta=delta, above=0, at_most=1)
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
    curve = exact_curve(mechanism)
    if curve is not None:
        exact = [_exact_proof(mechanism, curve, direction, seed, epsilon, delta) for direction in DIRECTIONS]
        return Certificate(**common, failure_probability=0.0, level=delta, proofs=(exact[0], exact[1]))
    tested = _Test(mechanism, epsilon, plan, seed, memory, workers, executor, progress)
    if add_proof is not None:
        _check_add_proof(add_proof, mechanism, epsilon, plan)
    proofs = tested.prove("remove"), add_proof or tested.prove("add")
    return Certificate(**common, failure_probability=plan.failure_probability, level=plan.level, proofs=proofs)


def _check_add_proof(
    proof: DirectionProof, mechanism: Mechanism, epsilon: float, plan: "BettingTest | FixedSampleTest"
) -> None:
    """Refuse a proof that is not one of `add`, for this mechanism with no more noise and the same test."""
    if proof.direction != "add" or not proof.passed or proof.noise_multiplier > mechanism.noise_multiplier:
        raise ValueError(
            f"add_proof is of {proof.direction!r} at noise multiplier {proof.noise_multiplier:g}, but it must have "
            f"passed for 'add' at no more than that of the mechanism, {mechanism.noise_multiplier:g}."
        )
    quieter = mechanism.with_noise_multiplier(proof.noise_multiplier)
    _, shift = _what_to_test(quieter, epsilon, plan, "add")
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
    return _Test(mechanism, epsilon, plan, seed, memory, workers, executor, progress).prove("add")


def verify(certificate: Certificate, *, workers: int | None = None, executor: Executor | None = None) -> Verification:
    """Check a certificate: compute its parameters and bounds anew, draw its samples again, and compare.

    >>> import minsep
    >>> identity = minsep.BandedToeplitz.identity(iterations=100)
    >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=1.0)
    >>> certificate = certify(mechanism, epsilon=2.0, delta=1e-3)
    >>> verify(certificate).holds
    True
    """
    try:
        mechanism = Mechanism.from_description(certificate.mechanism)
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
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        return Verification(False, f"The certificate's mechanism or parameters are not valid: {error}")
    difference = _difference(json.loads(certificate.to_json()), json.loads(again.to_json()))
    if difference:
        return Verification(False, f"The certificate does not hold: {difference}.")
    if not certificate.passed:
        return Verification(False, "The certificate is of a mechanism that did not pass.")
    return Verification(True, certificate.statement)


@dataclass(frozen=True)
class BettingTest:
    """A test that stops as soon as its wealth is 1/chance."""

    level: float
    chance: float
    failure_probability: float
    max_samples: int | None


def test_plan(
    test: str, delta: float, attempts: int, failure_probability: float | None, max_samples: int | None
) -> BettingTest | FixedSampleTest:
    """Return what is tested, with which chance of error: all of it fixed before the first sample."""
    validate.choice(TESTS, test=test)
    attempts = validate.integer(attempts=attempts, at_least=1)
    if test == "fixed":
        for name, value in (("failure_probability", failure_probability), ("max_samples", max_samples)):
            if value is not None:
                raise ValueError(f"{name} is {value!r}, but test='fixed' derives it from delta: leave it out.")
        return fixed_sample_test(delta, attempts)
    if failure_probability is None:
        failure_probability = delta / 100
    failure_probability = validate.real(failure_probability=failure_probability, above=0)
    if failure_probability >= delta:
        raise ValueError(f"failure_probability is {failure_probability:g}, but it must be below delta = {delta:g}.")
    if max_samples is not None:
        max_samples = validate.integer(max_samples=max_samples, at_least=1)
    level = (delta - failure_probability) / (1 - failure_probability)
    return BettingTest(level, failure_probability / attempts, failure_probability, max_samples)


class _Test:
    def __init__(
        self,
        mechanism: Mechanism,
        epsilon: float,
        plan: BettingTest | FixedSampleTest,
        seed: int,
        memory: int,
        workers: int | None,
        executor: Executor | None,
        progress: Report | None,
    ) -> None:
        self._mechanism, self._epsilon, self._plan = mechanism, epsilon, plan
        self._level, self._target = plan.level, -math.log(plan.chance)
        self._seed = seed
        self._key = Key.from_seed(seed).derive("certificate")
        self._memory = memory
        self._workers, self._executor, self._progress = workers, executor, progress

    def prove(self, direction: Direction) -> DirectionProof:
        """Test one direction."""
        pair, shift = _what_to_test(self._mechanism, self._epsilon, self._plan, direction)
        level = shift.level(self._level)
        common: dict[str, Any] = {
            "direction": direction,
            "noise_multiplier": self._mechanism.noise_multiplier,
            "seed": self._seed,
            "epsilon": shift.epsilon,
            "level": level,
            "truncation_terms": shift.extra,
            "tested": self._mechanism.fingerprint,
            "chance": self._plan.chance,
        }
        if level <= 0:
            return DirectionProof(**common, method="closed form", passed=False, reason="truncation alone exceeds delta")
        if shift.free or (direction == "add" and math.exp(-shift.epsilon) <= pair.no_participation):
            return DirectionProof(**common, method="free", passed=True, reason="")
        if direction == "add" and pair.upper_bound:
            return DirectionProof(
                **common, method="none", passed=False, reason="the upper bound on P/Q does not cover it"
            )
        if direction == "add" and isinstance(pair, MinSepPair):
            bound = add_bound(pair, shift.epsilon)
            if bound <= level:
                return DirectionProof(**common, method="convexity", passed=True, reason="", bound=bound)
        if isinstance(self._plan, FixedSampleTest):
            return self._average(PlainProposal(pair, direction), self._plan, common)
        proposal = best_proposal(pair, direction, shift.epsilon, self._memory, enough=0.99 * level)
        bound = math.exp(_log_bound(proposal, shift.epsilon))
        common |= {
            "method": proposal.method,
            "copies": proposal.copies,
            "scale": proposal.scale,
            "log_constant": proposal.log_constant,
            "bound": bound,
            "distance": proposal.distance if isinstance(proposal, ShiftedProposal) else 0.0,
        }
        if bound <= level:
            return DirectionProof(**common, passed=True, reason="")
        limit = self._plan.max_samples or self._patience(bound / level * self._target)
        wealth = self._bet(proposal, shift.epsilon, level, bound, limit)
        passed = wealth.log_wealth >= self._target
        reason = "" if passed else wealth.broken or f"{wealth.samples:,} samples did not suffice"
        finite = max(wealth.log_wealth, -1e300)
        return DirectionProof(**common, passed=passed, reason=reason, samples=wealth.samples, log_wealth=finite)

    def _patience(self, least: float) -> int:
        """Return after how many samples to give up: some times the least that can do, more where that is cheap."""
        n = self._mechanism.iterations
        cheap = min(max(_MOST_PATIENCE * least, _TRIFLING_WORK / n), _CHEAP_WORK / n)
        return math.ceil(max(_PATIENCE * least, cheap))

    def _bet(self, proposal: Proposal, epsilon: float, level: float, bound: float, limit: int) -> Wealth:
        wealth = Wealth.start(level, bound)
        patient = isinstance(self._plan, BettingTest) and self._plan.max_samples is not None
        for values in self._values(proposal, epsilon, limit):
            wealth = wealth.after(values)
            if self._progress is not None:
                self._progress(Progress(proposal.direction, wealth.samples, limit, wealth.log_wealth, self._target))
            if wealth.broken or wealth.log_wealth >= self._target or (not patient and self._hopeless(wealth, limit)):
                break
        return wealth

    def _hopeless(self, wealth: Wealth, limit: int) -> bool:
        """Whether the wealth grows so slowly that it will hardly reach the target."""
        growth = (wealth.log_wealth + wealth.cost_of_choice) / wealth.samples
        return wealth.samples > _FAIR_SHARE * limit and growth * limit < _HOPE * self._target

    def _average(self, proposal: Proposal, plan: FixedSampleTest, common: dict[str, Any]) -> DirectionProof:
        """Draw all samples of the paper's verifier, and compare their average with its threshold."""
        samples, total = 0, 0.0
        for values in self._values(proposal, self._epsilon, plan.samples):
            samples += values.size
            total += float(np.minimum(values, 1.0).sum())
            if self._progress is not None:
                self._progress(Progress(proposal.direction, samples, plan.samples, 0.0, self._target))
        mean = total / samples
        # Not a number compares as false: it does not pass.
        passed = mean <= plan.threshold
        reason = "" if passed else f"the average is {mean:.4g}, above delta/2 = {plan.threshold:.4g}"
        mean = mean if math.isfinite(mean) else 1.0
        return DirectionProof(
            **common,
            method="plain",
            passed=passed,
            reason=reason,
            copies=1,
            scale=1.0,
            bound=1.0,
            samples=samples,
            mean=mean,
        )

    def _values(self, proposal: Proposal, epsilon: float, limit: int) -> Iterator[FloatArray]:
        chunks = -(-limit // proposal.samples_in_chunk)
        work = partial(_chunk_values, proposal, epsilon, self._key, limit)
        return run_chunks(work, chunks, workers=self._workers, executor=self._executor)


def _what_to_test(
    mechanism: Mechanism, epsilon: float, plan: "BettingTest | FixedSampleTest", direction: Direction
) -> tuple[Pair, Shift]:
    if isinstance(plan, FixedSampleTest):
        return pair_of(mechanism, np.float64), Shift(epsilon, 0.0)
    return reduced(mechanism, epsilon, plan.level, direction)


def reduced(mechanism: Mechanism, epsilon: float, level: float, direction: Direction) -> tuple[Pair, Shift]:
    """Return the pair to sample from, and what truncation adds to its delta.

    A truncation has a closed form that leaves the pair as it was; where that is not known, or leaves nothing of the
    level, the pair is that of the paper's recursions given the others' batch sizes.
    """
    if mechanism.truncation is None:
        return tiltable(pair_of(mechanism, np.float64)), Shift(epsilon, 0.0)
    scheme = _as_min_sep(mechanism)
    if scheme is not None:
        whole = pair_of(Mechanism(mechanism.strategy, scheme, mechanism.noise_multiplier), np.float64)
        shifts = closed_form(
            scheme, mechanism.iterations, mechanism.truncation, direction, epsilon, whole.no_participation
        )
        best = max(shifts, key=lambda shift: shift.level(level), default=None)
        if best is not None and best.level(level) > 0 and not whole.upper_bound:
            return whole, best
    return pair_of(mechanism, np.float64), Shift(epsilon, 0.0)


def upward_values(
    direction: Direction, copies: int, log_ratio: FloatArray, log_density: FloatArray, epsilon: float
) -> FloatArray:
    """Return values no smaller than X, whatever rounding did to the logarithms; NaN where these are not known."""
    h = ROUNDING
    log_ratio = np.where(log_ratio < np.inf, log_ratio, np.nan)
    log_density = np.where(log_density < np.inf, log_density, np.nan)
    if direction == "remove":
        up = log_ratio + h
        log_front = up - log_density + (copies + 1) * h
        return np.where(up <= epsilon, 0.0, np.exp(log_front) * -np.expm1(np.minimum(epsilon - up, 0.0)))
    gap = epsilon - h + log_ratio
    return np.where(gap >= 0, 0.0, np.exp(-log_density + (copies + 1) * h) * -np.expm1(np.minimum(gap, 0.0)))


def _log_bound(proposal: Proposal, epsilon: float) -> float:
    """Return a bound on the upward values."""
    return proposal.log_bound(epsilon - 2 * ROUNDING) + (2 * proposal.copies + 3) * ROUNDING


@lru_cache(maxsize=4)
def _shared(proposal: Proposal) -> Proposal:
    """Return the first equal proposal: its tables are made once in every process."""
    return proposal


def _chunk_values(proposal: Proposal, epsilon: float, key: Key, limit: int, chunk: int) -> FloatArray:
    proposal = _shared(proposal)
    log_ratio, log_density = proposal.draw(key, chunk)
    values = upward_values(proposal.direction, proposal.copies, log_ratio, log_density, epsilon)
    return values[: limit - chunk * values.size]


def _as_min_sep(mechanism: Mechanism) -> MinSep | None:
    match mechanism.scheme:
        case MinSep() as scheme:
            return scheme
        case Poisson(rate=rate):
            return MinSep(rate=rate, min_sep=1)
        case BallsInBins(epoch=epoch):
            return MinSep(rate=1 / epoch, min_sep=epoch)
    return None


def _exact_proof(
    mechanism: Mechanism, curve: ExactCurve, direction: Direction, seed: int, epsilon: float, delta: float
) -> DirectionProof:
    found = float(curve.delta(epsilon, direction))
    passed = found <= delta
    reason = "" if passed else f"delta is {found:.4g}"
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
        if recorded.get("minsep") != found["minsep"]:
            return f"it was made by minsep {recorded.get('minsep')}, and this is {found['minsep']}"
        return ""
    both_numbers = all(isinstance(value, float | int) and not isinstance(value, bool) for value in (recorded, found))
    if (
        both_numbers
        and isinstance(recorded, float)
        and math.isclose(recorded, found, rel_tol=_TOLERANCE, abs_tol=1e-300)
    ):
        return ""
    return "" if recorded == found else f"{name[1:]} is {recorded!r}, but should be {found!r}"
