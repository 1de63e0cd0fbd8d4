"""The prover: which law to draw from, how long to be patient, and the proof that comes of it.

Nothing here has to be trusted. What a certificate says is checked by `checker`, which knows none of the choices below.
"""

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from minsep.accounting.certification.claims import Claim, claim_of, is_immediate
from minsep.accounting.certification.draws import draw_values, fold_values
from minsep.accounting.certification.proofs import (
    AverageOutcome,
    BettingOutcome,
    BoundProof,
    ExactProof,
    ImmediateProof,
    MomentProof,
    Proof,
    Refusal,
    SampledProof,
    TangentProof,
)
from minsep.accounting.directions import Direction
from minsep.accounting.exact import ExactCurve
from minsep.accounting.importance import (
    DEFAULT_MEMORY,
    FEW_TUPLES,
    BoundedLaw,
    PlainLaw,
    best_clustered,
    best_law,
    best_placed,
    best_tangent,
    law_from,
    shifted_laws,
)
from minsep.accounting.pairs import Pair
from minsep.accounting.reduction import Alongside, Reduction, best_reduction, unreduced
from minsep.accounting.sequential import MOST_LEVEL, BettingVerifier, FixedSampleVerifier, Verifier, Wealth
from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.core.plain import from_plain, to_plain
from minsep.core.progress import Listener, Progress
from minsep.engine import LOCAL, Compute, never
from minsep.mechanism import Mechanism

# After how many samples a test gives up: times the fewest that can do, and times those that should.
_FEWEST_TIMES, _FEWEST_TIMES_IF_CHEAP, _EXPECTED_TIMES = 6.0, 40.0, 3.0
_VALUES_IN_SECONDS = 2e8  # samples times iterations: some seconds
_VALUES_IN_A_MINUTE = 1.2e9  # samples times iterations: under a minute
# A test is slow if, after this share of its samples, its growth would reach less than that share of the target.
_LEAST_SHARE_OF_SAMPLES, _LEAST_SHARE_OF_TARGET = 0.25, 0.65
_MOST_BYTES = 1 << 50
_MANY_LEVELS = 1e4  # of a bound, in levels, above which another law is looked for
_LARGE_TABLE = 4e6  # numbers of a table of two copies, above which the other law is looked at first
_WORTH_OTHER_SAMPLES = 0.7  # by which the logarithm of its bound must be less
_OUTLOOK_SAMPLES, _FEWEST_POSITIVE = 2_000, 10  # samples that give an outlook


@dataclass(frozen=True)
class Outlook:
    """What a test by betting would be like, as far as a few samples of their own show.

    Attributes:
        copies: The number of copies of the distribution that it would draw from.
        bound: The bound on a value, in levels.
        variance: The variance of a value, in levels.
    """

    copies: int
    bound: float
    variance: float

    def samples(self, gap: float, target: float) -> float:
        """Return about how many samples reach a log wealth if delta is below the level by this share of it."""
        return target * max(self.bound, 2 * self.variance / gap**2 if gap > 0 else math.inf)


@dataclass(frozen=True)
class _Sums:
    """A number of samples, and the sum of their values."""

    samples: int
    total: float


