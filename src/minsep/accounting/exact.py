"""Privacy curves that need no samples: the Gaussian mechanism, Poisson sampling, and cyclic Poisson sampling.

Both directions of the zero-out relation. What comes from dp_accounting's privacy loss distributions is an upper bound
up to floating-point rounding, tight to its discretisation.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
from dp_accounting import DpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from minsep.accounting.pairs import Direction
from minsep.accounting.squared_norms import squared_norm_law
from minsep.attribution import MultiAttributionMinSep
from minsep.mechanism import Mechanism
from minsep.participation import CyclicPoisson, MinSep, Poisson, Truncation, Unamplified

FloatArray = NDArray[np.float64]
Event = Any  # a dp_accounting DpEvent or PrivacyLossDistribution, which have no types

_RELATION = NeighboringRelation.REPLACE_SPECIAL
_MIXTURE_SPACING = 1e-3  # each loss of a mixture is found numerically, which takes long
_MOST_EPSILON = 1e7


class ExactCurve(ABC):
    """delta as a function of epsilon, for both directions."""

    method: str
    upper_bound: bool = False
    """Whether the curve is that of a stronger adversary, or of a bound on the sensitivity."""

    @abstractmethod
    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon, which may be negative."""

    @abstractmethod
    def distribution(self) -> pld.PrivacyLossDistribution:
        """Return the privacy loss distribution, to compose with others."""

    def epsilon(self, delta: float, direction: Direction) -> float:
        """Return the least epsilon, at least 0, with at most this delta."""

        def excess(epsilon: float) -> float:
            return float(self.delta(epsilon, direction)) - delta

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > _MOST_EPSILON:
                return math.inf
        found = float(optimize.brentq(excess, 0.0, high, xtol=1e-10, rtol=1e-12))
        while excess(found) > 0:
            found = math.nextafter(found * (1 + 1e-12), math.inf)
        return found


@dataclass(frozen=True)
class GaussianCurve(ExactCurve):
    """The Gaussian mechanism with this ratio of sensitivity to noise: Balle and Wang (2018), Theorem 8."""

    shift: float
    upper_bound: bool = False
    method = "gaussian"

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon; the two directions are the same."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        middle = epsilon / self.shift
        # The product of e^epsilon and its factor is at most 1 wherever delta is at least 0.
        second = np.exp(np.minimum(epsilon + log_ndtr(-self.shift / 2 - middle), 0.0))
        return np.asarray(np.maximum(ndtr(self.shift / 2 - middle) - second, 0.0))

    def distribution(self) -> pld.PrivacyLossDistribution:
        """Return the privacy loss distribution."""
        return pld.from_gaussian_mechanism(1 / self.shift, neighboring_relation=_RELATION)


@dataclass(frozen=True)
class GaussianMixtureCurve(ExactCurve):
    """A Gaussian mechanism whose shift is random but known to the adversary: the mean of the curves of its shifts."""

    shifts: FloatArray
    probabilities: FloatArray
    upper_bound: bool = True
    method = "gaussian"

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon; the two directions are the same."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        total = np.zeros(epsilon.shape)
        for shift, probability in zip(self.shifts, self.probabilities, strict=True):
            if shift == 0:
                total = total + probability * np.maximum(-np.expm1(epsilon), 0.0)
            elif probability > 0:
                total = total + probability * GaussianCurve(float(shift)).delta(epsilon, direction)
        return total

    def distribution(self) -> pld.PrivacyLossDistribution:
        """Refuse: dp_accounting has no such distribution."""
        raise ValueError("A scheme with public coins does not compose with other events: compose its parts by hand.")


