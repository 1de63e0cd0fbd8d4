"""Curves from privacy loss distributions. Only this file and `sums` compute with dp_accounting.

Its results are upper bounds, tight up to discretisation. A margin is added for what rounding in its Fourier transforms
can have removed. Some attributes read here are private to dp_accounting, so its version is capped.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np
from dp_accounting import DpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant, pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import ArrayLike
from scipy import fft
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import binom

from minsep.accounting.directions import Direction
from minsep.accounting.exact.curves import MARGIN, ExactCurve, GaussianCurve, LargestCurve
from minsep.core.arrays import FloatArray

Event = Any  # a dp_accounting DpEvent or PrivacyLossDistribution, which have no types

_RELATION = NeighboringRelation.REPLACE_SPECIAL
_WIDTH = 1e-4  # of losses, by default in dp_accounting
_PEAK_MARGIN, _SMALLEST_PEAK = 1e-9, 1e-300
_MIXTURE_MARGIN = 1e-6  # per step; 3e-7 was seen against 40 digits

# Per composition: five times the largest error of a delta seen against 80-bit numbers (docs/accounting.md).
_ROUNDING = 4 * 2.0**-52
_MOST_LOSSES_OF_ONE = 2_000_000  # of one step; a composition has more
MOST_LOSSES = 50_000_000  # in a table; its transform takes about forty bytes each
_BYTES_A_LOSS = 40
_FEW_POINTS, _MOST_STEPS, _FLAT, _PRECISION = 2049, 80, 1e-250, 1e-13
TAIL = 1e-15  # mass that is counted as an infinite loss
_ORDERS = 20  # of moments, on either side, that bound a sum
_FURTHEST = 10.5  # standard deviations, beyond which dp_accounting does not look


@dataclass(frozen=True)
class PldCurve(ExactCurve):
    """A curve from a privacy loss distribution of dp_accounting."""

    losses: pld.PrivacyLossDistribution
    no_participation: float = 0.0
    upper_bound: bool = False
    compositions: int = 0
    margin: float = MARGIN
    """A share of itself that is added to every delta."""
    method = "pld"

    @property
    def rounding(self) -> float:
        """What is added to every delta for the rounding of all compositions."""
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

    def finite_delta(self, epsilon: FloatArray, direction: Direction) -> FloatArray:
        """Return the part of delta at each epsilon that does not come from infinite losses, rounded up."""
        table = self._table(direction)
        return (1 + self.margin) * np.maximum(table.delta(epsilon) - table.infinite, 0.0)

    def infinite_delta(self, direction: Direction) -> float:
        """Return the rest of delta: what infinite losses add, and what rounding may have removed."""
        return (1 + self.margin) * self._table(direction).infinite + self.rounding

    def log_peak(self, order: float, direction: Direction) -> float:
        """Return the logarithm of a bound on the finite part of delta times e^(order epsilon) at any epsilon."""
        return self._table(direction).log_peak(order) + math.log1p(self.margin)

    @property
    def width(self) -> float:
        """The spacing of losses."""
        return self._remove.width

    def _table(self, direction: Direction) -> "_LossTable":
        return self._remove if direction == "remove" else self._add

    # dp_accounting offers only the larger of the two directions, and composition needs both.
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
        self.width = float(dense._discretization)
        self._first = int(dense._lower_loss)
        self._mass = np.append(np.cumsum(probabilities[::-1])[::-1], 0.0)
        self._shrunk = np.append(_discounted_tails(probabilities, math.exp(-self.width)), 0.0)

    def delta(self, epsilon: FloatArray) -> FloatArray:
        """Return infinite mass + sum over losses > epsilon of mass (1 - e^(epsilon - loss))."""
        first = np.clip(np.floor(epsilon / self.width) + 1 - self._first, 0, self._mass.size - 1)
        k = first.astype(np.int64)
        least = (k + self._first) * self.width
        delta: FloatArray = self.infinite + self._mass[k] - np.exp(np.minimum(epsilon - least, 0.0)) * self._shrunk[k]
        return delta

    def log_peak(self, order: float) -> float:
        """Return the logarithm of the largest (delta - infinite mass) e^(order epsilon), rounded up."""
        # Up to each loss the first factor is linear in e^epsilon: it falls from mass at 0 to mass - shrunk.
        losses = (self._first + np.arange(np.count_nonzero(self._mass))) * self.width
        mass, shrunk = self._mass[: losses.size], self._shrunk[: losses.size]
        if losses.size == 0:
            return math.log(_SMALLEST_PEAK)
        with np.errstate(divide="ignore"):
            # The largest point of (mass - shrunk u) u^order with u = e^(epsilon - loss), and where it may lie.
            best = np.log(order * mass) - np.log((1 + order) * shrunk) if order > 0 else np.full(mass.size, -np.inf)
            lowest = np.full(mass.size, -self.width)
            lowest[0] = -np.inf
            places = np.clip(best, lowest, 0.0)
            # 0 times infinity: without an order only the first factor counts.
            growth = order * places if order > 0 else np.zeros(mass.size)
            heights = np.log(np.maximum(mass - shrunk * np.exp(places), 0.0)) + growth
        peak = float((heights + order * losses).max())
        return peak + _PEAK_MARGIN * (1 + abs(peak)) if math.isfinite(peak) else math.log(_SMALLEST_PEAK)


@numba.njit(cache=True)
def _discounted_tails(probabilities, factor):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return sum_(j >= k) factor^(j - k) p_j for every k."""
    tails = np.empty_like(probabilities)
    total = 0.0
    for k in range(probabilities.size - 1, -1, -1):
        total = total * factor + probabilities[k]
        tails[k] = total
    return tails


