"""The secret, random number of trials of a tuning.

What an outcome tells depends on the derivative of the generating function phi of the number K: docs/tuning.md. With a
the probability that another trial has a better score, it counts as phi'(1 - a).
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.registry import Registered

_MOST_MEAN = 1e6
_LARGEST_RATE = 28.0  # -ln gamma, at which every mean is above the largest
_LEAST_MEAN = {"geometric": 1.0, "logarithmic": 1.0, "poisson": 1e-9, "binomial": 1e-9}
_CLOSE_MEAN = 1e-9  # relative
_NEVER = 1e-30  # probability of a number of trials above the mean that is not drawn


@dataclass(frozen=True)
class Trials(ABC, Registered):
    """The distribution of the number of trials.

    Args:
        mean: The expected number of trials.
    """

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", validate.real(mean=self.mean, above=0, at_most=_MOST_MEAN))

    @abstractmethod
    def weight(self, better: FloatArray) -> FloatArray:
        """Return phi'(1 - a) at probabilities a: what the density of a trial with that rank is multiplied by.

        Args:
            better: The probability that another trial has a better score.
        """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the distribution, in words."""

    @property
    def none(self) -> float:
        """Probability that there is no trial at all."""
        return 0.0

    @abstractmethod
    def draw(self, generator: np.random.Generator) -> int:
        """Return a number of trials.

        Args:
            generator: The source of randomness. It is secret.
        """

    @abstractmethod
    def at_most(self, count: int) -> float:
        """Return the probability of at most so many trials.

        Args:
            count: The number.
        """

    def success(self, share: float) -> float:
        """Return the probability that at least one trial draws one of the best configurations.

        Args:
            share: The share of the best configurations, such as 0.1 for one of the best tenth.
        """
        return 1.0 - self.miss(validate.real(share=share, above=0, below=1))

    @abstractmethod
    def miss(self, share: float) -> float:
        """Return phi(1 - share), the probability that no trial draws one of the best configurations.

        Args:
            share: The share of the best configurations.
        """


@dataclass(frozen=True)
class NegativeBinomial(Trials):
    """A truncated negative binomial number, at least 1 (Papernot and Steinke 2022).

    Args:
        eta: The shape. 1 is geometric, and 0 logarithmic: the smaller, the more often there is a single trial.
    """

    eta: float = 1.0
    kind = "negative-binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.real(mean=self.mean, at_least=1)
        object.__setattr__(self, "eta", validate.real(eta=self.eta, at_least=0, at_most=1e3))

    @property
    def name(self) -> str:
        """The name of the distribution, in words."""
        known = {0.0: "logarithmic", 1.0: "geometric"}
        return known.get(self.eta, f"negative binomial, eta {self.eta:g}")

    @property
    def gamma(self) -> float:
        """The other parameter of the distribution, which gives the mean."""
        return math.exp(-self._rate)

    @cached_property
    def _rate(self) -> float:
        """-ln gamma."""
        if self.mean == 1:
            return 0.0

        def excess(rate: float) -> float:
            return math.log(_mean(self.eta, rate)) - math.log(self.mean)

        return float(optimize.brentq(excess, 1e-18, _LARGEST_RATE, xtol=1e-18))

    def weight(self, better: FloatArray) -> FloatArray:
        """Return phi'(1 - a) at probabilities a.

        Args:
            better: The probability that another trial has a better score.
        """
        gamma = self.gamma
        return np.asarray(self.mean * (gamma / (gamma + (1 - gamma) * better)) ** (self.eta + 1))

    def draw(self, generator: np.random.Generator) -> int:
        """Return a number of trials.

        Args:
            generator: The source of randomness. It is secret.
        """
        chance, count = float(generator.random()), 1
        for probability in self._probabilities():
            chance -= probability
            # Rounding can leave a rest of about 1e-16 when nothing is left of the distribution.
            if chance < 0 or (probability < _NEVER and count > self.mean):
                break
            count += 1
        return count

    def at_most(self, count: int) -> float:
        """Return the probability of at most so many trials.

        Args:
            count: The number.
        """
        return math.fsum(probability for _, probability in zip(range(count), self._probabilities(), strict=False))

    def miss(self, share: float) -> float:
        """Return phi(1 - share), the probability that no trial draws one of the best configurations.

        Args:
            share: The share of the best configurations.
        """
        if self._rate == 0:
            return 1.0 - share
        part = -math.log(self.gamma + (1 - self.gamma) * share)
        if self.eta == 0:
            return part / self._rate
        below = math.expm1(-self.eta * part) / math.expm1(-self.eta * self._rate)
        return math.exp(self.eta * (part - self._rate)) * below

    def _probabilities(self) -> Iterator[float]:
        """Yield the probabilities of 1, 2, 3, ... trials."""
        eta, rate = self.eta, self._rate
        if rate == 0:
            yield 1.0
            while True:
                yield 0.0
        # In logarithms: the first probability may be too small for a number while the likeliest ones are not.
        again = math.log(-math.expm1(-rate))
        logarithm = again - (math.log(rate) if eta == 0 else eta * rate + math.log(-math.expm1(-eta * rate) / eta))
        for count in itertools.count(1):
            yield math.exp(logarithm)
            logarithm += again + math.log((count + eta) / (count + 1))