@dataclass(frozen=True)
class PldCurve(ExactCurve):
    """A curve from a privacy loss distribution of dp_accounting."""

    losses: pld.PrivacyLossDistribution
    no_participation: float = 0.0
    upper_bound: bool = False
    method = "pld"

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        deltas = self._table(direction).delta(epsilon)
        if direction == "add" and self.no_participation > 0:
            # P/Q is nowhere smaller than the probability of no participation.
            deltas = np.where(np.exp(-epsilon) <= self.no_participation, 0.0, deltas)
        return deltas

    def infinite(self, direction: Direction) -> float:
        """Return the probability of an infinite loss."""
        return self._table(direction).infinite

    def _table(self, direction: Direction) -> "_LossTable":
        return self._remove if direction == "remove" else self._add

    def distribution(self) -> pld.PrivacyLossDistribution:
        """Return the privacy loss distribution."""
        return self.losses

    # dp_accounting offers the larger of the two directions only, and composition needs each.
    @cached_property
    def _remove(self) -> "_LossTable":
        return _LossTable(self.losses._pmf_remove)

    @cached_property
    def _add(self) -> "_LossTable":
        return _LossTable(self.losses._pmf_add)


class _LossTable:
    """Tail sums of a discrete privacy loss, so that delta at any epsilon is a look-up."""

    def __init__(self, pmf: Any) -> None:
        dense = pmf.to_dense_pmf()
        # Convolution by Fourier transform leaves values slightly below 0.
        probabilities = np.maximum(np.asarray(dense._probs, dtype=np.float64), 0.0)
        self.infinite = float(dense._infinity_mass)
        self._width = float(dense._discretization)
        self._first = int(dense._lower_loss)
        self._mass = np.append(np.cumsum(probabilities[::-1])[::-1], 0.0)
        self._shrunk = np.append(_discounted_tails(probabilities, math.exp(-self._width)), 0.0)

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Return infinite mass + sum over losses > epsilon of mass (1 - e^(epsilon - loss))."""
        first = np.clip(np.floor(epsilon / self._width) + 1 - self._first, 0, self._mass.size - 1)
        k = first.astype(np.int64)
        least = (k + self._first) * self._width
        delta: FloatArray = self.infinite + self._mass[k] - np.exp(np.minimum(epsilon - least, 0.0)) * self._shrunk[k]
        return delta


@numba.njit(cache=True)
def _discounted_tails(probabilities, factor):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return sum_(j >= k) factor^(j - k) p_j for every k."""
    tails = np.empty_like(probabilities)
    total = 0.0
    for k in range(probabilities.size - 1, -1, -1):
        total = total * factor + probabilities[k]
        tails[k] = total
    return tails