def poisson_curve(sigma: float, prob: float, count: int, spacing: float, *, upper_bound: bool = False) -> ExactCurve:
    """Return the curve of `count` sampled Gaussian mechanisms, one after the other."""
    if prob == 1:
        return GaussianCurve(math.sqrt(count) / sigma, upper_bound)
    width = _spacing(sigma, 1.0, spacing)
    remove, add = (
        pld._create_pld_pmf_from_monotone_privacy_loss(
            _SampledGaussianLoss(sigma, sampling_prob=prob, adjacency_type=adjacency), True, width, True
        )
        for adjacency in (AdjacencyType.REMOVE, AdjacencyType.ADD)
    )
    one = pld.PrivacyLossDistribution(remove, add)
    never = (1 - prob) ** count
    return PldCurve(_composed(one, count), never, upper_bound=upper_bound, compositions=count)


class _SampledGaussianLoss(GaussianPrivacyLoss):  # type: ignore[misc]  # dp_accounting has no types
    """The loss of one step. dp_accounting finds where it has a value one by one, which takes ten times as long."""

    def get_delta_for_epsilon(self, epsilon: FloatArray) -> FloatArray:
        """Return the hockey-stick divergence of one step."""
        remove = self.adjacency_type == AdjacencyType.REMOVE
        sign = 1.0 if remove else -1.0
        least = math.log1p(-self.sampling_prob)
        inside = sign * epsilon > least
        # Below the least loss every point counts for `remove`, and none does for `add`.
        deltas = -np.expm1(np.minimum(epsilon, 0.0)) if remove else np.zeros(epsilon.size)
        unsampled = sign * _loss_without_sampling(sign * epsilon[inside], self.sampling_prob)
        invert = (
            self._inverse_privacy_loss_without_subsampling_remove
            if remove
            else self._inverse_privacy_loss_without_subsampling_add
        )
        points = invert(unsampled)
        log_lower = epsilon[inside] + self.mu_lower_log_cdf(points)
        deltas[inside] = np.clip(self.mu_upper_cdf(points) - np.exp(np.minimum(log_lower, 0.0)), 0.0, 1.0)
        return deltas


def _loss_without_sampling(losses: FloatArray, prob: float) -> FloatArray:
    """Return log(1 + (e^loss - 1) / prob), for losses above log(1 - prob)."""
    near = np.log1p(np.expm1(np.minimum(losses, 1.0)) / prob)
    far = losses - math.log(prob) + np.log1p((prob - 1) * np.exp(-np.maximum(losses, 1.0)))
    return np.where(losses < 1.0, near, far)


def truncated_poisson_curve(
    sigma: float, prob: float, count: int, batch_size: int, num_examples: int, spacing: float
) -> PldCurve:
    """Return the curve for an adversary who sees the numbers of other examples, which are not released."""
    make: Callable[..., Any] = pld.from_truncated_subsampled_gaussian_mechanism
    one = make(
        dataset_size=num_examples,
        sampling_probability=prob,
        truncated_batch_size=batch_size,
        noise_multiplier=sigma,
        neighboring_relation=_RELATION,
        value_discretization_interval=_spacing(sigma, 2.0, spacing),
    )
    return PldCurve(_composed(one, count), upper_bound=True, compositions=count)


