"""Sums of privacy losses of different mechanisms on one grid, to which each loss is rounded up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import signal

from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.exact.curves import GaussianCurve
from minsep.accounting.exact.pld import MOST_LOSSES, TAIL, PldCurve, gaussian_losses, self_composed
from minsep.core.arrays import FloatArray

_CLOSE = 1e-13  # what the rounding of a loss may amount to, relative to 1 and to itself


@dataclass(frozen=True)
class Masses:
    """A privacy loss in one direction.

    Attributes:
        losses: The finite losses.
        probabilities: The probabilities of the finite losses.
        infinite: The probability of an infinite loss.
    """

    losses: FloatArray
    probabilities: FloatArray
    infinite: float

    def on_grid(self, width: float) -> pld_pmf.DensePLDPmf:
        """Return the losses rounded up to multiples of a width."""
        raised = (self.losses + _CLOSE * (1 + np.abs(self.losses))) / width
        places = np.ceil(raised).astype(np.int64)
        first = int(places.min(initial=0))
        summed = np.bincount(places - first, weights=self.probabilities, minlength=1)
        return pld_pmf.DensePLDPmf(width, first, summed, self.infinite, True)


def losses_on_grid(remove: Masses, add: Masses, width: float) -> PldCurve:
    """Return the curve of privacy losses, rounded up to multiples of a width."""
    return PldCurve(pld.PrivacyLossDistribution(remove.on_grid(width), add.on_grid(width)))


def connected_losses(first: int, remove: FloatArray, add: FloatArray, width: float) -> PldCurve:
    """Return the curve through deltas at multiples of a width, the first of them that many widths from 0.

    Dots are connected (Doroshenko et al., 2022): never optimistic.
    """
    last = first + remove.size - 1
    pmfs = (
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(width, first, last, np.minimum.accumulate(deltas))
        for deltas in (remove, add)
    )
    return PldCurve(pld.PrivacyLossDistribution(*pmfs))


def gaussian_on_grid(curve: GaussianCurve, width: float) -> PldCurve:
    """Return the curve of a Gaussian mechanism from privacy losses on a grid."""
    return PldCurve(gaussian_losses(curve.shift, width), compositions=1)


def on_coarser_grid(curve: PldCurve, width: float) -> PldCurve:
    """Return a curve whose losses are rounded up to multiples of a width, which is at least its own."""
    if curve.width == width:
        return curve
    pmfs = []
    for pmf in (curve.losses._pmf_remove, curve.losses._pmf_add):
        dense = pmf.to_dense_pmf()
        probabilities = np.maximum(np.asarray(dense._probs, dtype=np.float64), 0.0)
        losses = (dense._lower_loss + np.arange(probabilities.size)) * dense._discretization
        pmfs.append(Masses(losses, probabilities, dense._infinity_mass).on_grid(width))
    return PldCurve(pld.PrivacyLossDistribution(*pmfs), compositions=curve.compositions, margin=curve.margin)


def sum_of_losses(parts: Sequence[tuple[PldCurve, int]], *, upper_bound: bool) -> PldCurve:
    """Return the curve of mechanisms one after the other.

    Args:
        parts: Curves of one width, and how many times there is each.
        upper_bound: Whether the curve is an upper bound on that of the mechanisms.
    """
    pmfs = {}
    for direction in DIRECTIONS:
        pmfs[direction] = reduce(_sum, (_repeated(_pmf(curve, direction), count) for curve, count in parts))
    compositions = len(parts) + sum(count * (curve.compositions + 1) for curve, count in parts)
    margin = math.fsum(count * curve.margin for curve, count in parts)
    losses = pld.PrivacyLossDistribution(pmfs["remove"], pmfs["add"])
    return PldCurve(losses, upper_bound=upper_bound, compositions=compositions, margin=margin)


def _pmf(curve: PldCurve, direction: Direction) -> pld_pmf.DensePLDPmf:
    pmf = curve.losses._pmf_remove if direction == "remove" else curve.losses._pmf_add
    return pmf.to_dense_pmf()


def _repeated(pmf: pld_pmf.DensePLDPmf, count: int) -> pld_pmf.DensePLDPmf:
    # With nothing but infinite losses there is nothing to sum, and delta is 1 at every epsilon.
    finite = pmf._infinity_mass < 1 and bool((np.asarray(pmf._probs) > 0).any())
    if not finite:
        return pld_pmf.DensePLDPmf(pmf._discretization, 0, np.zeros(1), 1.0, True)
    return pmf if count == 1 else self_composed(pmf, count)


def _sum(one: pld_pmf.DensePLDPmf, other: pld_pmf.DensePLDPmf) -> pld_pmf.DensePLDPmf:
    """Return the sum of two losses without its tails: the upper one is counted as infinite, the lower one raised."""
    size = one._probs.size + other._probs.size
    if size > MOST_LOSSES:
        raise ValueError(f"The privacy losses of all mechanisms together have {size:,} values, which is too many.")
    probabilities = np.maximum(signal.fftconvolve(one._probs, other._probs), 0.0)
    first = one._lower_loss + other._lower_loss
    infinite = 1 - (1 - one._infinity_mass) * (1 - other._infinity_mass)
    # What lies outside has a probability of at most the tail.
    below = int(np.searchsorted(np.cumsum(probabilities), TAIL))
    above = int(np.searchsorted(np.cumsum(probabilities[::-1]), TAIL))
    above = min(above, probabilities.size - 1)
    below = min(below, probabilities.size - 1 - above)  # at least one loss is kept
    kept = probabilities[below : probabilities.size - above].copy()
    kept[0] += probabilities[:below].sum()
    infinite += probabilities[probabilities.size - above :].sum() if above else 0.0
    return pld_pmf.DensePLDPmf(one._discretization, first + below, kept, infinite, True)
