"""What several certificates on the same data say together.

Any (epsilon, delta)-DP mechanism is, for two neighbouring datasets, a function of one random value: with probability
delta it tells which of the two it is, and otherwise it is a randomised response with privacy loss epsilon or -epsilon.
So a sequence of mechanisms, each chosen by the outputs of those before it, is a function of independent such values,
whose privacy curve is a finite sum (Kairouz, Oh and Viswanath 2015; Murtagh and Vadhan 2016). No theorem that knows
only the numbers can say less.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.budget import Budget

_MOST_LOSSES = 1 << 20
_ROUNDING = 1e-9  # relative; the sums, whose weights are normalised, are good to a thousandth of it
_CLOSE = 1e-7


@dataclass(frozen=True)
class Composition:
    """The privacy of several runs on the same data.

    Attributes:
        epsilon: The epsilon of all runs together, by the optimal composition theorem.
        delta: The delta of all runs together, by the same theorem.
        sum_of_epsilons: The epsilon of all runs together, by basic composition.
        sum_of_deltas: The delta of all runs together, by basic composition.
    """

    epsilon: float
    delta: float
    sum_of_epsilons: float
    sum_of_deltas: float


def compose(budgets: Sequence[Budget], delta: float | None = None) -> Composition:
    """Return the privacy of a sequence of runs on the same data, each of which may depend on those before it.

    Args:
        budgets: The budgets of the runs. They are fixed beforehand, and hold for the same unit and adjacency.
        delta: The delta of all runs together. By default it is the sum of theirs; a larger one gives a smaller epsilon.

    >>> import minsep
    >>> runs = [minsep.Budget(1.0, 1e-6)] * 10
    >>> round(compose(runs).epsilon, 3), round(compose(runs, delta=1e-4).epsilon, 3)
    (10.0, 9.998)
    """
    if not budgets:
        raise ValueError("budgets is empty, but there must be at least one.")
    epsilons, deltas = math.fsum(one.epsilon for one in budgets), math.fsum(one.delta for one in budgets)
    delta = min(deltas, 1.0) if delta is None else validate.real(delta=delta, above=0, at_most=1)
    responses = _Responses.of(budgets)
    if delta < deltas and responses.delta(epsilons) > delta:
        raise ValueError(f"delta is {delta:g}, but the runs together need at least {responses.delta(epsilons):.6g}.")
    low, high = 0.0, epsilons
    if responses.delta(low) <= delta:
        high = low
    while high - low > _CLOSE * epsilons:
        middle = (low + high) / 2
        low, high = (low, middle) if responses.delta(middle) <= delta else (middle, high)
    return Composition(high, delta, epsilons, deltas)


@dataclass(frozen=True)
class _Responses:
    """The sum of the privacy losses of independent randomised responses, and the chance that none of them tells all."""

    losses: FloatArray
    log_probabilities: FloatArray
    log_silent: float

    @classmethod
    def of(cls, budgets: Sequence[Budget]) -> "_Responses":
        alike = Counter(one.epsilon for one in budgets)
        if math.prod(count + 1 for count in alike.values()) > _MOST_LOSSES:
            raise ValueError(
                f"There are {len(alike)} different epsilons, but at most {_MOST_LOSSES:,} sums of losses are "
                "computed: round epsilons up so that more of them are equal."
            )
        losses, logs = np.zeros(1), np.zeros(1)
        for epsilon, count in alike.items():
            truthful = np.arange(count + 1)
            choices = gammaln(count + 1) - gammaln(truthful + 1) - gammaln(count - truthful + 1)
            own = choices + truthful * epsilon - count * np.logaddexp(0.0, epsilon)
            losses = np.add.outer(losses, (2 * truthful - count) * epsilon).ravel()
            logs = np.add.outer(logs, own).ravel()
        # Logarithms of factorials of large numbers round: the weights are made to sum to 1.
        logs -= np.log(np.exp(logs).sum())
        return cls(losses, logs, math.fsum(math.log1p(-one.delta) for one in budgets))

    def delta(self, epsilon: float) -> float:
        """Return delta at an epsilon, rounded up."""
        counted = self.losses > epsilon
        beyond = np.exp(self.log_probabilities[counted]) * -np.expm1(epsilon - self.losses[counted])
        told = -math.expm1(self.log_silent + math.log1p(-min(float(beyond.sum()), 1.0 - 1e-15)))
        return told * (1 + _ROUNDING)
