"""The tests behind a certificate: one direction of one mechanism, by betting or as in the b-min-sep paper."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep import _validation as validate
from minsep.accounting.betting import Wealth
from minsep.accounting.certificates import DirectionProof
from minsep.accounting.convexity import add_bound
from minsep.accounting.fixed_sample import FixedSampleTest, fixed_sample_test
from minsep.accounting.pairs import Direction, MinSepPair, Pair
from minsep.accounting.proposals import PlainProposal, Proposal, ShiftedProposal, best_proposal
from minsep.accounting.reduction import reduced
from minsep.accounting.rounding import distance_of_draws, rounding_of, rounding_of_inner_product
from minsep.accounting.support import pair_of
from minsep.accounting.truncation import Shift
from minsep.engine import run_chunks
from minsep.mechanism import Mechanism
from minsep.randomness import Key

FloatArray = NDArray[np.float64]

TESTS = ("betting", "fixed")
# What the grid of the normals may move a logarithm by. The wider, the rarer a sample that is moved further; for plain
# samples, whose bound is 1, that counts most.
_GRID, _GRID_OF_PLAIN = 1e-4, 1e-3
_PATIENCE, _MOST_PATIENCE = 6.0, 40.0
_TRIFLING_WORK = 2e8  # samples times iterations: some seconds
_CHEAP_WORK = 1.2e9  # samples times iterations: under a minute
_FAIR_SHARE, _HOPE = 0.25, 0.65


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
class BettingTest:
    """A test that stops as soon as its wealth is 1/chance."""

    level: float
    chance: float
    failure_probability: float
    max_samples: int | None


TestPlan = BettingTest | FixedSampleTest


def test_plan(
    test: str, delta: float, attempts: int, failure_probability: float | None, max_samples: int | None
) -> TestPlan:
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


class DirectionTest:
    """The test of a mechanism at an epsilon, one direction at a time."""

    def __init__(
        self,
        mechanism: Mechanism,
        epsilon: float,
        plan: TestPlan,
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
        pair, shift = what_to_test(self._mechanism, self._epsilon, self._plan, direction)
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
            return self._average(pair, direction, self._plan, common)
        proposal = best_proposal(pair, direction, shift.epsilon, self._memory, enough=0.99 * level)
        bound = math.exp(log_bound(proposal, shift.epsilon))
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
        level -= bound * _distance(proposal)
        if level <= 0:
            return DirectionProof(**common, passed=False, reason="delta is below what the generator can show")
        limit = self._plan.max_samples or self._patience(bound / level * self._target)
        wealth = self._bet(proposal, shift.epsilon, level, bound, limit)
        passed = wealth.log_wealth >= self._target
        outcome = "speak against it" if wealth.log_wealth <= -self._target else "did not suffice"
        reason = "" if passed else wealth.broken or f"{wealth.samples:,} samples {outcome}"
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
            decided = wealth.broken or abs(wealth.log_wealth) >= self._target  # far below 0 is lost as well
            if decided or (not patient and self._slow(wealth, limit)):
                break
        return wealth

    def _slow(self, wealth: Wealth, limit: int) -> bool:
        """Whether the wealth grows so slowly that it will hardly reach the target."""
        growth = (wealth.log_wealth + wealth.cost_of_choice) / wealth.samples
        return wealth.samples > _FAIR_SHARE * limit and growth * limit < _HOPE * self._target

    def _average(
        self, pair: Pair, direction: Direction, plan: FixedSampleTest, common: dict[str, Any]
    ) -> DirectionProof:
        """Draw all samples of the paper's verifier, and compare their average with its threshold."""
        proposal = PlainProposal(pair, direction)
        samples, total = 0, 0.0
        for values in self._values(proposal, self._epsilon, plan.samples):
            samples += values.size
            total += float(np.minimum(values, 1.0).sum())
            if self._progress is not None:
                self._progress(Progress(proposal.direction, samples, plan.samples, 0.0, self._target))
        mean = total / samples
        threshold = plan.threshold - _distance(proposal)
        # Not a number compares as false: it does not pass.
        passed = mean <= threshold
        reason = "" if passed else f"the average is {mean:.4g}, above delta/2 = {threshold:.4g}"
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


def what_to_test(mechanism: Mechanism, epsilon: float, plan: TestPlan, direction: Direction) -> tuple[Pair, Shift]:
    """Return the pair to sample from, and what truncation adds to its delta."""
    if isinstance(plan, FixedSampleTest):
        return pair_of(mechanism, np.float64), Shift(epsilon, 0.0)
    return reduced(mechanism, epsilon, plan.level, direction)


def upward_values(
    direction: Direction, copies: int, log_ratio: FloatArray, log_density: FloatArray, epsilon: float, h: float
) -> FloatArray:
    """Return values no smaller than X, whatever rounding by h did to the logarithms; NaN where these are not known."""
    log_ratio = np.where(log_ratio < np.inf, log_ratio, np.nan)
    log_density = np.where(log_density < np.inf, log_density, np.nan)
    if direction == "remove":
        up = log_ratio + h
        log_front = up - log_density + (copies + 1) * h
        return np.where(up <= epsilon, 0.0, np.exp(log_front) * -np.expm1(np.minimum(epsilon - up, 0.0)))
    gap = epsilon - h + log_ratio
    return np.where(gap >= 0, 0.0, np.exp(-log_density + (copies + 1) * h) * -np.expm1(np.minimum(gap, 0.0)))


def log_bound(proposal: Proposal, epsilon: float) -> float:
    """Return a bound on the upward values."""
    h = _rounding(proposal)
    return proposal.log_bound(epsilon - 2 * h) + (2 * proposal.copies + 3) * h


def _rounding(proposal: Proposal) -> float:
    """Return h: by how much logarithms may be off, because of rounding and because normals lie on a grid."""
    grid = _grid(proposal)
    if isinstance(proposal, ShiftedProposal):
        along = proposal.strength * proposal.tangent.deviation
        return grid + rounding_of(proposal.pair) + rounding_of_inner_product(proposal.pair, along)
    return grid + rounding_of(proposal.pair, proposal.copies, proposal.scale)


def _grid(proposal: Proposal) -> float:
    return _GRID_OF_PLAIN if isinstance(proposal, PlainProposal) else _GRID


def _distance(proposal: Proposal) -> float:
    # A shifted sample is moved in its own density as well.
    scale = proposal.strength if isinstance(proposal, ShiftedProposal) else proposal.scale
    return distance_of_draws(proposal.pair, _grid(proposal), proposal.copies, scale)


@lru_cache(maxsize=4)
def _shared(proposal: Proposal) -> Proposal:
    """Return the first equal proposal: its tables are made once in every process."""
    return proposal


def _chunk_values(proposal: Proposal, epsilon: float, key: Key, limit: int, chunk: int) -> FloatArray:
    proposal = _shared(proposal)
    log_ratio, log_density = proposal.draw(key, chunk)
    h = _rounding(proposal)
    values = upward_values(proposal.direction, proposal.copies, log_ratio, log_density, epsilon, h)
    return values[: limit - chunk * values.size]
