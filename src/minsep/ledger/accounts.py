"""What entries cost together, whether they stay within a total, and what is left of it.

- If all mechanisms were fixed beforehand, their curves are composed, and they stay within the total if the composed
  delta at its epsilon is at most its delta.
- If a mechanism may be chosen after what earlier ones released, composed curves guarantee nothing (docs/ledger.md).
  Sums of epsilons and deltas do: each entry has a charge, which is fixed when it is added.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, localcontext

from dp_accounting import GaussianDpEvent

from minsep.accounting import Certificate, Composition, Curve, TuningCertificate, compose
from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.ledger.entry import Entry, Item
from minsep.ledger.total import Total

_ANY_DELTA = 0.5  # that every composition has an epsilon for
_LEAST_MU, _USUAL_MU, _MOST_MU, _STEP, _CLOSE = 1e-3, 0.25, 64.0, 4.0, 5e-3
MOST_RUNS = 1000
"""Of more runs than these that fit, nothing is said."""
_SLACK = 1e-12  # relative, for adding up decimal numbers
_KEPT, _LEAST_EPSILON = 5e-3, 1e-3


@dataclass(frozen=True)
class Left:
    """What is left of a total.

    Attributes:
        epsilon: The epsilon of what still fits.
        delta: The delta of what still fits.
        mu: The Gaussian parameter of the one Gaussian mechanism that still fits; None in an adaptive ledger.
        any_run: A budget for a run: one that is certified for it fits, whatever else its certificate proves. None if
            hardly anything is left.
    """

    epsilon: float
    delta: float
    mu: float | None = None
    any_run: Budget | None = None

    @property
    def nothing(self) -> bool:
        """Whether nothing is left."""
        return self.epsilon <= 0 or self.delta <= 0

    @property
    def statement(self) -> str:
        """What is left, in words."""
        if self.nothing:
            return "Nothing is left of the budget."
        if self.mu is None:
            return f"What is left is epsilon {self.epsilon:.4g} and delta {self.delta:.4g}."
        gaussian = (
            f"There is room for one Gaussian mechanism with mu {self.mu:.4g} (noise multiplier {1 / self.mu:.4g}), "
            f"which alone is ({self.epsilon:.4g}, {self.delta:g})-DP."
        )
        if self.any_run is None:
            return gaussian
        return f"{gaussian} A run that is certified for {rounded_down(self.any_run)} fits, whatever else it proves."


def together(entries: Sequence[Entry], items: Sequence[Item] = (), delta: float | None = None) -> Composition:
    """Return the composition of entries and further items, at a delta if their proofs carry it, else without one."""
    all_items = [item for entry in entries for item in entry.items] + list(items)
    composed = compose(all_items, _ANY_DELTA, verify=False)
    return composed if delta is None else replace(composed, delta=delta, epsilon=composed.curve.epsilon(delta))


def alone(entry: Entry, total: Total) -> tuple[float, float]:
    """Return the epsilon and delta of an entry alone: as charged or certified, or else at the delta of the total."""
    if entry.charge is not None:
        return entry.charge.epsilon, entry.charge.delta
    if len(entry.items) == 1 and isinstance(entry.items[0], Certificate | TuningCertificate):
        return entry.items[0].epsilon, entry.items[0].delta
    composed = together([entry], delta=total.delta)
    return composed.epsilon, composed.delta


def within(total: Total, composed: Composition) -> bool:
    """Whether a composition stays within the total of a ledger whose mechanisms were fixed beforehand."""
    return composed.curve.delta(total.epsilon) <= total.delta


def charge_of(items: Sequence[Item], delta: float | None) -> Budget:
    """Return what items cost of an adaptive ledger.

    Certificates cost what was certified, unless a delta is given. Everything else costs its epsilon at that delta.

    Args:
        items: The items.
        delta: The delta that all of them together are charged.
    """
    if delta is None:
        certificates = [item for item in items if isinstance(item, Certificate | TuningCertificate)]
        if len(certificates) < len(items):
            raise ValueError(
                "delta is None, but an entry without a certificate costs an adaptive ledger some: give it."
            )
        return Budget(math.fsum(one.epsilon for one in certificates), math.fsum(one.delta for one in certificates))
    delta = validate.real(delta=delta, above=0, below=1)
    # A budget has an epsilon above 0, which may be as small as one likes.
    return Budget(max(compose(items, delta, verify=False).epsilon, 1e-9), delta)


def charged(charges: Sequence[Budget]) -> tuple[float, float]:
    """Return the sums of epsilons and deltas."""
    return math.fsum(charge.epsilon for charge in charges), math.fsum(charge.delta for charge in charges)


def charges_of(entries: Sequence[Entry]) -> list[Budget]:
    """Return what entries cost of an adaptive ledger."""
    return [entry.charge for entry in entries if entry.charge is not None]


def rest(total: Total, charges: Sequence[Budget]) -> Left:
    """Return what charges leave of the total of an adaptive ledger."""
    epsilon, delta = charged(charges)
    epsilon, delta = max(total.epsilon - epsilon, 0.0), max(total.delta - delta, 0.0)
    return Left(epsilon, delta, None, Budget(epsilon, delta) if epsilon > _LEAST_EPSILON and delta > 0 else None)


def sums_within(total: Total, charges: Sequence[Budget]) -> bool:
    """Whether charges stay within the total of an adaptive ledger."""
    epsilon, delta = charged(charges)
    return epsilon <= total.epsilon * (1 + _SLACK) and delta <= total.delta * (1 + _SLACK)


def room(total: Total, fits: Callable[[Sequence[Item]], bool], spent: Curve | None) -> Left:
    """Return the one Gaussian mechanism with the largest mu that still fits, up to half a percent.

    Args:
        total: The total.
        fits: Whether items still fit.
        spent: What is proven of all entries together.
    """

    def fitting(mu: float) -> bool:
        return fits([GaussianDpEvent(1 / mu)])

    low = high = _USUAL_MU
    if fitting(low):
        while low == high and high < _MOST_MU:
            high *= _STEP
            low = high if fitting(high) else low
    else:
        while low > _LEAST_MU and not fitting(low := low / _STEP):
            high = low
        if low <= _LEAST_MU:
            return Left(0.0, total.delta, 0.0)
    while high > (1 + _CLOSE) * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fitting(middle) else (low, middle)
    alone = compose([GaussianDpEvent(1 / low)], total.delta)
    return Left(min(alone.epsilon, total.epsilon), total.delta, low, for_any_run(total, spent))


def for_any_run(total: Total, spent: Curve | None) -> Budget | None:
    """Return a budget that leaves room for everything that is proven of a run that is certified for it.

    No run with this budget tells more than a randomised response, whose loss is epsilon, -epsilon, or infinite with
    probability delta. A small share is kept for the grid of losses on which entries are composed.

    Args:
        total: The total.
        spent: What is proven of all entries together. None if there are none.
    """
    if spent is None:
        return total.budget
    delta = (total.delta - spent.delta(total.epsilon)) / 2
    if delta <= 0:
        return None

    def together(epsilon: float) -> float:
        yes = 1 / (1 + math.exp(-epsilon))
        told = yes * spent.delta(total.epsilon - epsilon) + (1 - yes) * spent.delta(total.epsilon + epsilon)
        return delta + (1 - delta) * told

    low, high = 0.0, total.epsilon
    while high - low > _KEPT * high and high > _LEAST_EPSILON:
        middle = (low + high) / 2
        low, high = (middle, high) if together(middle) <= total.delta else (low, middle)
    epsilon = (1 - _KEPT) * low
    return Budget(epsilon, delta) if epsilon > _LEAST_EPSILON else None


def rounded_down(budget: Budget) -> Budget:
    """Return a budget with numbers of three digits, none of which is larger.

    >>> print(rounded_down(Budget(2.0859, 4.9999e-6)), rounded_down(Budget(8.0, 1e-5)))
    (2.08, 4.99e-06)-DP (8, 1e-05)-DP
    """
    return Budget(_rounded_down(budget.epsilon), _rounded_down(budget.delta))


def _rounded_down(value: float) -> float:
    with localcontext(prec=3, rounding=ROUND_FLOOR) as context:
        return float(context.create_decimal(repr(value)))


def runs_that_fit(fits: Callable[[int], bool]) -> int:
    """Return how many times something fits, at most `MOST_RUNS`.

    Args:
        fits: Whether it fits so many times.

    >>> runs_that_fit(lambda count: count <= 37), runs_that_fit(lambda count: False)
    (37, 0)
    """
    low, high = 0, 1
    while high <= MOST_RUNS and fits(high):
        low, high = high, 2 * high
    high = min(high, MOST_RUNS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
