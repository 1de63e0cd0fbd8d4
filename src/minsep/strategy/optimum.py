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

from minsep.core.arrays import FloatArray
from minsep.strategy import series
from minsep.strategy.newton import minimise

_GRADIENT_TOLERANCE = 1e-9
_SHORTER, _SHORTEST, _BANDS_OF_A_SHORTER_RUN = 16, 4096, 16


def banded_toeplitz(iterations: int, bands: int, workload: FloatArray | None = None) -> FloatArray:
    """Return the coefficients, the first one 1, that minimise the mean squared error times the squared norm.

    Args:
        iterations: The number of rows.
        bands: The number of coefficients.
        workload: The first column of A. None is prefix sums.
    """
    start = series.square_root_of_prefix_sums(bands)
    if bands == 1:
        return start
    if workload is None and iterations // _SHORTER >= max(_SHORTEST, _BANDS_OF_A_SHORTER_RUN * bands):
        # The optimum of a shorter run is so close that one or two steps are left.
        start = banded_toeplitz(iterations // _SHORTER, bands)
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
        curvature = 2 * shifted_gram(u, self._bands, self._weights) + 4 * hankel[lags[:, None] + lags]
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


def banded_inverse(iterations: int, bands: int, min_sep: int, participations: int) -> FloatArray:
    """Return the first column of C^-1, the first entry 1 and the others at most 0, of least error times sensitivity.

    Entries of at most 0 that sum to at least -1 make C non-negative and bounded: 1 / (1 - g) is 1 + g + g^2 + ... The
    search is over their logarithms relative to what remains of 1. The sensitivity is that of non-increasing
    coefficients, with participations at 0, b, 2b, ...
    """
    start = series.inverse_of_that_square_root(bands)
    if bands == 1:
        return start
    objective = _InverseObjective(iterations, bands, min_sep, participations)
    logits = np.log(-start[1:] / start.sum())
    logits = minimise(objective.value_and_gradient, objective.hessian, logits, _GRADIENT_TOLERANCE)
    return np.concatenate([[1.0], -_shares(logits)])


class _InverseObjective:
    """Logarithm of error times squared sensitivity for h = 1 - g, the first column of C^-1, by the logits of g.

    The error is quadratic in h. With c = 1/h and P the sum over participations, which commutes with shifts, the squared
    sensitivity is |P c|^2, and its derivatives are correlations of P c with P c^2 and c^3, as above.
    """

    def __init__(self, iterations: int, bands: int, min_sep: int, participations: int) -> None:
        self._n, self._bands = iterations, bands
        self._min_sep, self._participations = min_sep, participations
        self._weights = np.arange(iterations, 0, -1, dtype=np.float64)
        # Entry j is the sum of the weights from j on.
        self._tails = np.cumsum(self._weights[::-1])[::-1][:bands]

    def value_and_gradient(self, logits: FloatArray) -> tuple[float, FloatArray]:
        g = _shares(logits)
        error, error_slope = self._error(g)
        norm, norm_slope, _, _ = self._norm(g)
        slope = -(error_slope / error + norm_slope / norm)[1:]
        return float(np.log(error * norm)), g * (slope - g @ slope)

    def hessian(self, logits: FloatArray) -> FloatArray:
        g = _shares(logits)
        error, error_slope = self._error(g)
        norm, norm_slope, squared, back = self._norm(g)
        lags = np.arange(self._bands)
        error_curvature = 2 * self._tails[np.maximum(lags[:, None], lags)]
        cubed = series.multiply(squared, self._inverse(g), self._n)
        hankel = series.correlate(back, cubed, 2 * self._bands - 1)
        shifted = shifted_gram(self._participating(squared), self._bands)
        norm_curvature = 2 * shifted + 4 * hankel[lags[:, None] + lags]
        full = error_curvature / error - np.outer(error_slope, error_slope) / error**2
        full += norm_curvature / norm - np.outer(norm_slope, norm_slope) / norm**2
        slope = -(error_slope / error + norm_slope / norm)[1:]
        # The chain rule for g = softmax: its Jacobian is diag(g) - g g^T.
        jacobian = np.diag(g) - np.outer(g, g)
        excess = g * (slope - g @ slope)
        mixed = np.outer(excess, g)
        return np.asarray(jacobian @ full[1:, 1:] @ jacobian + np.diag(excess) - mixed - mixed.T)

    def _error(self, g: FloatArray) -> tuple[float, FloatArray]:
        """Return the error and its slope in h."""
        h = np.zeros(self._n)
        h[: self._bands] = np.concatenate([[1.0], -g])
        sums = np.cumsum(h)
        weighted = self._weights * sums
        return float(weighted @ sums), 2 * np.cumsum(weighted[::-1])[::-1][: self._bands]

    def _norm(self, g: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return |P c|^2, its slope in h, c^2 as a series, and P^T P c."""
        c = self._inverse(g)
        squared = series.multiply(c, c, self._n)
        column = self._participating(c)
        back = self._participating(column[::-1])[::-1]
        return float(column @ column), -2 * series.correlate(back, squared, self._bands), squared, back

    def _inverse(self, g: FloatArray) -> FloatArray:
        return series.inverse(np.concatenate([[1.0], -g]), self._n)

    def _participating(self, column: FloatArray) -> FloatArray:
        return participating(column, self._min_sep, self._participations)


def participating(column: FloatArray, min_sep: int, participations: int) -> FloatArray:
    """Return the sum of the columns of participations at 0, b, 2b, ..."""
    total = column.copy()
    for start in range(min_sep, participations * min_sep, min_sep):
        total[start:] += column[: column.size - start]
    return total


def _shares(logits: FloatArray) -> FloatArray:
    """Return numbers above 0 whose sum is below 1, by their logarithms relative to what remains of 1."""
    largest = max(float(logits.max()), 0.0)
    parts = np.exp(logits - largest)
    return np.asarray(parts / (parts.sum() + np.exp(-largest)))


def shifted_gram(u: FloatArray, bands: int, weights: FloatArray | None = None) -> FloatArray:
    """Return sum_i w_i u_(i-j) u_(i-k) for all j, k < bands; the weights are 1, or n, n - 1, ..., 1.

    One step down a diagonal subtracts a product from the plain sums, and the plain sums from the weighted ones.
    """
    last = u[::-1][:bands]
    last = np.pad(last, (0, bands - last.size))
    plain = series.correlate(u, u, bands)
    weighted = None if weights is None else series.correlate(weights * u, u, bands)
    gram = np.empty((bands, bands))
    for j in range(bands):
        gram[j, j:] = gram[j:, j] = plain if weighted is None else weighted
        weighted = None if weighted is None else weighted[:-1] - plain[:-1]
        plain = plain[:-1] - last[j] * last[j : bands - 1]
    return gram
