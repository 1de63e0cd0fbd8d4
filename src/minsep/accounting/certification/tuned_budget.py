"""The budget of one run for which the best of a random number of runs stays within a budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from minsep.accounting.certification.certificate import Certificate
from minsep.accounting.curves import Curve, Trials
from minsep.accounting.exact import GaussianCurve
from minsep.core.budget import Budget

ATTEMPTS = 3
"""The most calibrations that are made for one tuning; they share the chance of an error."""
_MARGIN = 0.95  # of epsilon: a curve from samples lies above the true one
_ENOUGH = 0.985  # of epsilon, from where on another attempt is not worth it
_AGAIN = 0.995  # of what should do, after an attempt that spent too much
_STEPS, _POWER = 5, 0.8
_LEAST_EPSILON = 1e-3


class Calibrated(Protocol):
    """What has a certificate."""

    @property
    def certificate(self) -> Certificate:
        """The certificate."""


Found = TypeVar("Found", bound=Calibrated)


@dataclass(frozen=True)
class TunedBudget:
    """A budget for the best of a secret, random number of runs.

    Args:
        whole: The epsilon and delta of the whole tuning.
        trials: The distribution of the number of runs.
    """

    whole: Budget
    trials: Trials

    @cached_property
    def of_one(self) -> Budget:
        """About what one run may cost at the same delta: as a Gaussian curve whose tuning costs nearly the budget.

        >>> from minsep.accounting.curves import trials_of
        >>> TunedBudget(Budget(8.0, 1e-5), trials_of(10)).of_one
        Budget(epsilon=5.21, delta=1e-05)
        """
        target, typical = _MARGIN * self.whole.epsilon, math.sqrt(-2 * math.log(self.whole.delta))
        mu = math.sqrt(typical**2 + 2 * target) - typical  # a run whose epsilon is about that of the tuning
        for _ in range(_STEPS):
            # The epsilon of a tuning grows with mu to a power between 1 and 1.5.
            mu *= (target / Curve(GaussianCurve(mu)).tuned(self.trials).epsilon(self.whole.delta)) ** _POWER
        return Budget(self._digits(Budget.gaussian(mu, self.whole.delta).epsilon), self.whole.delta)

    def find(self, calibrate: Callable[[Budget, int], Found]) -> Found:
        """Return the calibration of one run with the largest budget for which the whole tuning stays within its own.

        Args:
            calibrate: Calibrates one run at a budget. It is given the number of the attempt as well, from 0.
        """
        budget, best = self.of_one, None
        least = math.inf
        for attempt in range(ATTEMPTS):
            found = calibrate(budget, attempt)
            if not found.certificate.passed:
                return found
            cost = self.cost(found.certificate)
            if cost <= self.whole.epsilon and (best is None or cost > self.cost(best.certificate)):
                best = found
            if _ENOUGH * self.whole.epsilon <= cost <= self.whole.epsilon:
                break
            least = min(least, cost)
            budget = Budget(self._next(budget.epsilon, cost), budget.delta)
        if best is None:
            raise ValueError(
                f"epsilon is {self.whole.epsilon:g}, but the best of about {self.trials.mean:g} runs was only "
                f"certified at {least:.4g}: ask for a larger epsilon, or for fewer runs."
            )
        return best

    def cost(self, certificate: Certificate) -> float:
        """Return the epsilon of the whole tuning with runs of a certificate; infinity if its proofs carry none.

        Args:
            certificate: The certificate.
        """
        try:
            return certificate.curve.tuned(self.trials).epsilon(self.whole.delta)
        except ValueError:
            return math.inf

    def _next(self, epsilon: float, cost: float) -> float:
        if math.isinf(cost):
            return self._digits(epsilon / 2)
        # Epsilons of a run and of its tuning are nearly proportional. Too much noise is as bad as another attempt.
        share = _AGAIN if cost > self.whole.epsilon else 1.0
        return self._digits(max(epsilon * share * (1 + _ENOUGH) / 2 * self.whole.epsilon / cost, _LEAST_EPSILON))

    @staticmethod
    def _digits(epsilon: float) -> float:
        """Return an epsilon with three digits, rounded down: the same on every processor."""
        step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
        return float(f"{math.floor(epsilon / step + 1e-6) * step:.3g}")
