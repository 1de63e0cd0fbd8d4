"""The privacy budget, and what it leaves to an attacker."""

import math
from dataclasses import dataclass

from minsep.core import validation as validate

_MOST_EPSILON = 700.0


@dataclass(frozen=True)
class Budget:
    """A budget of (epsilon, delta)-differential privacy.

    Args:
        epsilon: Above 0 and at most 700: e^epsilon must be a number.
        delta: Between 0 and 1, both excluded.

    Examples:
        >>> print(Budget(epsilon=4.0, delta=1e-5))
        (4, 1e-05)-DP
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validate.real(epsilon=self.epsilon, above=0, at_most=_MOST_EPSILON))
        object.__setattr__(self, "delta", validate.real(delta=self.delta, above=0, below=1))

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})-DP"


def most_true_positives(false_positives: float, epsilon: float, delta: float) -> float:
    """Return the largest rate of true positives of any test on an (epsilon, delta)-DP output.

    Args:
        false_positives: The test's rate of false positives.
        epsilon: The epsilon of the output, in both directions.
        delta: The delta of the output, in both directions.

    >>> round(most_true_positives(0.01, epsilon=1.0, delta=1e-5), 4)
    0.0272
    >>> most_true_positives(0.01, epsilon=0.0, delta=0.0)
    0.01
    """
    rate = validate.real(false_positives=false_positives, at_least=0, at_most=1)
    epsilon, delta = validate.real(epsilon=epsilon, at_least=0), validate.real(delta=delta, at_least=0, at_most=1)
    accused = math.exp(min(epsilon, 700.0)) * rate + delta
    spared = 1.0 - math.exp(-epsilon) * max(1.0 - delta - rate, 0.0)
    return min(accused, spared, 1.0)