@dataclass(frozen=True)
class Prover:
    """Proves single directions of mechanisms at one epsilon, by one test.

    Args:
        epsilon: The epsilon of all proofs.
        verifier: The test.
        memory: The most bytes of a table of a sampling distribution.
        compute: Where samples are drawn.
        progress: A function that is called with how far a test is.
        alongside: What runs beside the mechanisms, and is part of what is proven.
    """

    epsilon: float
    verifier: Verifier
    memory: int = DEFAULT_MEMORY
    compute: Compute = LOCAL
    progress: Listener | None = None
    alongside: Alongside = field(default_factory=Alongside)

    def __post_init__(self) -> None:
        validate.integer(memory=self.memory, at_least=1, at_most=_MOST_BYTES)

    def prove(self, mechanism: Mechanism, direction: Direction, seed: int, expected: float = 0.0) -> Proof:
        """Prove one direction of a mechanism, with samples from a seed if it needs any.

        Args:
            expected: The number of samples that should suffice, where it is known. A test is given some times as many.
        """
        reduction = self._reduction(mechanism, direction)
        pair, claim = reduction.pair, claim_of(reduction, direction, self.verifier.level)
        if claim.level <= 0:
            alone = "what runs alongside" if self.alongside else "cutting batches"
            return Refusal(claim, f"{alone} alone exceeds delta")
        if is_immediate(reduction, direction, self.alongside.payoff(direction)):
            return ImmediateProof(claim)
        if direction == "add" and pair.upper_bound:
            return Refusal(claim, "the upper bound on P/Q does not cover it")
        if direction == "add" and not self.alongside:
            bound, tangent = best_tangent(pair, claim.epsilon)
            if tangent is not None and bound <= claim.level:
                return TangentProof(claim, mechanism.noise_multiplier, tangent.distance, bound)
        if direction == "add" and pair.moments is not None and not self.alongside:
            bound, order = pair.moments.best(claim.epsilon)
            if bound <= claim.level:
                return MomentProof(claim, mechanism.noise_multiplier, order, bound)
        match self.verifier:
            case BettingVerifier() as betting:
                return self._bet(pair, claim, betting, seed, expected)
            case FixedSampleVerifier() as fixed:
                return self._average(pair, claim, fixed, seed)
        raise TypeError(f"There is no proof by {self.verifier!r}.")

    def outlook(self, mechanism: Mechanism, direction: Direction, seed: int) -> Outlook | None:
        """Return what a test of a direction by betting would be like; None where there is nothing to test."""
        reduction = self._reduction(mechanism, direction)
        pair, claim = reduction.pair, claim_of(reduction, direction, self.verifier.level)
        immediate = is_immediate(reduction, direction, self.alongside.payoff(direction))
        if claim.level <= 0 or immediate or pair.upper_bound:
            return None
        law = self._law(pair, claim)
        bound = law.upward_bound(claim.epsilon)
        if bound <= claim.level:
            return None
        scout = partial(_variance, law, claim.epsilon, claim.level, seed)
        found = self.compute.remember(scout, to_plain, partial(from_plain, float, finite=False), "variance of a value")
        # Where hardly a value is seen, it is as variable as one can be whose mean is a level.
        variance = bound / claim.level if math.isnan(found) else found
        return Outlook(law.describe().get("copies", 1), bound / claim.level, variance)

    def work_for_add(self, mechanism: Mechanism) -> float:
        """Return a bound on the values of a test of `add`, as a measure of its work; 0 where it needs no samples."""
        reduction = self._reduction(mechanism, "add")
        pair, claim = reduction.pair, claim_of(reduction, "add", self.verifier.level)
        tiltable, phases = pair.tiltable, pair.phases
        if (tiltable is None and phases is None) or is_immediate(reduction, "add"):
            return 0.0
        if best_tangent(pair, claim.epsilon)[0] <= claim.level:
            return 0.0
        if phases is not None:
            return math.exp(best_placed(phases, "add", claim.epsilon, most=FEW_TUPLES).log_bound(claim.epsilon))
        shifted = [] if tiltable is None else shifted_laws(tiltable, claim.epsilon)
        return math.exp(min((law.log_bound(claim.epsilon) for law in shifted), default=0.0))

    def _reduction(self, mechanism: Mechanism, direction: Direction) -> Reduction:
        if isinstance(self.verifier, FixedSampleVerifier):  # the paper's, to the letter
            return unreduced(mechanism, self.epsilon)
        if self.alongside:  # bounds on delta at one epsilon do not compose
            return unreduced(mechanism, self.epsilon, self.alongside.payoff(direction).infinite)
        return best_reduction(mechanism, self.epsilon, self.verifier.level, direction)

    def _law(self, pair: Pair, claim: Claim) -> BoundedLaw:
        direction = claim.direction
        choose = partial(_chosen_law, pair, direction, claim.epsilon, self.memory, 0.99 * claim.level, self.alongside)

        def known(description: Description) -> BoundedLaw:
            return law_from(description, pair, direction, self.alongside.payoff(direction))

        name = f"law for noise multiplier {pair.noise_multiplier:.6g}, {direction}"
        return self.compute.remember(choose, lambda law: law.describe(), known, name)

    def _bet(self, pair: Pair, claim: Claim, verifier: BettingVerifier, seed: int, expected: float) -> Proof:
        law = self._law(pair, claim)
        bound = law.upward_bound(claim.epsilon)
        sigma = pair.noise_multiplier
        if bound <= claim.level:
            return BoundProof(claim, sigma, law.describe(), law.log_constant, bound)
        level = claim.level - bound * law.distance
        if level <= 0:
            return Refusal(claim, "delta is below what the generator can show")
        patience = _patience(pair.strategy.iterations, bound / level * verifier.target)
        limit = verifier.max_samples or max(patience, math.ceil(_EXPECTED_TIMES * expected))
        wealth = self._wealth(law, claim, level, bound, limit, verifier, seed)
        if wealth.log_wealth < verifier.target:
            outcome = "speak against it" if wealth.log_wealth <= -verifier.target else "did not suffice"
            return Refusal(claim, wealth.broken or f"{wealth.samples:,} samples {outcome}", wealth.samples)
        return SampledProof(
            claim,
            sigma,
            law.describe(),
            law.log_constant,
            bound,
            seed,
            verifier.false_pass_probability,
            BettingOutcome(wealth.samples, wealth.log_wealth),
        )

    def _wealth(
        self,
        law: BoundedLaw,
        claim: Claim,
        level: float,
        bound: float,
        limit: int,
        verifier: BettingVerifier,
        seed: int,
    ) -> Wealth:
        """Bet until the test is decided, or hardly can be any more."""
        target = verifier.target

        def bet(wealth: Wealth, values: FloatArray) -> Wealth:
            wealth = wealth.after(values)
            self._tell(law, wealth.samples, max(wealth.log_wealth, 0.0), target)
            return wealth

        def finished(wealth: Wealth) -> bool:
            decided = wealth.broken or abs(wealth.log_wealth) >= target  # far below 0 is lost as well
            return bool(decided) or (verifier.max_samples is None and _is_slow(wealth, limit, target))

        start = Wealth.start(level, bound)
        return fold_values(law, claim.epsilon, seed, limit, start, bet, finished, self.compute)

    def _average(self, pair: Pair, claim: Claim, verifier: FixedSampleVerifier, seed: int) -> Proof:
        """Draw all samples of the paper's verifier, and compare their average with its threshold."""
        if claim.level >= MOST_LEVEL:
            return Refusal(claim, f"a fixed number of samples shows no level of {MOST_LEVEL:g} or more")
        law = PlainLaw(pair, claim.direction)

        def add(sums: _Sums, values: FloatArray) -> _Sums:
            sums = _Sums(sums.samples + values.size, sums.total + float(np.minimum(values, 1.0).sum()))
            self._tell(law, sums.samples, sums.samples, verifier.samples)
            return sums

        sums = fold_values(law, claim.epsilon, seed, verifier.samples, _Sums(0, 0.0), add, never, self.compute)
        samples, mean = sums.samples, sums.total / sums.samples
        threshold = verifier.threshold - law.distance
        # Not a number compares as false: it does not pass.
        if not mean <= threshold:
            return Refusal(claim, f"the average is {mean:.4g}, above {threshold:.4g}", samples)
        return SampledProof(
            claim,
            pair.noise_multiplier,
            law.describe(),
            law.log_constant,
            1.0,
            seed,
            verifier.false_pass_probability,
            AverageOutcome(samples, mean, threshold),
        )

    def _tell(self, law: BoundedLaw, samples: int, done: float, total: float) -> None:
        if self.progress is not None:
            detail = f"noise multiplier {law.pair.noise_multiplier:.4f}, {law.direction}"
            self.progress(Progress("testing", detail, done, total, samples))


