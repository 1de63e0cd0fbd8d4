"""The checker: whether the proofs of a certificate hold, from what it records and nothing else.

For every proof it rebuilds the pair, the law and the bound that are recorded, draws the recorded number of samples from
the recorded seed, and requires the recorded wealth. It searches for nothing, estimates nothing and gives up on nothing.
The theorems are in docs/certified-sampling.md. Every number of a proof must also be what comes out again, so that a
changed file does not pass.
"""

import json
import math

import numpy as np

from minsep.accounting.certification.certificate import ADJACENCY, Certificate
from minsep.accounting.certification.claims import Claim, claim_of, is_immediate
from minsep.accounting.certification.curve_checker import check_curve
from minsep.accounting.certification.draws import draw_values
from minsep.accounting.certification.errors import RELATIVE_TOLERANCE, CheckError, require, require_equal
from minsep.accounting.certification.proofs import (
    AverageOutcome,
    BettingOutcome,
    BoundProof,
    ExactProof,
    ImmediateProof,
    MomentProof,
    Proof,
    SampledProof,
    TangentProof,
)
from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.exact import spacing_for
from minsep.accounting.importance import BoundedLaw, PlainLaw, add_bound, law_from
from minsep.accounting.reduction import Alongside, reduction_for, unreduced
from minsep.accounting.schemes import exact_curve
from minsep.accounting.sequential import MOST_LEVEL, Wealth, false_pass_probability
from minsep.core.budget import Budget
from minsep.engine import Compute
from minsep.mechanism import Mechanism

_UNUSED_SHARE_OF_DELTA = 0.01  # of delta, by a test with a whole number of samples
_MOST_ITERATIONS = 5_000_000


def check(certificate: Certificate, compute: Compute, *, curve: bool = True) -> None:
    """Raise an error unless every proof of a certificate holds, that of its curve included if asked for."""
    iterations = certificate.description["strategy"].get("iterations", 0)
    require(iterations <= _MOST_ITERATIONS, f"{iterations:,} iterations are too many to check")
    mechanism = certificate.mechanism
    same = json.loads(json.dumps(mechanism.describe())) == json.loads(json.dumps(certificate.description))
    require(same, "the mechanism is not described in the canonical form")
    _check_terms(certificate, mechanism)
    alongside = Alongside.of([*Alongside.read(certificate.alongside).items], certificate.unit)
    require(list(alongside.records) == list(certificate.alongside), "what runs alongside is not in the canonical form")
    for direction, proof in zip(DIRECTIONS, certificate.proofs, strict=True):
        require(proof.direction == direction, f"the proof of {direction} is of {proof.direction}")
        require(proof.passed, f"{direction} was refused: {proof.summary()}")
    for proof in sorted(certificate.proofs, key=lambda proof: proof.samples):  # what is quick to refuse comes first
        _check_proof(proof, certificate, mechanism, alongside, compute)
    if curve and certificate.curve_proof is not None:
        check_curve(certificate.curve_proof, mechanism, certificate.level, alongside, compute)


def _chance_of_curves(certificate: Certificate) -> float:
    """Return the chance of an error that is kept for curves, of which this one is relied on."""
    curve = certificate.curve_proof
    return 0.0 if curve is None else curve.failure_probability * curve.attempts


def _check_terms(certificate: Certificate, mechanism: Mechanism) -> None:
    """Check what is promised to whom, and that it follows from the level and the chance of an error (Theorem 3)."""
    scheme = mechanism.scheme
    require(certificate.unit == scheme.unit, f"the unit is {certificate.unit!r}, but should be {scheme.unit!r}")
    require(certificate.adjacency == ADJACENCY, f"the adjacency is {certificate.adjacency!r}, not {ADJACENCY!r}")
    recorded = sorted(assumption.name for assumption in certificate.assumptions)
    needed = sorted(assumption.name for assumption in scheme.assumptions)
    require(recorded == needed, f"the assumptions are {recorded}, but should be {needed}")
    budget = Budget(certificate.epsilon, certificate.delta)
    require(certificate.reserve.suffices(mechanism.strategy, budget), "the reserve for rounding is too small")
    level, chance, delta = certificate.level, certificate.failure_probability, certificate.tested.delta
    require(certificate.epsilon > 0 and certificate.attempts >= 1, "epsilon or attempts is out of its range")
    require(0 < level <= delta < 1 and 0 <= chance < 1, "level or failure_probability is out of its range")
    curve = certificate.curve_proof
    if curve is not None:
        share = curve.failure_probability
        require(0 < share < 1 and curve.attempts >= 1, "the chance that the curve errs is out of its range")
        require(_chance_of_curves(certificate) < chance, "the chance that the curve errs leaves none for the tests")
    whole = (level + chance * (1 - level)) / delta
    unused = _UNUSED_SHARE_OF_DELTA if certificate.test == "fixed" else RELATIVE_TOLERANCE
    require(1 - unused <= whole <= 1 + 1e-12, "level and failure_probability do not make delta")


