"""The privacy budget, and what it leaves to an attacker."""

import math
import warnings
from dataclasses import dataclass

from minsep.core import validation as validate

_MOST_EPSILON = 700.0
MOST_DELTA = 0.5
"""No run is promised this delta or a larger one."""


class LargeDeltaWarning(UserWarning):
    """Delta is at least one over the number of those who are protected."""


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


def check_delta(delta: float | None) -> float:
    """Return a delta that a run may be promised: below 0.5.

    >>> check_delta(0.5)
    Traceback (most recent call last):
    ValueError: delta is 0.5, but it must be a finite number above 0 and below 0.5.
    """
    return validate.real(delta=delta, above=0, below=MOST_DELTA)


def warn_of_delta(delta: float, protected: int, units: str = "examples") -> None:
    """Warn if delta is one over the number of those who are protected, or more.

    Args:
        delta: The delta of a run.
        protected: How many are protected.
        units: What they are.

    >>> warn_of_delta(1e-5, 60_000)
    """
    if delta * protected >= 1:
        warnings.warn(
            f"delta is {delta:g}, but with {protected:,} {units} it should be well below 1/{protected:,} "
            f"({1 / protected:.2g}): at this delta it would count as private to publish one of the {units} at random.",
            LargeDeltaWarning,
            stacklevel=3,
        )


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
