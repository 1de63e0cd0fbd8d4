"""Privacy curves that need no samples: the Gaussian mechanism, Poisson sampling, and cyclic Poisson sampling.

Both directions of the zero-out relation. What comes from dp_accounting's privacy loss distributions is an upper bound,
tight to its discretisation, to which is added what rounding in its Fourier transforms can have taken off.
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
from dp_accounting.pld import PLDAccountant, common
from dp_accounting.pld import privacy_loss_distribution as pld
from numpy.typing import ArrayLike, NDArray
from scipy import optimize
from scipy.stats import binom

from minsep.accounting.normal import normal_excess
from minsep.accounting.pairs import Direction
from minsep.accounting.squared_norms import squared_norm_law
from minsep.attribution import MultiAttributionMinSep
from minsep.mechanism import Mechanism
from minsep.participation import CyclicPoisson, MinSep, Poisson, Truncation, Unamplified

FloatArray = NDArray[np.float64]
Event = Any  # a dp_accounting DpEvent or PrivacyLossDistribution, which have no types

_RELATION = NeighboringRelation.REPLACE_SPECIAL
_MIXTURE_SPACING = 1e-3  # each loss of a mixture is found numerically, which takes long
_FINE, _FINE_IS_FOR = 1e-4, 10.0  # a spacing, and the epsilon up to which it is taken
_MARGIN = 1e-11  # of a delta, for the sums over its losses
_MIXTURE_MARGIN = 1e-6  # a step; 3e-7 was seen beside 40 digits
_MOST_EPSILON = 1e7

# Per composition: five times the largest error of a delta that was seen beside 80-bit numbers (docs/accounting.md).
_ROUNDING = 4 * 2.0**-52
# A delta that consists of more rounding than a tenth is not carried.
_CARRIED = 10.0
_MOST_LOSSES_OF_ONE = 2_000_000  # of one step; a composition has more
_MOST_LOSSES = 50_000_000  # in a table; its transform takes some forty bytes each
_BYTES_A_LOSS = 40
_TAIL = 1e-15  # mass that is counted as an infinite loss
_FURTHEST = 10.5  # standard deviations, beyond which dp_accounting does not look


class ExactCurve(ABC):
    """delta as a function of epsilon, for both directions."""

    method: str
    upper_bound: bool = False
    """Whether the curve is that of a stronger adversary, or of a bound on the sensitivity."""
    rounding: float = 0.0
    """What is added to every delta because rounding may have taken it off."""

    def carries(self, delta: float) -> bool:
        """Whether a delta is well above what rounding makes of one."""
        return delta >= _CARRIED * self.rounding

    def refusal(self, delta: float) -> ValueError:
        """Return the refusal of a delta that the curve does not carry."""
        return ValueError(
            f"delta is {delta:g}, but the exact accounting of this mechanism carries deltas from "
            f"{_CARRIED * self.rounding:.2g} on: its {self.rounding:.2g} of rounding may be in the way."
        )

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
        return normal_excess(epsilon - self.shift**2 / 2, self.shift)

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
        return np.minimum(total * (1 + _MARGIN), 1.0)

    def distribution(self) -> pld.PrivacyLossDistribution:
        """Refuse: dp_accounting has no such distribution."""
        raise ValueError("A scheme with public coins does not compose with other events: compose its parts by hand.")


@dataclass(frozen=True)
class PldCurve(ExactCurve):
    """A curve from a privacy loss distribution of dp_accounting."""

    losses: pld.PrivacyLossDistribution
    no_participation: float = 0.0
    upper_bound: bool = False
    compositions: int = 0
    margin: float = _MARGIN
    """A share of itself that is added to every delta."""
    method = "pld"

    @property
    def rounding(self) -> float:  # type: ignore[override]
        """What is added to every delta for the rounding of as many compositions."""
        return _ROUNDING * self.compositions

    def delta(self, epsilon: ArrayLike, direction: Direction) -> FloatArray:
        """Return delta at each epsilon."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        deltas = np.minimum((1 + self.margin) * self._table(direction).delta(epsilon) + self.rounding, 1.0)
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
    # Columns read from a description may exceed 1 in their last digits.
    sigma = mechanism.noise_multiplier / max(1.0, float(strategy.column_norms.max()))
    match scheme:
        case Unamplified() if truncation is None:
            sensitivity = strategy.sensitivity(scheme.min_sep, scheme.participations)
            known = strategy.knows_sensitivity(scheme.min_sep)
            return GaussianCurve(sensitivity / mechanism.noise_multiplier, upper_bound=not known)
        case MultiAttributionMinSep() if truncation is None:
            return _user_level(mechanism, scheme, spacing)
        case Poisson() | MinSep(min_sep=1) if strategy.bands == 1:
            if truncation is None:
                return _poisson(sigma, scheme.rate, mechanism.iterations, spacing)
            if truncation.num_examples is not None:
                return _truncated(
                    sigma, scheme.rate, mechanism.iterations, truncation, truncation.num_examples, spacing
                )
        case CyclicPoisson() if strategy.bands <= scheme.cycle:
            turns = -(-mechanism.iterations // scheme.cycle)
            if truncation is None:
                return _poisson(sigma, scheme.sampling_prob, turns, spacing, upper_bound=True)
            if truncation.num_examples is not None and scheme.parts == "equal":
                # Parts have one of two sizes, and which is worse for privacy is not known beforehand.
                smaller = max(truncation.num_examples // scheme.cycle, 1)
                parts = {smaller, -(-truncation.num_examples // scheme.cycle)}
                prob = scheme.sampling_prob
                curves = (_truncated(sigma, prob, turns, truncation, part, spacing) for part in parts)
                return _Largest(tuple(curves))
    return None


def spacing_for(epsilon: float) -> float:
    """Return the spacing of losses at an epsilon: they reach as far and further, so their number stays the same."""
    return _FINE * max(1.0, epsilon / _FINE_IS_FOR)


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
            return _poisson(sigma, prob, n, spacing)
        if prob == 1:
            return GaussianCurve(bound * math.sqrt(n) / sigma)
        counts = np.arange(bound + 1)
        spacing = _spacing(sigma, float(bound), max(spacing, _MIXTURE_SPACING))
        one = pld.from_mixture_gaussian_mechanism(
            sigma, counts, binom.pmf(counts, bound, prob), value_discretization_interval=spacing
        )
        return PldCurve(_composed(one, n), (1 - prob) ** (bound * n), compositions=n, margin=_MIXTURE_MARGIN * n)
    return None


@dataclass(frozen=True)
class _Largest(ExactCurve):
    """The larger delta of several curves at each epsilon."""

    curves: tuple[ExactCurve, ...]
    method = "pld"
    upper_bound = True

    @property
    def rounding(self) -> float:  # type: ignore[override]
        return max(curve.rounding for curve in self.curves)

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


def _poisson(sigma: float, prob: float, count: int, spacing: float, *, upper_bound: bool = False) -> ExactCurve:
    if prob == 1:
        return GaussianCurve(math.sqrt(count) / sigma, upper_bound)
    one = pld.from_gaussian_mechanism(
        sigma,
        sampling_prob=prob,
        neighboring_relation=_RELATION,
        value_discretization_interval=_spacing(sigma, 1.0, spacing),
    )
    never = (1 - prob) ** count
    return PldCurve(_composed(one, count), never, upper_bound=upper_bound, compositions=count)


def _truncated(
    sigma: float, prob: float, count: int, truncation: Truncation, num_examples: int, spacing: float
) -> PldCurve:
    """Return the curve for an adversary who sees the others' batch sizes, and so more than there is to see."""
    make: Callable[..., Any] = pld.from_truncated_subsampled_gaussian_mechanism
    one = make(
        dataset_size=num_examples,
        sampling_probability=prob,
        truncated_batch_size=truncation.batch_size,
        noise_multiplier=sigma,
        neighboring_relation=_RELATION,
        value_discretization_interval=_spacing(sigma, 2.0, spacing),
    )
    return PldCurve(_composed(one, count), upper_bound=True, compositions=count)


def _spacing(sigma: float, shift: float, spacing: float) -> float:
    """Return a spacing of losses, wider where there would be too many in one step: never too optimistic."""
    largest = shift * (shift / 2 + _FURTHEST * sigma) / sigma**2
    return max(spacing, 2 * largest / _MOST_LOSSES_OF_ONE)


def _composed(one: pld.PrivacyLossDistribution, count: int) -> pld.PrivacyLossDistribution:
    """Return the composition of a loss with itself, refused if it would take more memory than there should be."""
    for pmf in (one._pmf_remove, one._pmf_add):
        size = pmf.size
        if size * count > _MOST_LOSSES:
            probabilities = np.asarray(pmf.to_dense_pmf()._probs)
            low, high = common.compute_self_convolve_bounds(probabilities, count, _TAIL)
            size = high - low + 1
        if size > _MOST_LOSSES:
            raise ValueError(
                f"The exact accounting of {count:,} compositions takes {size * _BYTES_A_LOSS / 2**30:,.0f} GiB, more "
                f"than the {_MOST_LOSSES * _BYTES_A_LOSS / 2**30:.0f} GiB that it may: use a larger noise multiplier "
                "or fewer iterations."
            )
    return one.self_compose(count, _TAIL)
