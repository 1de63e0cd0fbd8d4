"""The choice of a law by its bound. It depends on no sample, so it does not weaken the guarantee."""

import math
from functools import cache

from scipy import optimize

from minsep.accounting.directions import Direction
from minsep.accounting.importance.allocated import best_allocated
from minsep.accounting.importance.base import BoundedLaw
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.importance.placed import best_placed
from minsep.accounting.importance.plain import PlainLaw
from minsep.accounting.importance.shifted import shifted_laws
from minsep.accounting.importance.tilted import MOST_COPIES, TiltedLaw
from minsep.accounting.importance.tuple_law import DEFAULT_MEMORY, affordable
from minsep.accounting.pairs import Pair, TiltablePair

_SMALL_BOUND_IN_LEVELS = 1_000.0  # times the level: tens of thousands of samples, not worth a longer search
_MOST_USER_COPIES = 4
_LARGEST_TILT = 6.0


def best_law(
    pair: Pair,
    direction: Direction,
    epsilon: float,
    memory: int = DEFAULT_MEMORY,
    enough: float = 0.0,
    payoff: Payoff = ALONE,
) -> BoundedLaw:
    """Return the law of least bound: tilted with the best (k, t) that fits into memory, allocated, placed, or plain.

    A bound of `enough` ends the search. The choice depends on no sample, so it does not weaken the guarantee.
    """
    best: BoundedLaw = PlainLaw(pair, direction, payoff=payoff)
    if pair.allocation is not None and direction == "remove":
        allocated = best_allocated(pair.allocation, epsilon, payoff)
        return allocated if allocated.copies > 1 else best
    if pair.phases is not None:
        placed = best_placed(pair.phases, direction, epsilon, enough, payoff)
        return placed if placed.log_bound(epsilon) < best.log_bound(epsilon) else best
    tiltable = pair.tiltable
    if tiltable is None or pair.upper_bound:
        return best
    least, small = 0.0, _SMALL_BOUND_IN_LEVELS * enough
    if direction == "add":
        best = min([best, *shifted_laws(tiltable, epsilon, payoff)], key=lambda law: law.log_bound(epsilon))
        least = best.log_bound(epsilon)
        if math.exp(least) <= small:
            return best
    # For `add`, copies of one of several vectors have no bound.
    wholes = [False] if pair.vectors == 1 else [False, True] if direction == "remove" else [True]
    for whole in wholes:
        law = _best_tilted(tiltable, direction, epsilon, memory, enough, whole, payoff)
        if law is not None and law.log_bound(epsilon) < least:
            best, least = law, law.log_bound(epsilon)
        if math.exp(least) <= small:
            break
    return best


def _best_tilted(
    pair: TiltablePair,
    direction: Direction,
    epsilon: float,
    memory: int,
    enough: float,
    whole: bool,
    payoff: Payoff,
) -> TiltedLaw | None:
    """Return the tilted law of least bound: of copies of one vector, or of all together."""
    best, least, previous = None, math.inf, math.inf
    lowest = 1.0 if direction == "remove" else 0.05
    tilts = lowest, _LARGEST_TILT
    for copies in range(1, (_MOST_USER_COPIES if whole else MOST_COPIES) + 1):
        if not affordable(pair.single, copies, memory, pair.vectors if whole else 1):
            break
        candidate = _best_tilt(pair, direction, copies, epsilon, tilts, whole, payoff)
        # With more copies the best tilt is slightly smaller.
        tilts = max(0.6 * abs(candidate.tilt), lowest), max(1.1 * abs(candidate.tilt), 1.5 * lowest)
        bound = candidate.log_bound(epsilon)
        if bound >= previous and copies > 2:
            break
        previous = bound
        if bound < least:
            best, least = candidate, bound
        if math.exp(min(least, 0.0)) <= enough:
            break
    return best


def _best_tilt(
    pair: TiltablePair,
    direction: Direction,
    copies: int,
    epsilon: float,
    tilts: tuple[float, float],
    whole: bool,
    payoff: Payoff,
) -> TiltedLaw:
    sign = 1.0 if direction == "remove" else -1.0
    lowest, highest = tilts

    def law(tilt: float) -> TiltedLaw:
        return TiltedLaw(pair, direction, copies, sign * tilt, whole, payoff=payoff)

    @cache
    def bound(tilt: float) -> float:
        if copies * tilt <= pair.vectors and direction == "remove" and not whole:
            return 0.0
        value = law(tilt).log_bound(epsilon)
        return value if math.isfinite(value) else 1e300

    # Tables of users are large: where the bound grows from the lowest tilt on, that is taken at once.
    if whole and copies > 1 and lowest == 1.0 and bound(1.0) <= bound(1.05):
        return law(1.0)
    # The bound is flat around its minimum: a coarse search is enough.
    tolerance = 0.04 * (highest - lowest) if highest < _LARGEST_TILT else 0.02
    found = optimize.minimize_scalar(bound, bounds=(lowest, highest), method="bounded", options={"xatol": tolerance})
    tilt = float(found.x)
    if direction == "remove" and copies > 1 and lowest == 1.0 and bound(1.0) <= float(found.fun):
        tilt = 1.0
    return law(round(tilt, 4))