def _mean(eta: float, rate: float) -> float:
    if eta == 0:
        return math.expm1(rate) / rate
    return eta * math.expm1(rate) / -math.expm1(-eta * rate)


@dataclass(frozen=True)
class PoissonTrials(Trials):
    """A Poisson number: it may be 0."""

    kind = "poisson"

    @property
    def name(self) -> str:
        """The name of the distribution, in words."""
        return "Poisson"

    def weight(self, better: FloatArray) -> FloatArray:
        """Return phi'(1 - a) at probabilities a.

        Args:
            better: The probability that another trial has a better score.
        """
        return np.asarray(self.mean * np.exp(-self.mean * better))

    @property
    def none(self) -> float:
        """Probability that there is no trial at all."""
        return math.exp(-self.mean)

    def draw(self, generator: np.random.Generator) -> int:
        """Return a number of trials.

        Args:
            generator: The source of randomness. It is secret.
        """
        return int(generator.poisson(self.mean))

    def at_most(self, count: int) -> float:
        """Return the probability of at most so many trials.

        Args:
            count: The number.
        """
        from scipy.stats import poisson

        return float(poisson.cdf(count, self.mean))

    def miss(self, share: float) -> float:
        """Return phi(1 - share), the probability that no trial draws one of the best configurations.

        Args:
            share: The share of the best configurations.
        """
        return math.exp(-self.mean * share)


@dataclass(frozen=True)
class BinomialTrials(Trials):
    """A binomial number: it may be 0, and is at most `most`.

    Args:
        most: The largest number of trials, at least the mean.
    """

    most: int = 1
    kind = "binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "most", validate.integer(most=self.most, at_least=math.ceil(self.mean)))

    @property
    def name(self) -> str:
        """The name of the distribution, in words."""
        return f"binomial, at most {self.most}"

    @property
    def chance(self) -> float:
        """The chance of each of the most trials to take place."""
        return self.mean / self.most

    def weight(self, better: FloatArray) -> FloatArray:
        """Return phi'(1 - a) at probabilities a.

        Args:
            better: The probability that another trial has a better score.
        """
        return np.asarray(self.mean * (1 - self.chance * better) ** (self.most - 1))

    @property
    def none(self) -> float:
        """Probability that there is no trial at all."""
        return float((1 - self.chance) ** self.most)

    def draw(self, generator: np.random.Generator) -> int:
        """Return a number of trials.

        Args:
            generator: The source of randomness. It is secret.
        """
        return int(generator.binomial(self.most, self.chance))

    def at_most(self, count: int) -> float:
        """Return the probability of at most so many trials.

        Args:
            count: The number.
        """
        from scipy.stats import binom

        return float(binom.cdf(count, self.most, self.chance))

    def miss(self, share: float) -> float:
        """Return phi(1 - share), the probability that no trial draws one of the best configurations.

        Args:
            share: The share of the best configurations.
        """
        return float((1 - self.chance * share) ** self.most)


LAWS = ("geometric", "logarithmic", "poisson", "binomial")
"""The names of the usual distributions of the number of trials."""


def trials_of(trials: "float | Trials", law: str = "geometric") -> Trials:
    """Return a distribution of the number of trials by its mean and name.

    Args:
        trials: The mean, or the distribution itself.
        law: One of "geometric", "logarithmic", "poisson" and "binomial" (at most twice the mean).

    >>> round(trials_of(10, "logarithmic").at_most(2), 3), round(trials_of(10).at_most(2), 3)
    (0.4, 0.19)
    """
    if isinstance(trials, Trials):
        return trials
    validate.choice(LAWS, law=law)
    mean = validate.real(trials=trials, above=0, at_most=_MOST_MEAN)
    match law:
        case "geometric":
            return NegativeBinomial(mean, 1.0)
        case "logarithmic":
            return NegativeBinomial(mean, 0.0)
        case "poisson":
            return PoissonTrials(mean)
    return BinomialTrials(mean, math.ceil(2 * mean))


def trials_that_find(share: float, probability: float, law: str = "geometric") -> Trials:
    """Return the distribution with the lowest mean for which one of the best configurations is likely to be tried.

    Args:
        share: The share of the best configurations, such as 0.1 for one of the best tenth.
        probability: The probability that at least one of them is tried.
        law: The distribution, by name, as for `trials_of`.

    >>> found = trials_that_find(0.1, 0.5)
    >>> round(found.mean, 3), round(found.success(0.1), 6)
    (9.0, 0.5)
    >>> round(trials_that_find(0.1, 0.5, "poisson").mean, 3)
    6.931
    """
    share = validate.real(share=share, above=0, below=1)
    probability = validate.real(probability=probability, above=0, below=1)
    validate.choice(LAWS, law=law)
    low, high = _LEAST_MEAN[law], _MOST_MEAN
    if trials_of(high, law).success(share) < probability:
        raise ValueError(
            f"probability is {probability}, but a mean of {_MOST_MEAN:,.0f} trials is not enough to find one of "
            f"the best {share:g}: ask for less."
        )
    while high > low * (1 + _CLOSE_MEAN):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if trials_of(middle, law).success(share) >= probability else (middle, high)
    return trials_of(high, law)
