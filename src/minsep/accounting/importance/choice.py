"""The choice of a law by its bound. It depends on no sample, so it does not weaken the guarantee."""

import math
from functools import cache

from scipy import optimize

from minsep.accounting.directions import Direction
from minsep.accounting.importance.allocated import MOST_COPIES, AllocatedLaw, best_allocated
from minsep.accounting.importance.base import BoundedLaw
from minsep.accounting.importance.plain import PlainLaw
from minsep.accounting.importance.shifted import ShiftedLaw, shifted_laws
from minsep.accounting.importance.tilted import TiltedLaw
from minsep.accounting.importance.tuple_law import DEFAULT_MEMORY, affordable
from minsep.accounting.pairs import AllocationPair, Pair, TiltablePair
from minsep.core.identity import Description

_SMALL = 1_000.0  # times the level: tens of thousands of samples, not worth a longer search
_MOST_COPIES, _MOST_USER_COPIES = 12, 4
_MOST_TABLE = 8 << 30  # bytes
_LARGEST_TILT = 6.0


def law_from(description: Description, pair: Pair, direction: Direction) -> BoundedLaw:
    """Return the law with this description, for its pair and direction."""
    match description:
        case {"kind": "plain", **rest} if not rest:
            return PlainLaw(pair, direction)
        case {"kind": "tilted", "copies": int() as copies, "tilt": float() as tilt, **rest} if rest in (
            {},
            {"whole": True},
        ) and isinstance(pair, TiltablePair):
            whole, few = bool(rest), 1 <= copies <= _MOST_COPIES
            sums = pair.vectors > 1 or not whole
            if few and sums and affordable(pair.single, copies, _MOST_TABLE, pair.vectors if whole else 1):
                return TiltedLaw(pair, direction, copies, tilt, whole)
        case {
            "kind": "shifted",
            "tangent_distance": float() as distance,
            "strength": float() as strength,
            **rest,
        } if not rest:
            if isinstance(pair, TiltablePair) and direction == "add" and strength > 0:
                return ShiftedLaw(pair, distance, strength)
        case {"kind": "allocated", "copies": int() as copies, **rest} if not rest:
            if isinstance(pair, AllocationPair) and direction == "remove" and 1 <= copies <= MOST_COPIES:
                return AllocatedLaw(pair, direction, copies)
    raise ValueError(f"The law is {description!r}, but this mechanism has no such law.")


def law_in_words(description: Description) -> str:
    """Return a law in words, as in "samples of the mechanism itself".

    >>> law_in_words({"kind": "tilted", "copies": 2, "tilt": 1.1})
    'a tilted law (2 copies, tilt 1.1)'
    """
    match description:
        case {"kind": "tilted", "copies": copies, "tilt": tilt, **rest}:
            of = " of the user" if rest else ""
            return f"a tilted law ({copies} cop{'y' if copies == 1 else 'ies'}{of}, tilt {tilt:.3g})"
        case {"kind": "allocated", "copies": copies}:
            return f"a tilted law ({copies} copies)"
        case {"kind": "shifted", "strength": strength}:
            return f"noise moved along a tangent of log P/Q (strength {strength:.3g})"
    return "the mechanism itself"


def best_law(
    pair: Pair, direction: Direction, epsilon: float, memory: int = DEFAULT_MEMORY, enough: float = 0.0
) -> BoundedLaw:
    """Return the law of least bound: tilted with the best (k, t) that fits into memory, allocated, or plain.

    A bound of `enough` ends the search. The choice depends on no sample, so it does not weaken the guarantee.
    """
    best: BoundedLaw = PlainLaw(pair, direction)
    if isinstance(pair, AllocationPair) and direction == "remove":
        allocated = best_allocated(pair, epsilon)
        return allocated if allocated.copies > 1 else best
    if not isinstance(pair, TiltablePair) or pair.upper_bound:
        return best
    least, small = 0.0, _SMALL * enough
    if direction == "add":
        best = min([best, *shifted_laws(pair, epsilon)], key=lambda law: law.log_bound(epsilon))
        least = best.log_bound(epsilon)
        if math.exp(least) <= small:
            return best
    # For `add`, copies of one of several vectors have no bound.
    wholes = [False] if pair.vectors == 1 else [False, True] if direction == "remove" else [True]
    for whole in wholes:
        law = _best_tilted(pair, direction, epsilon, memory, enough, whole)
        if law is not None and law.log_bound(epsilon) < least:
            best, least = law, law.log_bound(epsilon)
        if math.exp(least) <= small:
            break
    return best


def _best_tilted(
    pair: TiltablePair, direction: Direction, epsilon: float, memory: int, enough: float, whole: bool
) -> TiltedLaw | None:
    """Return the tilted law of least bound: of copies of one vector, or of all together."""
    best, least, previous = None, math.inf, math.inf
    lowest = 1.0 if direction == "remove" else 0.05
    tilts = lowest, _LARGEST_TILT
    for copies in range(1, (_MOST_USER_COPIES if whole else _MOST_COPIES) + 1):
        if not affordable(pair.single, copies, memory, pair.vectors if whole else 1):
            break
        candidate = _best_tilt(pair, direction, copies, epsilon, tilts, whole)
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
) -> TiltedLaw:
    sign = 1.0 if direction == "remove" else -1.0
    lowest, highest = tilts

    def law(tilt: float) -> TiltedLaw:
        return TiltedLaw(pair, direction, copies, sign * tilt, whole)

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
