"""The checker of a curve: whether its levels are those that its samples prove (docs/curves.md, section 1)."""

from itertools import pairwise

from minsep.accounting.certification.curve_proof import NOTHING, CurveProof, SampledLaw
from minsep.accounting.certification.errors import require, require_equal
from minsep.accounting.certification.levels import Direct, Draws, draw
from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.importance import law_from
from minsep.accounting.reduction import Alongside
from minsep.engine import Compute
from minsep.mechanism import Mechanism

_MOST_POINTS, _MOST_LAWS, _MOST_EPSILON = 4096, 64, 700.0
_MOST_DRAWN = 1 << 26  # samples of all distributions, which are held in memory
_LEAST = 1 - 3e-4  # of a level: something below that must not be proven as well


def check_curve(curve: CurveProof, mechanism: Mechanism, level: float, alongside: Alongside, compute: Compute) -> None:
    """Raise an error unless the samples of a curve prove its levels, and hardly less."""
    epsilons = curve.epsilons
    require(1 <= len(epsilons) <= _MOST_POINTS and len(curve.laws) <= _MOST_LAWS, "the curve has no valid size")
    require(epsilons[0] >= 0 and epsilons[-1] <= _MOST_EPSILON, "an epsilon of the curve is out of its range")
    require(all(first < second for first, second in pairwise(epsilons)), "the epsilons of the curve do not increase")
    require(curve.attempts >= 1 and curve.samples >= 1 and curve.seed >= 0, "the curve has no valid samples")
    whole = all(law.samples >= 1 and law.samples % curve.samples == 0 for law in curve.laws)
    require(whole, "a distribution of the curve has no multiple of its samples")
    require(0 < curve.chance_of_test < 1, "the chance that a level errs is out of its range")
    require(curve.drawn <= _MOST_DRAWN, f"{curve.drawn:,} samples of a curve are too many to check")
    for direction in DIRECTIONS:
        levels = curve.levels(direction)
        require(len(levels) == len(epsilons), "the curve lacks a level")
        require(all(0 <= each <= NOTHING for each in levels), "a level of the curve is out of its range")
        direct = Direct(mechanism, direction, epsilons, level, alongside)
        drawn = [_drawn(each, direct, curve, compute) for each in curve.laws if each.direction == direction]
        for place, each in enumerate(levels):
            if each < NOTHING:
                name = f"the level of {direction} at epsilon {epsilons[place]:.6g}"
                require(_is_proven(direct, drawn, place, each, curve.chance_of_test), f"{name} is not proven")
                lower = _LEAST * each
                changed = each > 0 and _is_proven(direct, drawn, place, lower, curve.chance_of_test)
                require(not changed, f"{name} is not what its samples prove")


def _is_proven(direct: Direct, drawn: list[Draws], place: int, level: float, chance: float) -> bool:
    reduction = direct.reductions[place]
    if direct.known[place] <= level * (1 + 1e-9):
        return True
    return reduction is not None and any(each.proves(reduction, level, chance) for each in drawn)


def _drawn(recorded: SampledLaw, direct: Direct, curve: CurveProof, compute: Compute) -> Draws:
    law = law_from(recorded.law, direct.pair, direct.direction, direct.payoff)
    require_equal("log_constant", recorded.log_constant, law.log_constant)
    return draw(law, curve.seed, recorded.samples, compute)
