"""The privacy budget, and what it leaves to an attacker."""

import math
import warnings
from dataclasses import dataclass
from statistics import NormalDist

from minsep.core import validation as validate

_MOST_EPSILON = 700.0
_LEAST_EPSILON, _MOST_MU = 1e-6, 30.0
_LEAST_SHARE_OF_ADVANTAGE = 0.02  # of an epsilon, which must not be 0; it costs a hundredth of the advantage
MOST_DELTA = 0.5
"""No run is promised this delta or a larger one."""


_quantile = NormalDist().inv_cdf


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

    @classmethod
    def against(cls, true_positives: float, false_positives: float) -> "Budget":
        """Return a budget with which no attacker has more true positives at a rate of false positives.

        Of all such budgets it is the one that a Gaussian mechanism meets with least noise. Its delta is no chance of a
        failure: it is where a line touches the attackers' trade-off.

        Args:
            true_positives: The highest rate of true positives, above that of false positives.
            false_positives: The rate of false positives.

        Examples:
            >>> budget = Budget.against(true_positives=0.05, false_positives=0.01)
            >>> print(f"{budget.epsilon:.4f}, {budget.delta:.4f}")
            1.3532, 0.0113
            >>> most_true_positives(0.01, budget.epsilon, budget.delta) <= 0.05
            True
        """
        low = validate.real(false_positives=false_positives, above=0, below=1)
        high = validate.real(true_positives=true_positives, above=low, below=1)
        cut = _quantile(1 - low)
        mu = _quantile(high) + cut
        epsilon = max(abs(mu * cut - mu**2 / 2), _LEAST_SHARE_OF_ADVANTAGE * (high - low))
        # What either direction of the guarantee allows; rounded so that it still holds.
        delta = max(high - math.exp(epsilon) * low, 1 - low - math.exp(epsilon) * (1 - high))
        return cls(epsilon, check_delta(delta * (1 - 1e-12)))

    @classmethod
    def with_advantage(cls, advantage: float) -> "Budget":
        """Return a budget with which no attacker's true positives exceed its false positives by more than this.

        Args:
            advantage: The largest difference of the two rates, between 0 and 1.

        Examples:
            >>> budget = Budget.with_advantage(0.1)
            >>> most_true_positives(0.5, budget.epsilon, budget.delta) <= 0.6
            True
        """
        advantage = validate.real(advantage=advantage, above=0, below=1)
        epsilon = _LEAST_SHARE_OF_ADVANTAGE * advantage
        # The total variation of an (epsilon, delta)-DP pair is at most 1 - 2 (1 - delta)/(1 + e^epsilon).
        delta = 1 - (1 - advantage) * (1 + math.exp(epsilon)) / 2
        return cls(epsilon, check_delta(delta * (1 - 1e-12)))

    @classmethod
    def gaussian(cls, mu: float, delta: float = 1e-5) -> "Budget":
        """Return the epsilon that a Gaussian mechanism of sensitivity mu and noise 1 has at a delta, with that delta.

        A mechanism with this budget need not tell as little as the Gaussian one elsewhere: `Curve.mu` says.

        Args:
            mu: The Gaussian parameter.
            delta: The delta.

        Examples:
            >>> print(f"{Budget.gaussian(1.0).epsilon:.4f}")
            4.3772
        """
        from scipy import optimize  # the command line imports this file, and rarely needs these
        from scipy.special import log_ndtr

        mu = validate.real(mu=mu, above=0, at_most=_MOST_MU)
        delta = check_delta(delta)

        def excess(epsilon: float) -> float:
            first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
            return float(first + math.log(max(-math.expm1(second - first), 1e-300))) - math.log(delta)

        high = 1.0
        while excess(high) > 0:
            high *= 2
        if excess(_LEAST_EPSILON) <= 0:
            raise ValueError(f"mu is {mu:g}, but at delta {delta:g} that leaves no epsilon: choose a smaller delta.")
        return cls(float(optimize.brentq(excess, _LEAST_EPSILON, high, xtol=1e-9)), delta)


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
