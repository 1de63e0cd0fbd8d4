"""Toeplitz strategies of least mean squared error of prefix sums or another workload, without amplification.

A is a lower-triangular Toeplitz matrix. With b = A C^-1 (its first column) the mean squared error times the squared
column norm is, up to 1/n,

    |c|^2 f(c),    f(c) = sum_i (n - i) b_i^2,    i = 0, ..., n - 1.

Shifting by j iterations commutes with C, so with u = C^-1 b and v = C^-1 u the derivatives are correlations,

    d f / d c_j        = -2 sum_i (n - i) b_i u_(i-j)
    d^2 f / d c_j d c_k = 2 sum_i (n - i) u_(i-j) u_(i-k) + 4 sum_i (n - i) b_i v_(i-j-k),

and all of them cost a few Fourier transforms. The second derivatives make Newton's method possible: it needs about ten
evaluations where a quasi-Newton method needs hundreds.
"""

import numpy as np

from minsep.arrays import FloatArray
from minsep.strategy import series
from minsep.strategy.newton import minimise

_GRADIENT_TOLERANCE = 1e-9


def banded_toeplitz(iterations: int, bands: int, workload: FloatArray | None = None) -> FloatArray:
    """Return the coefficients, the first one 1, that minimise the mean squared error times the squared norm.

    `workload` is the first column of A; None is prefix sums.
    """
    start = series.square_root_of_prefix_sums(bands)
    if bands == 1:
        return start
    objective = _BandedObjective(iterations, bands, workload)
    tail = minimise(objective.value_and_gradient, objective.hessian, start[1:], _GRADIENT_TOLERANCE)
    return np.concatenate([[1.0], tail])


class _BandedObjective:
    """Logarithm of |c|^2 f(c) as a function of c_1, ..., with c_0 = 1: the objective does not depend on the scale."""

    def __init__(self, iterations: int, bands: int, workload: FloatArray | None) -> None:
        self._n = iterations
        self._workload = workload
        self._bands = bands
        self._weights = np.arange(iterations, 0, -1, dtype=np.float64)

    def value_and_gradient(self, tail: FloatArray) -> tuple[float, FloatArray]:
        # A trial step may leave the set of coefficients whose inverse decays; infinity makes the search shorten it.
        with np.errstate(over="ignore", invalid="ignore"):
            c, b, u, _ = self._evaluate(tail)
            norm, f, slope = self._parts(c, b, u)
        if not np.isfinite(f):
            return np.inf, np.zeros(tail.size)
        return float(np.log(norm * f)), (2 * c / norm + slope / f)[1:]

    def hessian(self, tail: FloatArray) -> FloatArray:
        c, b, u, inverse = self._evaluate(tail)
        norm, f, slope = self._parts(c, b, u)
        v = series.multiply(inverse, u, self._n)
        hankel = series.correlate(self._weights * b, v, 2 * self._bands - 1)
        lags = np.arange(self._bands)
        curvature = 2 * self._shifted_gram(u) + 4 * hankel[lags[:, None] + lags]
        full = (
            2 * np.eye(self._bands) / norm
            - 4 * np.outer(c, c) / norm**2
            + curvature / f
            - np.outer(slope, slope) / f**2
        )
        return np.asarray(full[1:, 1:])

    def _evaluate(self, tail: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        c = np.concatenate([[1.0], tail])
        inverse = series.inverse(c, self._n)
        b = np.cumsum(inverse) if self._workload is None else series.multiply(inverse, self._workload, self._n)
        return c, b, series.multiply(inverse, b, self._n), inverse

    def _parts(self, c: FloatArray, b: FloatArray, u: FloatArray) -> tuple[float, float, FloatArray]:
        weighted = self._weights * b
        return float(c @ c), float(weighted @ b), -2 * series.correlate(weighted, u, self._bands)

    def _shifted_gram(self, u: FloatArray) -> FloatArray:
        """Return sum_i (n - i) u_(i-j) u_(i-k) for all j, k < bands.

        One step down a diagonal subtracts the same sum without weights, whose own step subtracts one product.
        """
        bands = self._bands
        last = u[::-1][:bands]
        last = np.pad(last, (0, bands - last.size))
        plain = series.correlate(u, u, bands)
        weighted = series.correlate(self._weights * u, u, bands)
        gram = np.empty((bands, bands))
        for j in range(bands):
            gram[j, j:] = gram[j:, j] = weighted
            weighted = weighted[:-1] - plain[:-1]
            plain = plain[:-1] - last[j] * last[j : bands - 1]
        return gram


def banded_inverse(iterations: int, bands: int, min_sep: int, participations: int) -> FloatArray:
    """Return the first column of C^-1, the first entry 1 and the others at most 0, of least error times sensitivity.

    Entries of at most 0 that sum to at least -1 make C non-negative and bounded: 1 / (1 - g) is 1 + g + g^2 + ... The
    search is over their logarithms relative to what remains of 1. The sensitivity is that of non-increasing
    coefficients, with participations at 0, b, 2b, ...
    """
    # Loaded here, because it takes longer than all other imports and no other strategy needs it.
    from scipy import optimize
    from scipy.special import softmax

    start = series.inverse(series.square_root_of_prefix_sums(bands), bands)
    if bands == 1:
        return start
    weights = np.arange(iterations, 0, -1, dtype=np.float64)

    def value_and_gradient(logits: FloatArray) -> tuple[float, FloatArray]:
        g = softmax(np.append(logits, 0.0))[:-1]
        h = np.zeros(iterations)
        h[:bands] = np.concatenate([[1.0], -g])
        b = np.cumsum(h)
        error = float(weights @ b**2)
        error_slope = 2 * np.cumsum((weights * b)[::-1])[::-1][:bands]
        c = series.inverse(h[:bands], iterations)
        column = _participating(c, min_sep, participations)
        back = _participating(column[::-1], min_sep, participations)[::-1]
        norm = float(column @ column)
        norm_slope = -2 * series.correlate(back, series.multiply(c, c, iterations), bands)
        slope = -(error_slope / error + norm_slope / norm)[1:]
        return float(np.log(error * norm)), g * (slope - g @ slope)

    found = optimize.minimize(
        value_and_gradient,
        np.log(-start[1:] / start.sum()),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 30, "maxiter": 2000, "ftol": 1e-14, "gtol": _GRADIENT_TOLERANCE},
    )
    return np.concatenate([[1.0], -softmax(np.append(found.x, 0.0))[:-1]])


def _participating(column: FloatArray, min_sep: int, participations: int) -> FloatArray:
    total = column.copy()
    for start in range(min_sep, participations * min_sep, min_sep):
        total[start:] += column[: column.size - start]
    return total