def user_poisson_curve(sigma: float, user_bound: int, prob: float, count: int, spacing: float) -> ExactCurve:
    """Return the curve of `count` iterations, in each of which a user takes part with Binomial(user_bound, prob)."""
    if user_bound == 1:
        return poisson_curve(sigma, prob, count, spacing)
    if prob == 1:
        return GaussianCurve(user_bound * math.sqrt(count) / sigma)
    mixture = _Mixture(sigma, binom.logpmf(np.arange(user_bound + 1), user_bound, prob))
    width = _spacing(sigma, float(user_bound), spacing, _MOST_LOSSES_OF_ONE // user_bound)
    one = pld.PrivacyLossDistribution(mixture.losses("remove", width), mixture.losses("add", width))
    never = (1 - prob) ** (user_bound * count)
    return PldCurve(_composed(one, count), never, compositions=count, margin=_MIXTURE_MARGIN * count)


@dataclass(frozen=True)
class _Mixture:
    """P, the normal law around 0, 1, 2, ... with these log probabilities, and Q, that around 0.

    dp_accounting has the same, but looks for the losses one by one, which takes a hundred times as long.
    """

    sigma: float
    log_weights: FloatArray

    def log_ratio(self, y: FloatArray) -> FloatArray:
        """Return log P/Q, which increases with y."""
        means = np.arange(self.log_weights.size)[:, None]
        return np.asarray(logsumexp(self.log_weights[:, None] + means * (y - means / 2) / self.sigma**2, axis=0))

    def points(self, log_ratios: FloatArray) -> FloatArray:
        """Return where log P/Q has these values, or the nearest end, by Newton's steps within a bracket."""
        grid = np.linspace(*self._ends, _FEW_POINTS)
        known = self.log_ratio(grid)
        place = np.clip(np.searchsorted(known, log_ratios), 1, grid.size - 1)
        points = np.interp(log_ratios, known, grid)
        _refine(self.log_weights, self.sigma, log_ratios, grid[place - 1], grid[place], points)
        return points

    @property
    def _ends(self) -> tuple[float, float]:
        furthest = _FURTHEST * self.sigma
        return -furthest, furthest + self.log_weights.size - 1

    def losses(self, direction: Direction, width: float) -> Any:
        """Return the losses of a direction, connected by dots (Doroshenko et al., 2022): never optimistic."""
        lowest, highest = self.log_ratio(np.array(self._ends))
        ends = (lowest, highest) if direction == "remove" else (-highest, -lowest)
        first, last = math.floor(ends[0] / width), math.ceil(ends[1] / width)
        deltas = self.deltas(width * np.arange(first, last + 1), direction)
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(width, first, last, deltas)

    def deltas(self, epsilons: FloatArray, direction: Direction) -> FloatArray:
        """Return the hockey-stick divergence of one step."""
        means = np.arange(self.log_weights.size)[:, None]
        # Logarithms first: e^epsilon alone may be infinite where its product with a tail is not.
        if direction == "remove":
            points = self.points(epsilons)
            one = np.exp(self.log_weights) @ ndtr((means - points) / self.sigma)
            found = one - np.exp(np.minimum(epsilons + log_ndtr(-points / self.sigma), 0.0))
            # Below the least log P/Q every point counts.
            found = np.where(epsilons <= self.log_weights[0], -np.expm1(np.minimum(epsilons, 0.0)), found)
        else:
            points = self.points(-epsilons)
            tails = logsumexp(self.log_weights[:, None] + log_ndtr((points - means) / self.sigma), axis=0)
            found = ndtr(points / self.sigma) - np.exp(np.minimum(epsilons + tails, 0.0))
            found = np.where(-epsilons <= self.log_weights[0], 0.0, found)
        if not np.isfinite(found).all():
            raise FloatingPointError(f"The losses of a user at noise multiplier {self.sigma:g} are not finite.")
        return np.minimum.accumulate(np.clip(found, 0.0, 1.0))


@numba.njit(cache=True)
def _refine(log_weights, sigma, targets, lows, highs, points):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Move each point to where log P/Q has its target, by Newton's steps within a bracket."""
    variance = sigma**2
    for i in range(points.size):
        point, low, high = points[i], lows[i], highs[i]
        for _ in range(_MOST_STEPS):
            top = -np.inf
            for k in range(log_weights.size):
                top = max(top, log_weights[k] + k * (point - k / 2) / variance)
            total = 0.0
            moment = 0.0
            for k in range(log_weights.size):
                weight = math.exp(log_weights[k] + k * (point - k / 2) / variance - top)
                total += weight
                moment += k * weight
            value = top + math.log(total)
            if value < targets[i]:
                low = point
            else:
                high = point
            slope = moment / total / variance
            following = point + (targets[i] - value) / slope if slope > _FLAT else high
            if not low < following < high:
                following = (low + high) / 2
            close = abs(following - point) <= _PRECISION * sigma
            point = following
            if close:
                break
        points[i] = point


def event_curve(event: Event, name: str = "compose_with") -> PldCurve:
    """Return the curve of another event: one of dp_accounting's events or privacy loss distributions.

    Args:
        event: The event.
        name: What a refusal calls it.
    """
    if isinstance(event, pld.PrivacyLossDistribution):
        if not (event._pmf_remove._pessimistic_estimate and event._pmf_add._pessimistic_estimate):
            raise ValueError(f"{name} is an optimistic privacy loss distribution, but it must be pessimistic.")
        return PldCurve(event)
    if not isinstance(event, DpEvent):
        raise ValueError(f"{name} is {event!r}, but it must be a DpEvent or a PrivacyLossDistribution.")
    accountant = PLDAccountant(_RELATION)
    if not accountant.supports(event) or accountant.compose(event)._contains_non_dp_event:
        raise ValueError(f"{name} is {event}, but it must be an event with a privacy loss distribution.")
    return PldCurve(accountant._pld)


def gaussian_losses(shift: float, width: float = _WIDTH) -> pld.PrivacyLossDistribution:
    """Return the privacy losses of a Gaussian mechanism with this ratio of sensitivity to noise."""
    return pld.from_gaussian_mechanism(1 / shift, value_discretization_interval=width, neighboring_relation=_RELATION)


def composed_curve(curve: ExactCurve, event: PldCurve) -> PldCurve:
    """Return the curve of a mechanism and another event together."""
    match curve:
        case PldCurve() as one:
            pass
        case GaussianCurve():
            one = PldCurve(gaussian_losses(curve.shift), compositions=1)
        case LargestCurve(curves=(PldCurve() as one,)):
            pass
        case LargestCurve():
            raise ValueError(
                "A truncated cyclic mechanism composes with other events only when cycle divides num_examples, so "
                "that all parts have one size."
            )
        case _:
            raise ValueError("This mechanism has no privacy loss distribution: compose its parts yourself.")
    return replace(one, losses=one.losses.compose(event.losses), no_participation=0.0, upper_bound=curve.upper_bound)


def _spacing(sigma: float, shift: float, spacing: float, most: int = _MOST_LOSSES_OF_ONE) -> float:
    """Return a spacing of losses, wider if there would be too many in one step, which is never optimistic."""
    largest = shift * (shift / 2 + _FURTHEST * sigma) / sigma**2
    return max(spacing, 2 * largest / most)


def _composed(one: pld.PrivacyLossDistribution, count: int) -> pld.PrivacyLossDistribution:
    """Return the composition of a loss with itself, refused if it would take too much memory."""
    return pld.PrivacyLossDistribution(self_composed(one._pmf_remove, count), self_composed(one._pmf_add, count))


def self_composed(pmf: Any, count: int) -> Any:
    """Return the sum of `count` independent losses, as dp_accounting computes it, in less time.

    What lies outside of the bounds by Chernoff's inequality has a probability of at most the tail, which is counted as
    an infinite loss.
    """
    dense = pmf.to_dense_pmf()
    probabilities = np.asarray(dense._probs, dtype=np.float64)
    low, high = _bounds_of_sum(probabilities, count)
    size = high - low + 1
    if size > MOST_LOSSES:
        raise ValueError(
            f"Exact accounting of {count:,} compositions takes {size * _BYTES_A_LOSS / 2**30:,.0f} GiB, but the "
            f"limit is {MOST_LOSSES * _BYTES_A_LOSS / 2**30:.0f} GiB: use a larger noise multiplier or fewer "
            "iterations."
        )
    length = fft.next_fast_len(max(size, probabilities.size))
    # Complex transforms, whose rounding docs/accounting.md measures.
    wrapped = fft.ifft(fft.fft(probabilities, length) ** count).real
    infinite = TAIL - math.expm1(count * math.log1p(-dense._infinity_mass))
    first = dense._lower_loss * count + low
    return pld_pmf.DensePLDPmf(dense._discretization, first, np.roll(wrapped, -low)[:size], infinite, True)


def _bounds_of_sum(probabilities: FloatArray, count: int) -> tuple[int, int]:
    """Return between which places a sum of `count` draws lies, up to the tail; at worst all of them."""
    low, high = 0, (probabilities.size - 1) * count
    masses = np.maximum(probabilities, 0.0)  # values slightly below 0 are rounding
    for order in np.concatenate([np.arange(-_ORDERS, 0), np.arange(1, _ORDERS + 1)]) / probabilities.size:
        # At these orders no exponential overflows.
        bound = (count * math.log(_discounted_tails(masses, math.exp(order))[0]) + math.log(2 / TAIL)) / order
        if order > 0:
            high = min(high, math.ceil(bound))
        else:
            low = max(low, math.floor(bound))
    return low, high