def prove_exactly(curve: ExactCurve, direction: Direction, epsilon: float, level: float) -> Proof:
    """Return the proof of a direction by an exact curve."""
    claim = Claim(direction, epsilon, level)
    delta = float(curve.delta(epsilon, direction))
    if delta <= level:
        return ExactProof(claim, curve.method, delta)
    rounding = "" if curve.carries(level) else f", of which {curve.rounding:.2g} may be rounding"
    return Refusal(claim, f"delta is {delta:.4g}{rounding}")


def _chosen_law(
    pair: Pair,
    direction: Direction,
    epsilon: float,
    memory: int,
    enough: float,
    alongside: Alongside,
    compute: Compute,
) -> BoundedLaw:
    payoff = alongside.payoff(direction)
    many = math.log(max(_MANY_LEVELS * enough, 1e-300))
    clustered = None
    if pair.law.gap * pair.strategy.iterations > _LARGE_TABLE:
        clustered = best_clustered(pair, direction, epsilon, payoff)
        if clustered is not None and clustered.log_bound(epsilon) <= many:
            return clustered
    law = best_law(pair, direction, epsilon, memory, enough, payoff)
    if law.log_bound(epsilon) <= many:
        return law
    clustered = clustered or best_clustered(pair, direction, epsilon, payoff)
    if clustered is None or not clustered.log_bound(epsilon) < law.log_bound(epsilon) - _WORTH_OTHER_SAMPLES:
        return law
    return clustered


def _variance(law: BoundedLaw, epsilon: float, level: float, seed: int, compute: Compute) -> float:
    """Return the variance of a value in levels, as a few show it; not a number where hardly one is seen."""
    values = np.concatenate(list(draw_values(law, epsilon, seed, _OUTLOOK_SAMPLES, compute))) / level
    return float(values.var()) if np.count_nonzero(values) >= _FEWEST_POSITIVE else math.nan


def _patience(iterations: int, least: float) -> int:
    """Return after how many samples to give up: some times the least that can do, more where that is cheap."""
    cheap = min(max(_FEWEST_TIMES_IF_CHEAP * least, _VALUES_IN_SECONDS / iterations), _VALUES_IN_A_MINUTE / iterations)
    return math.ceil(max(_FEWEST_TIMES * least, cheap))


def _is_slow(wealth: Wealth, limit: int, target: float) -> bool:
    """Whether the wealth grows so slowly that it will hardly reach the target."""
    growth = (wealth.log_wealth + wealth.cost_of_choice) / wealth.samples
    return wealth.samples > _LEAST_SHARE_OF_SAMPLES * limit and growth * limit < _LEAST_SHARE_OF_TARGET * target
