"""The prover of a curve: at which epsilons, and from which distributions. Nothing here has to be trusted."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from minsep.accounting.certification.claims import is_immediate
from minsep.accounting.certification.curve_proof import CurveProof, SampledLaw, chance_of_each
from minsep.accounting.certification.levels import Direct, Draws, best_levels, draw
from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.importance import BoundedLaw, PlainLaw, best_law
from minsep.core.plain import from_plain, to_plain
from minsep.core.progress import Listener, Progress
from minsep.engine import Compute
from minsep.mechanism import Mechanism

SAMPLES = 1 << 16
"""Number of samples of each distribution of a curve."""

_POINTS = 65
_LEAST_EPSILON = 1e-6  # bounds on truncation need one above 0
_FURTHEST = 2.0  # in epsilons of the budget
# The epsilons whose best distributions are drawn from, in epsilons of the budget, and bounds that end a search.
_ANCHORS: dict[Direction, tuple[tuple[float, float], ...]] = {
    "remove": ((0.25, 0.4), (1.5, 0.0)),
    "add": ((0.5, 1.0), (1.0, 1.0), (1.5, 1.0)),
}


def prove_curve(
    mechanism: Mechanism,
    epsilon: float,
    level: float,
    failure_probability: float,
    attempts: int,
    seed: int,
    memory: int,
    samples: int,
    compute: Compute,
    progress: Listener | None,
) -> CurveProof:
    """Return the levels that are proven for a mechanism around a budget.

    Args:
        mechanism: The mechanism.
        epsilon: The epsilon at which the mechanism was tested.
        level: The delta at which the mechanism was tested.
        failure_probability: The chance that any of the levels is too low.
        attempts: The most curves that are made, of which one is relied on.
        seed: The number that samples come from.
        memory: The most bytes of a table of a sampling distribution.
        samples: The number of samples of each distribution.
        compute: Where samples are drawn.
        progress: A function that is called with how far the samples are.
    """
    make = partial(_prove, mechanism, epsilon, level, failure_probability, attempts, seed, memory, samples, progress)

    def known(plain: object) -> CurveProof:
        proof: CurveProof = from_plain(CurveProof, plain, "curve")
        return proof

    proof: CurveProof = compute.remember(make, to_plain, known, "curve")
    return proof


def _prove(
    mechanism: Mechanism,
    epsilon: float,
    level: float,
    failure_probability: float,
    attempts: int,
    seed: int,
    memory: int,
    samples: int,
    progress: Listener | None,
    compute: Compute,
) -> CurveProof:
    epsilons = (_LEAST_EPSILON, *np.linspace(0.0, _FURTHEST * epsilon, _POINTS)[1:].tolist())
    directs = {direction: Direct(mechanism, direction, epsilons, level) for direction in DIRECTIONS}
    laws = {direction: list(_laws(direct, epsilon, memory)) for direction, direct in directs.items()}
    named = tuple(
        SampledLaw(direction, law.describe(), law.log_constant) for direction in DIRECTIONS for law in laws[direction]
    )
    chance = chance_of_each(failure_probability, len(named), len(epsilons))
    levels, done = {}, 0
    for direction in DIRECTIONS:
        drawn = []
        for law in laws[direction]:
            drawn.append(_drawn(law, seed, samples, done, len(named), compute, progress))
            done += 1
        levels[direction] = best_levels(directs[direction], drawn, chance)
    remove, add = (levels[direction] for direction in DIRECTIONS)
    return CurveProof(failure_probability, attempts, samples, seed, named, epsilons, remove, add)


def _drawn(
    law: BoundedLaw, seed: int, samples: int, done: int, total: int, compute: Compute, progress: Listener | None
) -> Draws:
    parts = []
    for part in draw(law, seed, samples, compute):
        parts.append(part)
        if progress is not None:
            share = len(parts) * part[0].size / samples
            progress(Progress("testing", f"curve, {law.direction}", done + share, total, samples=done * samples))
    log_ratios, log_densities = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Draws(law, log_ratios, log_densities)


def _laws(direct: Direct, epsilon: float, memory: int) -> Iterator[BoundedLaw]:
    """Yield distributions whose bounds are low at different epsilons, each once."""
    if not direct.needs_samples:
        return
    pair = direct.pair
    plain = PlainLaw(pair, direct.direction)
    known = [plain.describe()]
    if direct.direction == "add":  # cheap, and best at small epsilons
        yield plain
    for anchor, enough in _ANCHORS[direct.direction]:
        reduction = _nearest(direct, anchor * epsilon)
        if reduction is None:
            continue
        law = best_law(pair, direct.direction, reduction, memory, enough)
        if law.describe() not in known:
            known.append(law.describe())
            yield law
    if direct.direction == "remove" and len(known) == 1:
        yield plain


def _nearest(direct: Direct, anchor: float) -> float | None:
    """Return the epsilon of the pair at the point nearest to an anchor; None where there is nothing to test."""
    place = int(np.argmin(np.abs(np.array(direct.epsilons) - anchor)))
    reduction = direct.reductions[place]
    if reduction is None or is_immediate(reduction, direct.direction):
        return None
    return reduction.shift.epsilon
