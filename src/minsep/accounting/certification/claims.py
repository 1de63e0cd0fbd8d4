"""What must be shown for one direction of a mechanism."""

import math
from dataclasses import dataclass

import numpy as np

from minsep.accounting.directions import Direction, add_is_zero
from minsep.accounting.importance import ALONE, Payoff
from minsep.accounting.reduction import Reduction


@dataclass(frozen=True)
class Claim:
    """What must be shown for one direction: that delta at an epsilon is at most a level.

    Attributes:
        direction: The direction, `remove` or `add`.
        epsilon: The epsilon of the mechanism less what closed forms take off beforehand.
        level: The level of the mechanism less what closed forms take off beforehand.
        truncation_terms: What truncating batches adds to delta, and infinite losses of what runs alongside.
        truncation_rounds: The number of truncated batches that the bound on truncation allows for. It is None where
            nothing is truncated, or where the likelihood ratios account for truncation.
    """

    direction: Direction
    epsilon: float
    level: float
    truncation_terms: float = 0.0
    truncation_rounds: int | None = None


def claim_of(reduction: Reduction, direction: Direction, level: float) -> Claim:
    """Return what a reduction leaves to show of a level."""
    shift = reduction.shift
    return Claim(direction, shift.epsilon, shift.level(level), shift.truncation_terms, shift.rounds)


def is_immediate(reduction: Reduction, direction: Direction, payoff: Payoff = ALONE) -> bool:
    """Whether nothing is left to show: P/Q is at least the probability of never taking part, so `add` may be 0."""
    never, epsilon = reduction.pair.no_participation, reduction.shift.epsilon
    if payoff is ALONE:
        zero = direction == "add" and add_is_zero(epsilon, never)
    else:
        least = np.array([epsilon + math.log(never)]) if never > 0 else np.array([-np.inf])
        zero = direction == "add" and never > 0 and float(payoff.values(least)[0]) == 0.0
    return reduction.shift.vanishes or zero
