"""Buffered Toeplitz strategies of least mean squared error times squared sensitivity, without amplification.

With c_0 = 1 and c_k = sum_i w_i t_i^(k-1) for k > 0, the coefficients are smooth in 2 d numbers: the logarithm of each
scale w_i, and the logit of each decay t_i. The objective is that of `optimum` with participations, log(|P c|^2 f(c)),
and its second derivatives follow from those in c by the chain rule: 2 d shifts of the coefficients take the place of
the shifts S_j.
"""

import math

import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import FloatArray
from minsep.strategy import series
from minsep.strategy.newton import minimise
from minsep.strategy.optimum import participating

_GRADIENT_TOLERANCE = 1e-9
_FIRST_LOGIT, _BEYOND_THE_RUN = -1.0, 1.0


def buffered(
    iterations: int, buffers: int, min_sep: int, participations: int, workload: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the decays and the scales that minimise the mean squared error times the squared sensitivity.

    Args:
        iterations: The number of rows.
        buffers: The number of decays.
        min_sep: The number of iterations from one participation to the next, for the sensitivity.
        participations: The number of participations.
        workload: The first column of A. None is prefix sums.
    """
    objective = _Objective(iterations, min_sep, participations, workload)
    found = minimise(objective.value_and_gradient, objective.hessian, _start(iterations, buffers), _GRADIENT_TOLERANCE)
    scales, decays = np.exp(found[:buffers]), _decays(found[buffers:])
    order = np.argsort(-decays)
    return decays[order], scales[order]


def _start(iterations: int, buffers: int) -> FloatArray:
    """Return logarithms of scales and logits of decays: nodes of an integral that is the square root of prefix sums.

    The coefficients of (1 - x)^(-1/2) are (1/pi) times the integral of s^(k-1/2) (1-s)^(-1/2) over s from 0 to 1, which
    in the logit of s is one of s^(k+1/2) (1-s)^(1/2).
    """
    last = math.log(iterations) + _BEYOND_THE_RUN
    width = (last - _FIRST_LOGIT) / buffers
    logits = _FIRST_LOGIT + width * (np.arange(buffers) + 0.5)
    decays = _decays(logits)
    scales = width / math.pi * decays**1.5 * np.sqrt(1 - decays)
    return np.concatenate([np.log(scales), logits])


def _decays(logits: NDArray[np.floating]) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-logits)))


class _Objective:
    """Logarithm of error times squared sensitivity, by the logarithms of scales and the logits of decays."""

    def __init__(self, iterations: int, min_sep: int, participations: int, workload: FloatArray | None) -> None:
        self._n, self._min_sep, self._participations = iterations, min_sep, participations
        self._workload = np.ones(iterations) if workload is None else workload
        self._weights = np.arange(iterations, 0, -1, dtype=np.float64)

    def value_and_gradient(self, point: FloatArray) -> tuple[float, FloatArray]:
        # A trial step may leave the numbers that there are; infinity makes the search shorten it.
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope = self._slope(self._coefficients(point))
            gradient = self._jacobian(point) @ slope
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return math.inf, np.zeros(point.size)
        return value, gradient

    def hessian(self, point: FloatArray) -> FloatArray:
        c = self._coefficients(point)
        jacobian = self._jacobian(point)
        error, norm, b, u, inverse, back = self._parts(c)
        v = series.multiply(inverse, u, self._n)
        weighted = self._weights * b
        moved = np.array([series.multiply(u, row, self._n) for row in jacobian])
        further = np.array([series.correlate(weighted, series.multiply(v, row, self._n), self._n) for row in jacobian])
        taking_part = np.array([self._participating(row) for row in jacobian])
        of_error = 2 * (moved * self._weights) @ moved.T + 4 * further @ jacobian.T
        of_norm = 2 * taking_part @ taking_part.T
        error_slope, norm_slope = jacobian @ self._error_slope(b, u), jacobian @ (2 * back)
        full = of_error / error - np.outer(error_slope, error_slope) / error**2
        full += of_norm / norm - np.outer(norm_slope, norm_slope) / norm**2
        full = (full + full.T) / 2
        _, slope = self._slope(c)
        return np.asarray(full + self._curvature(point, slope))

    def _slope(self, c: FloatArray) -> tuple[float, FloatArray]:
        """Return the value, and its slope in every coefficient."""
        error, norm, b, u, _, back = self._parts(c)
        return float(np.log(error * norm)), self._error_slope(b, u) / error + 2 * back / norm

    def _error_slope(self, b: FloatArray, u: FloatArray) -> FloatArray:
        return -2 * series.correlate(self._weights * b, u, self._n)

    def _parts(self, c: FloatArray) -> tuple[float, float, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return f, |P c|^2, b = C^-1 a, u = C^-1 b, 1/c as a series, and P^T P c."""
        inverse = series.inverse(c, self._n)
        b = series.multiply(inverse, self._workload, self._n)
        u = series.multiply(inverse, b, self._n)
        column = self._participating(c)
        back = self._participating(column[::-1])[::-1]
        return float(self._weights @ b**2), float(column @ column), b, u, inverse, back

    def _participating(self, column: FloatArray) -> FloatArray:
        return participating(column, self._min_sep, self._participations)

    def _coefficients(self, point: FloatArray) -> FloatArray:
        scales, decays = self._numbers(point)
        c = np.ones(self._n)
        c[1:] = scales @ self._powers(decays)
        return c

    def _jacobian(self, point: FloatArray) -> FloatArray:
        """Return the derivatives of the coefficients: a row for each scale, and one for each decay."""
        scales, decays = self._numbers(point)
        lags = np.arange(self._n - 1)
        by_scale = scales[:, None] * self._powers(decays)
        by_decay = by_scale * lags * (1 - decays)[:, None]
        return np.pad(np.concatenate([by_scale, by_decay]), ((0, 0), (1, 0)))

    def _curvature(self, point: FloatArray, slope: FloatArray) -> FloatArray:
        """Return the second derivatives of the coefficients, times the slope in them: buffers do not mix."""
        scales, decays = self._numbers(point)
        lags, left = np.arange(self._n - 1), (1 - decays)[:, None]
        by_scale = scales[:, None] * self._powers(decays)
        by_both = by_scale * lags * left
        by_decay = by_both * (lags * left - decays[:, None])
        of_scales, of_both, of_decays = (rows @ slope[1:] for rows in (by_scale, by_both, by_decay))
        return np.block([[np.diag(of_scales), np.diag(of_both)], [np.diag(of_both), np.diag(of_decays)]])

    def _numbers(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        buffers = point.size // 2
        return np.exp(point[:buffers]), _decays(point[buffers:])

    def _powers(self, decays: FloatArray) -> FloatArray:
        return np.asarray(decays[:, None] ** np.arange(self._n - 1))
