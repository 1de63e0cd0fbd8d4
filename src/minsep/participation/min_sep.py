"""b-min-sep sampling, the scheme of the paper."""

from dataclasses import dataclass
from typing import Literal

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import MOST_ITERATIONS, ROUNDING, IndependentScheme, check_feasible


@dataclass(frozen=True, eq=False)
class MinSep(IndependentScheme):
    """b-min-sep: Poisson sampling from the examples that did not take part in the last `min_sep - 1` iterations.

    - No example takes part twice within `min_sep` iterations.
    - An available example takes part with probability `sampling_prob = rate / (1 - rate (min_sep - 1))`.
    - `start="warm"` begins in the stationary state, so every batch has the same expected size (Algorithm 2 of the
      paper). `start="cold"` begins with every example available, so the first batches are larger (Algorithm 1).
    - `min_sep=1` is Poisson sampling; a warm start at `rate = 1 / min_sep` is balls-in-bins.

    >>> scheme = MinSep(rate=0.01, min_sep=51)
    >>> scheme.sampling_prob
    0.02
    >>> MinSep(rate=0.2, min_sep=16)
    Traceback (most recent call last):
    ValueError: rate is 0.2, but with min_sep 16 it must be at most 1/16 = 0.0625.
    """

    kind = "min-sep"

    rate: float
    min_sep: int
    start: Literal["warm", "cold"] = "warm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validate.real(rate=self.rate, above=0, at_most=1))
        object.__setattr__(self, "min_sep", validate.integer(min_sep=self.min_sep, at_least=1, at_most=MOST_ITERATIONS))
        validate.choice(("warm", "cold"), start=self.start)
        check_feasible(self.rate, min_sep=self.min_sep)

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """Probability of taking part when available: p = p0 / (1 - p0 (b - 1))."""
        if self.min_sep * self.rate >= 1 - ROUNDING:
            return 1.0
        return self.rate / (1 - self.rate * (self.min_sep - 1))

    @property
    def available(self) -> float:
        """Stationary probability that an example is available: 1 / (1 + (b - 1) p)."""
        return 1 / (1 + (self.min_sep - 1) * self.sampling_prob)

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: `min_sep - 1` iterations of rest after each."""
        return RenewalLaw.min_sep(self.sampling_prob, self.min_sep, warm=self.start == "warm")

    @staticmethod
    def in_words(separation: int) -> str:
        """Return the scheme with a separation, in words."""
        return f"b-min-sep, b = {separation}"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep) + (", cold start" if self.start == "cold" else "")

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "rate": self.rate, "min_sep": self.min_sep, "start": self.start}
