"""What a test of delta sums up: the hockey stick of one mechanism, or the curve of others that run alongside.

With other mechanisms, whose losses are infinite with probability delta'_inf and whose curve is otherwise f, delta is

    remove:  delta'_inf + E_Q [ R f(epsilon - ln R) ],          add:  delta'_inf + E_Q [ f(epsilon + ln R) ]

and f(e) = (1 - e^e)_+ without any. A bound on a value follows from the peak of f: docs/curves.md, section 6.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from minsep.core.arrays import FloatArray
from minsep.core.numerics import x_log_x


class Payoff(ABC):
    """A decreasing function f of an epsilon, at most 1."""

    @abstractmethod
    def values(self, epsilons: FloatArray) -> FloatArray:
        """Return f, rounded up."""

    @abstractmethod
    def log_peak(self, order: float) -> float:
        """Return the logarithm of a bound on f(e) e^(order e), for an order of at least 0."""

    @property
    def infinite(self) -> float:
        """delta'_inf: what is added to delta in any case."""
        return 0.0


@dataclass(frozen=True)
class HockeyStick(Payoff):
    """The payoff of a mechanism alone.

    >>> HockeyStick().values(np.array([-1.0, 0.0, 1.0])).round(4).tolist()
    [0.6321, 0.0, 0.0]
    >>> round(HockeyStick().log_peak(1.0), 4) == round(float(np.log(0.25)), 4)
    True
    """

    def values(self, epsilons: FloatArray) -> FloatArray:
        """Return (1 - e^e)_+."""
        return np.where(epsilons >= 0, 0.0, -np.expm1(np.minimum(epsilons, 0.0)))

    def log_peak(self, order: float) -> float:
        """Return the logarithm of the largest (1 - e^e) e^(order e)."""
        return x_log_x(order) - x_log_x(order + 1)


ALONE = HockeyStick()
"""The payoff without other mechanisms."""