def exact_curve(mechanism: Mechanism, spacing: float = 1e-4) -> ExactCurve | None:
    """Return the curve of a mechanism that needs no samples, or None.

    `spacing` is that of the privacy losses in a distribution: a wider one is quicker, and never too optimistic.
    """
    strategy, scheme, truncation = mechanism.strategy, mechanism.scheme, mechanism.truncation
    sigma = mechanism.noise_multiplier
    match scheme:
        case Unamplified() if truncation is None:
            sensitivity = strategy.sensitivity(scheme.min_sep, scheme.participations)
            return GaussianCurve(sensitivity / sigma, not strategy.knows_sensitivity(scheme.min_sep))
        case MultiAttributionMinSep() if truncation is None:
            return _user_level(mechanism, scheme, spacing)
        case Poisson() | MinSep(min_sep=1) if strategy.bands == 1:
            if truncation is None:
                never = (1 - scheme.rate) ** mechanism.iterations
                return PldCurve(_poisson(sigma, scheme.rate, mechanism.iterations, spacing), never)
            if truncation.num_examples is not None:
                return PldCurve(
                    _truncated(sigma, scheme.rate, mechanism.iterations, truncation, truncation.num_examples, spacing)
                )
        case CyclicPoisson() if strategy.bands <= scheme.cycle:
            turns = -(-mechanism.iterations // scheme.cycle)
            if truncation is None:
                never = (1 - scheme.sampling_prob) ** turns
                return PldCurve(_poisson(sigma, scheme.sampling_prob, turns, spacing), never, upper_bound=True)
            if truncation.num_examples is not None and scheme.parts == "equal":
                # Parts have one of two sizes, and which is worse for privacy is not known beforehand.
                smaller = max(truncation.num_examples // scheme.cycle, 1)
                parts = {smaller, -(-truncation.num_examples // scheme.cycle)}
                prob = scheme.sampling_prob
                curves = (PldCurve(_truncated(sigma, prob, turns, truncation, part, spacing)) for part in parts)
                return _Largest(tuple(curves))
    return None


def _user_level(mechanism: Mechanism, scheme: MultiAttributionMinSep, spacing: float) -> ExactCurve | None:
    """Return the curve of a user with several examples for public coins, and that of Poisson sampling for one."""
    strategy, sigma, n = mechanism.strategy, mechanism.noise_multiplier, mechanism.iterations
    bound, prob = scheme.user_bound, scheme.sampling_prob
    if scheme.coins == "public":
        if scheme.block == "sampled" and strategy.bands <= scheme.min_sep:
            squares, probabilities = squared_norm_law(prob, bound, scheme.min_sep, n)
            return GaussianMixtureCurve(np.sqrt(squares) * (strategy.column_norms.max() / sigma), probabilities)
        sensitivity = bound * strategy.sensitivity(scheme.min_sep, -(-n // scheme.min_sep))
        return GaussianCurve(sensitivity / sigma, upper_bound=True)
    if scheme.min_sep == strategy.bands == 1:
        # Nothing blocks, so iterations are independent: Poisson sampling, with up to `bound` examples at a time.
        if bound == 1:
            return PldCurve(_poisson(sigma, prob, n, spacing), (1 - prob) ** n)
        counts = np.arange(bound + 1)
        one = pld.from_mixture_gaussian_mechanism(
            sigma, counts, binom.pmf(counts, bound, prob), value_discretization_interval=max(spacing, _MIXTURE_SPACING)
        )
        return PldCurve(one.self_compose(n), (1 - prob) ** (bound * n))
    return None


@dataclass(frozen=True)
class _Largest(ExactCurve):
    """The larger delta of several curves at each epsilon."""

    curves: tuple[ExactCurve, ...]
    method = "pld"
    upper_bound = True

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        deltas = [curve.delta(epsilon, direction) for curve in self.curves]
        return np.asarray(np.maximum.reduce(deltas))

    def distribution(self) -> pld.PrivacyLossDistribution:
        if len(self.curves) > 1:
            raise ValueError(
                "A truncated cyclic mechanism composes with other events only when cycle divides num_examples, so "
                "that all parts have one size."
            )
        return self.curves[0].distribution()


def event_curve(event: Event) -> PldCurve:
    """Return the curve of another event: one of dp_accounting's events or privacy loss distributions."""
    if isinstance(event, pld.PrivacyLossDistribution):
        if not (event._pmf_remove._pessimistic_estimate and event._pmf_add._pessimistic_estimate):
            raise ValueError(
                "compose_with is an optimistic privacy loss distribution, but it must be a pessimistic one."
            )
        return PldCurve(event)
    if not isinstance(event, DpEvent):
        raise ValueError(f"compose_with is {event!r}, but it must be a DpEvent or a PrivacyLossDistribution.")
    accountant = PLDAccountant(_RELATION)
    if not accountant.supports(event) or accountant.compose(event)._contains_non_dp_event:
        raise ValueError(f"compose_with is {event}, but it must be an event with a privacy loss distribution.")
    return PldCurve(accountant._pld)


def _poisson(sigma: float, prob: float, count: int, spacing: float) -> pld.PrivacyLossDistribution:
    one = pld.from_gaussian_mechanism(
        sigma, sampling_prob=prob, neighboring_relation=_RELATION, value_discretization_interval=spacing
    )
    return one.self_compose(count)


def _truncated(
    sigma: float, prob: float, count: int, truncation: Truncation, num_examples: int, spacing: float
) -> pld.PrivacyLossDistribution:
    make: Callable[..., Any] = pld.from_truncated_subsampled_gaussian_mechanism
    one = make(
        dataset_size=num_examples,
        sampling_probability=prob,
        truncated_batch_size=truncation.batch_size,
        noise_multiplier=sigma,
        neighboring_relation=_RELATION,
        value_discretization_interval=spacing,
    )
    return one.self_compose(count)
