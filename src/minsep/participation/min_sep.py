"""b-min-sep sampling, the scheme of the paper."""

import math
from dataclasses import dataclass
from typing import Literal

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.family import Family, Sizes, Style, doubling
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import MOST_ITERATIONS, ROUNDING, IndependentScheme, Scheme, check_feasible

_MOST_LOG_WAITING = 100.0  # -log of the chance that a user's examples never wait: beyond it the recursion is slow


@dataclass(frozen=True, eq=False)
class MinSep(IndependentScheme):
    """b-min-sep: Poisson sampling from the examples that did not take part in the last `min_sep - 1` iterations.

    - No example takes part twice within `min_sep` iterations.
    - An available example takes part with probability `sampling_prob = rate / (1 - rate (min_sep - 1))`.
    - `min_sep=1` is Poisson sampling; a warm start at `rate = 1 / min_sep` is balls-in-bins.

    Args:
        rate: Expected fraction of the iterations in which an example takes part (p0), at most `1 / min_sep`.
        min_sep: Number of iterations from one participation to the next, at least (b).
        start: How sampling begins. With "warm" it begins in the stationary state, so every batch has the same expected
            size (Algorithm 2 of the paper). With "cold" it begins with every example available, so the first batches
            are larger (Algorithm 1).

    Examples:
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
        """Return the scheme with a separation, in words.

        Args:
            separation: The number of iterations from one participation to the next, at least.
        """
        return f"b-min-sep, b = {separation}"

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return self.in_words(self.min_sep) + (", cold start" if self.start == "cold" else "")

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": self.kind, "rate": self.rate, "min_sep": self.min_sep, "start": self.start}


class MinSepFamily(Family):
    """b-min-sep sampling, from as many iterations apart as there are bands up to an epoch."""

    kind = MinSep.kind
    words = "b-min-sep"
    place = 50
    style = Style("blue", "circle")
    is_planned = covers_users = takes_min_sep = True

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> Scheme:
        """Return the scheme for single examples."""
        return MinSep(sizes.rate, separation)

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme with its separation, in words."""
        return MinSep.in_words(separation)

    @classmethod
    def separations(cls, sizes: Sizes, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the separation requested, or else the bands, doubled up to an epoch."""
        if min_sep is not None:
            return [min_sep]
        if bands == 1:
            return []  # nothing to keep apart: as good as Poisson sampling
        separations = doubling(bands, sizes.longest_separation) or [bands]
        if sizes.user_bound > 1:
            separations = [b for b in separations if b == bands or _is_fast_for_users(sizes, b)]
        # With a separation of an epoch b-min-sep is balls-in-bins.
        return separations[:-1] if epoch_is_tried and len(separations) > 1 else separations


class ColdMinSepFamily(Family):
    """b-min-sep sampling that begins with every example available."""

    kind = "cold-min-sep"
    words = "b-min-sep, cold start"
    place = 51
    style = Style("pale", "circle")

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> MinSep:
        """Return the scheme."""
        return MinSep(sizes.rate, separation, "cold")

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme with its separation, in words."""
        return f"{MinSep.in_words(separation)}, cold start"


def _is_fast_for_users(sizes: Sizes, separation: int) -> bool:
    """Return whether a user's examples rarely wait for each other, so that the recursion over them is fast."""
    prob = sizes.rate / max(1 - sizes.rate * (separation - 1), sizes.rate)
    return prob < 1 and -sizes.user_bound * separation * math.log1p(-prob) <= _MOST_LOG_WAITING
