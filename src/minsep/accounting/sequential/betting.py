"""A test by betting that the mean of bounded values lies below a level: valid at every sample size.

Under the null hypothesis E[X] >= level, with X in [0, W], the product of 1 + c (level - X)/(W - level) is a
non-negative supermartingale for every c in (0, 1), and so is an average of such products. By Ville's inequality, the
probability that it ever reaches 1/q is at most q.
"""

import math
from dataclasses import dataclass
from functools import cached_property

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
    delta: float, attempts: int = 1, failure_probability: float | None = None, max_samples: int | None = None
) -> BettingVerifier:
    """Return the test that proves delta if it passes in any of `attempts` attempts.

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
    return BettingVerifier(level, failure_probability, attempts, max_samples)
