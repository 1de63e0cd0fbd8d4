"""The prover of a curve: at which epsilons, and from which distributions. Nothing here has to be trusted."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from minsep.accounting.certification.curve_proof import CurveProof, SampledLaw, chance_of_each
from minsep.accounting.certification.levels import Direct, Levels, draw, known_levels, levels_of, lowest
from minsep.accounting.certification.prover import Prover
from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.importance import BoundedLaw, PlainLaw, best_law
from minsep.core.plain import from_plain, to_plain
from minsep.core.progress import Progress
from minsep.engine import Compute
from minsep.mechanism import Mechanism

SAMPLES = 1 << 16
"""Number of samples of a distribution of a curve, or of a part of them."""

_POINTS = 65
_LEAST_EPSILON = 1e-6  # bounds on truncation need one above 0
_FURTHEST = 2.0  # in epsilons of the budget
# The epsilons whose best distributions are drawn from, in epsilons of the budget; bounds that end a search; and how
# many times the samples. Those of `add` are quickly drawn, and have larger bounds.
_ANCHORS: dict[Direction, tuple[tuple[float, float, int], ...]] = {
    "remove": ((0.25, 0.4, 1), (1.5, 0.0, 1)),
    "add": ((0.5, 1.0, 1), (0.8, 1.0, 4), (1.0, 1.0, 4), (1.2, 1.0, 4)),
}


def prove_curve(
    prover: Prover,
    mechanism: Mechanism,
    level: float,
    failure_probability: float,
    attempts: int,
    seed: int,
    samples: int,
) -> CurveProof:
    """Return the levels that are proven for a mechanism around the epsilon of a prover.

    Args:
        prover: The prover.
        mechanism: The mechanism.
        level: The delta at which the mechanism was tested.
        failure_probability: The chance that any of the levels is too low.
        attempts: The most curves that are made, of which one is relied on.
        seed: The number that samples come from.
        samples: The number of samples of each distribution.
    """
    epsilons = (_LEAST_EPSILON, *np.linspace(0.0, _FURTHEST * prover.epsilon, _POINTS)[1:].tolist())
    directs = {way: Direct(mechanism, way, epsilons, level, prover.alongside) for way in DIRECTIONS}
    drawn = [each for direct in directs.values() for each in _laws(direct, prover.epsilon, prover.memory)]
    named = tuple(SampledLaw(law.direction, law.describe(), law.log_constant, times * samples) for law, times in drawn)
    chance, total = chance_of_each(failure_probability, len(named), len(epsilons)), sum(each.samples for each in named)
    found, done = {way: [known_levels(direct)] for way, direct in directs.items()}, 0
    for (law, _), recorded in zip(drawn, named, strict=True):
        if prover.progress is not None:
            prover.progress(Progress("testing", f"curve, {law.direction}", done, total, samples=done))
        make = partial(_levels, law, directs[law.direction], seed, recorded.samples, chance)
        name = f"curve for noise multiplier {mechanism.noise_multiplier:.6g}, {law.direction}"
        found[law.direction].append(prover.compute.remember(make, to_plain, _known, name))
        done += recorded.samples
    remove, add = (lowest(found[direction]) for direction in DIRECTIONS)
    return CurveProof(failure_probability, attempts, samples, seed, named, epsilons, remove, add)


def _levels(law: BoundedLaw, direct: Direct, seed: int, samples: int, chance: float, compute: Compute) -> Levels:
    return levels_of(draw(law, seed, samples, compute), direct, chance)


def _known(plain: object) -> Levels:
    levels: Levels = from_plain(tuple[float, ...], plain, "levels")
    return levels


def _laws(direct: Direct, epsilon: float, memory: int) -> Iterator[tuple[BoundedLaw, int]]:
    """Yield distributions whose bounds are low at different epsilons, each once, and how many times the samples."""
    if not direct.needs_samples:
        return
    pair = direct.pair
    plain = PlainLaw(pair, direct.direction, payoff=direct.payoff)
    known = [plain.describe()]
    if direct.direction == "add":  # cheap, and best at small epsilons
        yield plain, 1
    for anchor, enough, times in _ANCHORS[direct.direction]:
        reduction = _nearest(direct, anchor * epsilon)
        if reduction is None:
            continue
        law = best_law(pair, direct.direction, reduction, memory, enough, direct.payoff)
        if law.describe() not in known:
            known.append(law.describe())
            yield law, times
    if direct.direction == "remove" and len(known) == 1:
        yield plain, 1


def _nearest(direct: Direct, anchor: float) -> float | None:
    """Return the epsilon of the pair at the point nearest to an anchor; None where there is nothing to test."""
    place = int(np.argmin(np.abs(np.array(direct.epsilons) - anchor)))
    reduction = direct.reductions[place]
    if reduction is None or direct.is_immediate(reduction):
        return None
    return reduction.shift.epsilon
