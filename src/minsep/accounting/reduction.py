"""What is left to test of a mechanism, once everything that has a closed form is taken off."""

import numpy as np

from minsep.accounting.pairs import Direction, Pair
from minsep.accounting.separation import shift_of, shortened
from minsep.accounting.support import pair_of, tiltable
from minsep.accounting.truncation import Shift, closed_form
from minsep.mechanism import Mechanism
from minsep.participation import BallsInBins, MinSep, Poisson


def reduced(mechanism: Mechanism, epsilon: float, level: float, direction: Direction) -> tuple[Pair, Shift]:
    """Return the pair to sample from, and what truncation adds to its delta.

    A truncation has a closed form that leaves the pair as it was; where that is not known, or leaves nothing of the
    level, the pair is that of the paper's recursions given the others' batch sizes.
    """
    if mechanism.truncation is None:
        pair, share = shortened(tiltable(pair_of(mechanism, np.float64)))
        return pair, shift_of(share, epsilon, direction)
    scheme = _as_min_sep(mechanism)
    if scheme is not None:
        whole = pair_of(Mechanism(mechanism.strategy, scheme, mechanism.noise_multiplier), np.float64)
        shifts = closed_form(
            scheme, mechanism.iterations, mechanism.truncation, direction, epsilon, whole.no_participation
        )
        best = max(shifts, key=lambda shift: shift.level(level), default=None)
        if best is not None and best.level(level) > 0 and not whole.upper_bound:
            short, share = shortened(whole)
            return short, best.after(shift_of(share, best.epsilon, direction))
    return pair_of(mechanism, np.float64), Shift(epsilon, 0.0)


def _as_min_sep(mechanism: Mechanism) -> MinSep | None:
    match mechanism.scheme:
        case MinSep() as scheme:
            return scheme
        case Poisson(rate=rate):
            return MinSep(rate=rate, min_sep=1)
        case BallsInBins(epoch=epoch):
            return MinSep(rate=1 / epoch, min_sep=epoch)
    return None
