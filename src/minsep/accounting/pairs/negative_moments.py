"""A bound on `add` for random allocation that needs no samples: E_Q R^-a, by Laplace transforms.

R is a product over epochs, and in each a mean S of independent lognormal numbers x with mean 1. So

    E S^-a = 1/Gamma(a) * integral of u^(a-1) L(u) du,        L(u) = E exp(-u S) = (E exp(-u x / t))^t,

two integrals in one dimension. exp(-u x) is convex in x, and L in u, so that chords between grid points bound both from
above: the result is a bound whatever the grid, and the grid decides only how close it is. docs/certified-sampling.md,
section 9, has the proof.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize
from scipy.special import gammaln, logsumexp, ndtr

from minsep.core.arrays import FloatArray
from minsep.core.numerics import x_log_x

_DEVIATIONS, _CELLS = 12.0, 1500  # of the normal numbers behind x
_FARTHEST, _FAR_CELLS = 37.0, 200  # below 0, where x is tiny: large u with a short epoch
_LOG_LOWEST, _LOG_HIGHEST, _STEP = -18.0, 40.0, 0.02  # of log u
_LEAST_ORDER, _MOST_ORDER = 0.05, 300.0
_DECAYS = np.geomspace(0.01, 64.0, 60)
_ROUNDING = 1e-11  # of the logarithm of a moment


@dataclass(frozen=True)
class NegativeMoments:
    """Bounds on E_Q R^-a for a run.

    Args:
        ratio: The ratio of the norm of a column to the noise.
        epoch: The number of places in an epoch, one of which is taken.
        iterations: The number of iterations of the run.
    """

    ratio: float
    epoch: int
    iterations: int

    def bound(self, epsilon: float, order: float) -> float:
        """Return a bound on delta of `add`: E_Q R^-a times the largest R^a (1 - e^eps R), a the order."""
        if not _LEAST_ORDER <= order <= _MOST_ORDER:
            raise ValueError(f"order is {order}, but it must be from {_LEAST_ORDER:g} to {_MOST_ORDER:g}.")
        epochs, within = divmod(self.iterations, self.epoch)
        log_moment = epochs * _log_moment(self.ratio, self.epoch, self.epoch, order) if epochs else 0.0
        log_moment += _log_moment(self.ratio, self.epoch, within, order) if within else 0.0
        log_bound = log_moment - order * epsilon + x_log_x(order) - x_log_x(1 + order)
        return math.exp(min(log_bound, 0.0))

    def best(self, epsilon: float) -> tuple[float, float]:
        """Return the least bound on delta of `add`, and its order."""

        def log_bound(log_order: float) -> float:
            return math.log(max(self.bound(epsilon, min(math.exp(log_order), _MOST_ORDER)), 1e-300))

        limits = math.log(_LEAST_ORDER), math.log(_MOST_ORDER)
        found = optimize.minimize_scalar(log_bound, bounds=limits, method="bounded", options={"xatol": 1e-3})
        order = min(max(round(math.exp(found.x), 4), _LEAST_ORDER), _MOST_ORDER)
        return self.bound(epsilon, order), order


def _log_moment(ratio: float, epoch: int, within: int, order: float) -> float:
    """Return the logarithm of a bound on E S^-a, for an epoch of which `within` iterations are in the run."""
    log_u, log_laplace = _log_laplace(ratio, epoch, within)
    # The integral of u^(a-1) times a chord between u and q u, q = e^step, is u^a times two constants.
    grown = math.expm1(order * _STEP) / order
    grown_more = math.expm1((order + 1) * _STEP) / (order + 1)
    width = math.expm1(_STEP)
    left = (math.exp(_STEP) * grown - grown_more) / width
    right = (grown_more - grown) / width
    powers = order * log_u[:-1]
    terms = [
        np.array([order * log_u[0] - math.log(order)]),  # L is at most 1
        log_laplace[:-1] + powers + math.log(left),
        log_laplace[1:] + powers + math.log(right),
        np.array([_log_tail(ratio, epoch, within, order, float(log_u[-1]))]),
    ]
    log_integral = float(logsumexp(np.concatenate(terms))) - float(gammaln(order))
    # By convexity E S^-a <= E x^-a as well, which is better where the grid ends too early.
    return min(log_integral, order * (order + 1) * ratio**2 / 2) + _ROUNDING


@lru_cache(maxsize=16)
def _log_laplace(ratio: float, epoch: int, within: int) -> tuple[FloatArray, FloatArray]:
    """Return logarithms of u, and of a bound on L(u); x = exp(ratio z - ratio^2/2) with z normal."""
    far = np.linspace(-_FARTHEST, -_DEVIATIONS, _FAR_CELLS, endpoint=False)
    z = np.concatenate([far, np.linspace(-_DEVIATIONS, _DEVIATIONS + ratio, _CELLS + 1)])
    x = np.exp(ratio * z - ratio**2 / 2)
    mass, mean = _between(z), _between(z - ratio)  # of x in each cell: its probability, and E x there
    weights = np.zeros(z.size)
    weights[:-1] += np.maximum(x[1:] * mass - mean, 0.0) / np.diff(x)
    weights[1:] += np.maximum(mean - x[:-1] * mass, 0.0) / np.diff(x)
    weights[-1] += ndtr(-z[-1])
    log_u = np.arange(_LOG_LOWEST, _LOG_HIGHEST, _STEP)
    u = np.exp(log_u)
    transform = np.array([weights @ np.exp(-(each / epoch) * x) for each in u]) + ndtr(z[0])
    # Many times what rounding can take away: of the sums, and of the differences above over the width of a cell.
    lost = 1e-12 + 1e-14 / (ratio * float(np.diff(z).min()))
    return log_u, within * (np.log(transform) + lost) - u * ((epoch - within) / epoch)


def _between(z: FloatArray) -> FloatArray:
    """Return the normal probabilities between neighbours, from the nearer tail."""
    above = z[:-1] > 0
    return np.where(above, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1]))


def _log_tail(ratio: float, epoch: int, within: int, order: float, log_end: float) -> float:
    """Return a bound on the integral beyond the grid: exp(-v x) <= (c/(e v x))^c, E x^-c = e^(c (c+1) ratio^2/2)."""
    c = order / within + _DECAYS
    log_factor = c * (np.log(c * epoch) - 1) + c * (c + 1) * ratio**2 / 2
    beyond = c * within - order
    return float(np.min(within * log_factor - beyond * log_end - np.log(beyond)))
