"""A test by betting that the mean of bounded values lies below a level: valid at every sample size.

Under the null hypothesis E[X] >= level, with X in [0, W], the product of 1 + c (level - X)/(W - level) is a
non-negative supermartingale for every c in (0, 1), and so is an average of such products. By Ville's inequality, the
probability that it ever reaches 1/q is at most q.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from scipy.special import logsumexp

from minsep.accounting.sequential.verifier import Verifier
from minsep.core import validation as validate
from minsep.core.arrays import FloatArray

# A fixed grid: small bets for values that spread, bets near 1 for values that are almost always 0.
_BETS = np.concatenate([np.geomspace(0.002, 0.3, 12), np.linspace(0.35, 0.95, 13), [0.97, 0.99]])
_RELATIVE_SLACK = 1e-9


@dataclass(frozen=True)
class Wealth:
    """The wealth of the bets of a test so far.

    >>> wealth = Wealth.start(level=0.01, bound=1.0).after(np.zeros(2000))
    >>> wealth.log_wealth > math.log(1 / 1e-6)
    True
    >>> Wealth.start(level=0.01, bound=1.0).after(np.full(2000, 0.02)).log_wealth < 0
    True
    """

    level: float
    bound: float
    logs: FloatArray
    samples: int
    broken: str = ""

    @classmethod
    def start(cls, level: float, bound: float) -> "Wealth":
        """Return the wealth before any bet, for a level below the bound."""
        if not 0 < level < bound < math.inf:
            raise ValueError(f"level is {level:g}, but a test needs 0 < level < bound = {bound:g}.")
        return cls(level, bound, np.zeros(_BETS.size), 0)

    def after(self, values: FloatArray) -> "Wealth":
        """Return the wealth after more values, in their order."""
        if self.broken:
            return self
        problem = ""
        if not np.isfinite(values).all() or (values < 0).any():
            problem = "a value of the test was not a finite number of at least 0"
        elif (values > self.bound * (1 + _RELATIVE_SLACK)).any():
            problem = "a value of the test exceeded its proven bound"
        gains = (self.level - np.minimum(values, self.bound)) / (self.bound - self.level)
        logs = self.logs + np.log1p(_BETS[:, None] * gains).sum(axis=1) if not problem else self.logs
        return Wealth(self.level, self.bound, logs, self.samples + values.size, problem)

    @property
    def cost_of_choice(self) -> float:
        """The most that not knowing the best bet beforehand costs in the logarithm of the wealth."""
        return math.log(_BETS.size)

    @cached_property
    def log_wealth(self) -> float:
        """Logarithm of the average wealth of all bets; minus infinity after an impossible value."""
        return -math.inf if self.broken else float(logsumexp(self.logs) - math.log(_BETS.size))


def values_are_valid(values: FloatArray, bound: float) -> bool:
    """Whether values are finite, at least 0, and at most their bound up to rounding."""
    return math.isfinite(bound) and bool(
        np.isfinite(values).all() and (values >= 0).all() and (values <= bound * (1 + _RELATIVE_SLACK)).all()
    )


def log_wealth_of(values: FloatArray, level: float, bound: float) -> float:
    """Return the logarithm of the wealth after valid values, whatever their order, at a level between 0 and the bound.

    >>> values = np.repeat([0.0, 0.5], [2000, 4])
    >>> abs(log_wealth_of(values, 0.01, 1.0) - Wealth.start(0.01, 1.0).after(values).log_wealth) < 1e-9
    True
    """
    positive = np.minimum(values[values > 0], bound)
    logs = (values.size - positive.size) * np.log1p(_BETS * (level / (bound - level)))
    logs += _log_products(positive, level, bound, _BETS)
    return float(logsumexp(logs) - math.log(_BETS.size))


@numba.njit(cache=True, nogil=True)
def _log_products(values, level, bound, bets):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return sum log(1 + bet (level - value)/(bound - level)) for every bet: a product with few logarithms."""
    logs = np.zeros(bets.size)
    for k in range(bets.size):
        scale = bets[k] / (bound - level)
        total, product = 0.0, 1.0
        for value in values:
            product *= 1.0 + scale * (level - value)
            if product < 1e-150 or product > 1e150:
                total += math.log(product)
                product = 1.0
        logs[k] = total + math.log(product)
    return logs


@dataclass(frozen=True)
class BettingVerifier(Verifier):
    """A test that passes as soon as its wealth is 1/`false_pass_probability`."""

    limit: int | None = None
    kind = "betting"

    @property
    def max_samples(self) -> int | None:
        """Maximum number of samples per direction, if the caller set one."""
        return self.limit

    @property
    def target(self) -> float:
        """Logarithm of the wealth at which the test passes."""
        return -math.log(self.false_pass_probability)


def betting_verifier(
    delta: float,
    attempts: int = 1,
    failure_probability: float | None = None,
    max_samples: int | None = None,
    *,
    share_of_curve: float = 0.0,
) -> BettingVerifier:
    """Return the test that proves delta if it passes in any of `attempts` attempts.

    Args:
        delta: What a mechanism has at most that is run only because it passed.
        attempts: The most mechanisms that are tested.
        failure_probability: The chance that any of them passes that should not. By default it is delta/100.
        max_samples: The most samples of a direction, if that is limited.
        share_of_curve: The share of that chance that is kept for a curve beside the test.

    >>> verifier = betting_verifier(1e-5)
    >>> abs(verifier.level + verifier.failure_probability * (1 - verifier.level) - 1e-5) < 1e-18
    True
    """
    attempts = validate.integer(attempts=attempts, at_least=1)
    if failure_probability is None:
        failure_probability = delta / 100
    failure_probability = validate.real(failure_probability=failure_probability, above=0)
    if failure_probability >= delta:
        raise ValueError(f"failure_probability is {failure_probability:g}, but it must be below delta = {delta:g}.")
    if max_samples is not None:
        max_samples = validate.integer(max_samples=max_samples, at_least=1)
    level = (delta - failure_probability) / (1 - failure_probability)
    return BettingVerifier(level, failure_probability, attempts, max_samples, share_of_curve=share_of_curve)