def _check_proof(
    proof: Proof, certificate: Certificate, mechanism: Mechanism, alongside: Alongside, compute: Compute
) -> None:
    epsilon, direction = certificate.tested.epsilon, proof.direction
    payoff = alongside.payoff(direction)
    if isinstance(proof, ExactProof):
        curve = alongside.with_curve(exact_curve(mechanism, spacing_for(epsilon)))
        require(curve is not None and curve.method == proof.method, f"there is no {proof.method} curve")
        delta = math.nan if curve is None else float(curve.delta(epsilon, direction))
        require_equal("delta", proof.delta, delta)
        _require_claim(proof.claim, Claim(direction, epsilon, certificate.level))
        require(delta <= certificate.level, f"delta is {delta:g}, above {certificate.level:g}")
        return
    if isinstance(proof, TangentProof | MomentProof | BoundProof | SampledProof):
        # More noise is never less private.
        require(proof.noise_multiplier <= mechanism.noise_multiplier, "a proof has more noise than the mechanism")
        mechanism = mechanism.with_noise_multiplier(proof.noise_multiplier)
    if certificate.test == "fixed" or alongside:  # the paper's verifier takes nothing off
        reduction = unreduced(mechanism, epsilon, payoff.infinite)
    else:
        reduction = reduction_for(mechanism, epsilon, direction, proof.claim.truncation_rounds)
    pair, claim = reduction.pair, claim_of(reduction, direction, certificate.level)
    _require_claim(proof.claim, claim)  # from here on only what was computed here counts
    require(claim.level > 0, "nothing is left of delta")
    require(direction == "remove" or not pair.upper_bound or isinstance(proof, ImmediateProof), "`add` is not covered")
    match proof:
        case ImmediateProof():
            require(is_immediate(reduction, direction, payoff), "delta is not 0 there")
        case TangentProof():
            tangent = pair.tangent(proof.tangent_distance)
            require(tangent is not None and direction == "add" and not alongside, "there is no tangent")
            bound = math.nan if tangent is None else add_bound(tangent, claim.epsilon)
            require_equal("bound", proof.bound, bound)
            require(bound <= claim.level, f"the bound {bound:g} is above the level {claim.level:g}")
        case MomentProof():
            moments = pair.moments
            require(moments is not None and direction == "add" and not alongside, "there is no moment")
            bound = math.nan if moments is None else moments.bound(claim.epsilon, proof.order)
            require_equal("bound", proof.bound, bound)
            require(bound <= claim.level, f"the bound {bound:g} is above the level {claim.level:g}")
        case BoundProof():
            law = law_from(proof.law, pair, direction, payoff)
            bound = law.upward_bound(claim.epsilon)
            _require_law(proof, law, bound)
            require(bound <= claim.level, f"the bound {bound:g} is above the level {claim.level:g}")
        case SampledProof():
            chance = (certificate.failure_probability - _chance_of_curves(certificate)) / certificate.attempts
            require_equal("false_pass_probability", proof.false_pass_probability, chance)
            require(chance > 0 and proof.samples >= 1, "a test needs samples and a chance of an error")
            if isinstance(proof.outcome, BettingOutcome):
                law = law_from(proof.law, pair, direction, payoff)
                _check_wealth(proof, proof.outcome, claim, law, chance, compute)
            elif isinstance(proof.outcome, AverageOutcome):
                require(not alongside, "an average is of a mechanism alone")
                require(proof.law == PlainLaw(pair, direction).describe(), "an average is of plain samples")
                _check_average(proof, proof.outcome, claim, PlainLaw(pair, direction), chance, compute)
            else:
                raise CheckError("there is no such outcome")
        case _:
            raise CheckError(proof.summary())


def _check_wealth(
    proof: SampledProof, outcome: BettingOutcome, claim: Claim, law: BoundedLaw, chance: float, compute: Compute
) -> None:
    """Check a test by betting (Theorem 1), with the bound of its law (Lemmas 2 to 4, rounded as in section 5)."""
    bound, target = law.upward_bound(claim.epsilon), -math.log(chance)
    _require_law(proof, law, bound)
    wealth = Wealth.start(claim.level - bound * law.distance, bound)
    for values in draw_values(law, claim.epsilon, proof.seed, outcome.samples, compute):
        wealth = wealth.after(values)
        decided = abs(wealth.log_wealth) >= target
        require(not decided or wealth.samples == outcome.samples, f"the test ended after {wealth.samples:,} samples")
    require_equal("log_wealth", outcome.log_wealth, wealth.log_wealth)
    require(wealth.log_wealth >= target, "the wealth does not suffice")


def _check_average(
    proof: SampledProof, outcome: AverageOutcome, claim: Claim, law: PlainLaw, chance: float, compute: Compute
) -> None:
    """Check the paper's verifier, whose Chernoff bound allows for the generator at levels below 1/2."""
    _require_law(proof, law, 1.0)
    whole = outcome.threshold + law.distance
    require_equal("false_pass_probability", chance, false_pass_probability(whole, claim.level, outcome.samples))
    drawn = draw_values(law, claim.epsilon, proof.seed, outcome.samples, compute)
    mean = sum(float(np.minimum(values, 1.0).sum()) for values in drawn) / outcome.samples
    require_equal("mean", outcome.mean, mean)
    require(mean <= outcome.threshold < whole < claim.level < MOST_LEVEL, f"the average {mean:g} is too large")


def _require_law(proof: BoundProof | SampledProof, law: BoundedLaw, bound: float) -> None:
    require_equal("log_constant", proof.log_constant, law.log_constant)
    require_equal("bound", proof.bound, bound)


def _require_claim(recorded: Claim, needed: Claim) -> None:
    for name in ("epsilon", "level", "truncation_terms"):
        require_equal(name, getattr(recorded, name), getattr(needed, name))
    rounds = recorded.truncation_rounds, needed.truncation_rounds
    require(rounds[0] == rounds[1], f"truncation_rounds is {rounds[0]}, but should be {rounds[1]}")
