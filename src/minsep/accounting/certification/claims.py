"""What must be shown for one direction of a mechanism."""

from dataclasses import dataclass

from minsep.accounting.directions import Direction, add_is_zero
from minsep.accounting.reduction import Reduction


@dataclass(frozen=True)
class Claim:
    """What must be shown for one direction: that delta at `epsilon` is at most `level`.

    - `epsilon` and `level` are those of the mechanism less what closed forms take off beforehand.
    - `truncation_terms` is what cutting batches adds to delta.
    - `truncation_rounds` is the number of cut batches that the bound on cuts allows for. It is None where nothing is
      cut, or where the likelihood ratios account for the cuts.
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
