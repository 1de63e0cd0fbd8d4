"""What must be shown for one direction of a mechanism."""

from dataclasses import dataclass

from minsep.accounting.directions import Direction, add_is_zero
from minsep.accounting.reduction import Reduction


@dataclass(frozen=True)
class Claim:
    """What must be shown for one direction: that delta at an epsilon is at most a level.

    Attributes:
        direction: The direction, `remove` or `add`.
        epsilon: The epsilon of the mechanism less what closed forms take off beforehand.
        level: The level of the mechanism less what closed forms take off beforehand.
        truncation_terms: What truncating batches adds to delta.
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


def is_immediate(reduction: Reduction, direction: Direction) -> bool:
    """Whether nothing is left to show: P/Q is at least the probability of never taking part, so `add` may be 0."""
    zero = direction == "add" and add_is_zero(reduction.shift.epsilon, reduction.pair.no_participation)
    return reduction.shift.vanishes or zero
