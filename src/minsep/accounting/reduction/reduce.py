"""The reductions of a mechanism, and the best of them."""

from dataclasses import replace

import numpy as np

from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.reduction.base import Reduction, Shift
from minsep.accounting.reduction.long_separations import shift_of
from minsep.accounting.reduction.truncation_bounds import truncation_bounds
from minsep.accounting.schemes import min_sep_form, pair_of
from minsep.mechanism import Design, Mechanism


def best_reduction(mechanism: Mechanism, epsilon: float, level: float, direction: Direction) -> Reduction:
    """Return the reduction that leaves most of a level.

    A truncation has a closed form that leaves the pair unchanged. Where there is none, or where nothing remains of the
    level, the pair is that of the paper's recursions given the numbers of other examples.
    """
    found = _closed_forms(mechanism, epsilon, direction)
    best = max(found, key=lambda reduction: reduction.shift.level(level), default=None)
    return best if best is not None and best.shift.level(level) > 0 else _as_it_is(mechanism, epsilon, direction)


def reduction_for(mechanism: Mechanism, epsilon: float, direction: Direction, rounds: int | None) -> Reduction:
    """Return the reduction that allows for that many truncated batches; None is the mechanism itself."""
    if rounds is None:
        return _as_it_is(mechanism, epsilon, direction)
    for reduction in _closed_forms(mechanism, epsilon, direction):
        if reduction.shift.rounds == rounds:
            return reduction
    raise ValueError(f"truncation_rounds is {rounds!r}, but this mechanism has no truncation bound with that number.")


def cost_of_cutting(design: Design, epsilon: float) -> float:
    """Return what cutting batches adds to delta, by the best closed form for each direction; 1 if there is none.

    >>> import minsep
    >>> design = minsep.Design(
    ...     minsep.BandedToeplitz.optimal(iterations=7200, bands=256),
    ...     minsep.MinSep(1793 / 14_745_600, 256),
    ...     minsep.Truncation(2048, 14_745_600),
    ... )
    >>> round(1e9 * cost_of_cutting(design, 10.0), 2)
    1.79
    """
    mechanism = design.with_noise(1.0)  # what is cut does not depend on the noise
    closed_forms = [_closed_forms(mechanism, epsilon, direction) for direction in DIRECTIONS]
    return max(min((found.shift.truncation_terms for found in each), default=1.0) for each in closed_forms)


def _as_it_is(mechanism: Mechanism, epsilon: float, direction: Direction) -> Reduction:
    """Return the mechanism's own pair, with its truncation if it has one."""
    pair, share = pair_of(mechanism, np.float64).shortened()
    return Reduction(pair, shift_of(share, epsilon, direction))


def unreduced(mechanism: Mechanism, epsilon: float, terms: float = 0.0) -> Reduction:
    """Return the mechanism's own pair, without any reduction.

    Args:
        terms: What is added to its delta in any case.
    """
    return Reduction(pair_of(mechanism, np.float64), Shift(epsilon, terms))


def _closed_forms(mechanism: Mechanism, epsilon: float, direction: Direction) -> list[Reduction]:
    """Return the reductions to the mechanism without its truncation."""
    scheme = min_sep_form(mechanism.scheme)
    if mechanism.truncation is None or scheme is None:
        return []
    whole = pair_of(replace(mechanism, scheme=scheme, truncation=None), np.float64)
    if whole.upper_bound:
        return []
    short, share = whole.shortened()
    bounds = truncation_bounds(
        scheme, mechanism.iterations, mechanism.truncation, direction, epsilon, whole.no_participation
    )
    return [Reduction(short, bound.after(shift_of(share, bound.epsilon, direction))) for bound in bounds]
