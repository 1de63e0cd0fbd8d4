"""What entries cost together, whether they stay within a total, and what is left of it.

- If all mechanisms were fixed beforehand, their curves are composed, and they stay within the total if the composed
  delta at its epsilon is at most its delta.
- If a mechanism may be chosen after what earlier ones released, composed curves guarantee nothing (docs/ledger.md).
  Sums of epsilons and deltas do: each entry has a charge, which is fixed when it is added.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dp_accounting import GaussianDpEvent

from minsep.accounting import Certificate, Composition, TuningCertificate, compose
from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.ledger.entry import Entry, Item
from minsep.ledger.total import Total

_ANY_DELTA = 0.5  # that every composition has an epsilon for
_LEAST_MU, _USUAL_MU, _MOST_MU, _STEP, _CLOSE = 1e-3, 0.25, 64.0, 4.0, 5e-3
MOST_RUNS = 1000
"""Of more runs than these that fit, nothing is said."""
_SLACK = 1e-12  # relative, for adding up decimal numbers


@dataclass(frozen=True)
class Left:
    """What is left of a total.

    Attributes:
        epsilon: The epsilon of what still fits.
        delta: The delta of what still fits.
        mu: The Gaussian parameter of the one Gaussian mechanism that still fits; None in an adaptive ledger.
    """

    epsilon: float
    delta: float
    mu: float | None = None

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
        return (
            f"There is room for one Gaussian mechanism with mu {self.mu:.4g} (noise multiplier {1 / self.mu:.4g}), "
            f"which alone is ({self.epsilon:.4g}, {self.delta:g})-DP."
        )


def together(entries: Sequence[Entry], items: Sequence[Item] = (), delta: float | None = None) -> Composition:
    """Return the composition of entries and further items, at a delta if their proofs carry it, else without one."""
    all_items = [item for entry in entries for item in entry.items] + list(items)
    composed = compose(all_items, _ANY_DELTA, verify=False)
    return composed if delta is None else replace(composed, delta=delta, epsilon=composed.curve.epsilon(delta))


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


def sums_within(total: Total, charges: Sequence[Budget]) -> bool:
    """Whether charges stay within the total of an adaptive ledger."""
    epsilon, delta = charged(charges)
    return epsilon <= total.epsilon * (1 + _SLACK) and delta <= total.delta * (1 + _SLACK)


def room(total: Total, fits: Callable[[Sequence[Item]], bool]) -> Left:
    """Return the one Gaussian mechanism with the largest mu that still fits, up to half a percent.

    Args:
        total: The total.
        fits: Whether items still fit.
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
    return Left(min(alone.epsilon, total.epsilon), total.delta, low)


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
