"""Truncated power series: lower-triangular Toeplitz matrices are polynomials, and their product a convolution."""

import numpy as np
from scipy import fft

from minsep.core.arrays import FloatArray


def multiply(left: FloatArray, right: FloatArray, length: int) -> FloatArray:
    """Return the first `length` coefficients of a product, in O(length log length).

    >>> multiply(np.array([1.0, 1.0]), np.array([1.0, 2.0, 3.0]), 3).round(12)
    array([1., 3., 5.])
    """
    left, right = left[:length], right[:length]
    size = fft.next_fast_len(left.size + right.size - 1, real=True)
    product = fft.irfft(fft.rfft(left, size) * fft.rfft(right, size), size)
    padded = np.zeros(length)
    count = min(length, left.size + right.size - 1)
    padded[:count] = product[:count]
    return padded


def correlate(left: FloatArray, right: FloatArray, lags: int) -> FloatArray:
    """Return sum_i left[i] right[i - lag] for lag = 0, ..., lags - 1, for arrays of equal length.

    >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]), 2).round(12)
    array([6., 5.])
    """
    within = min(lags, left.size)
    size = fft.next_fast_len(left.size + within, real=True)
    product = fft.rfft(left, size) * np.conj(fft.rfft(right, size))
    return np.pad(fft.irfft(product, size)[:within], (0, lags - within))


def inverse(coefficients: FloatArray, length: int) -> FloatArray:
    """Return the first `length` coefficients of 1 / series by Newton's iteration, which doubles their number each time.

    >>> inverse(np.array([1.0, -1.0]), 4).round(12)
    array([1., 1., 1., 1.])
    """
    result = np.array([1.0 / coefficients[0]])
    while result.size < length:
        known = min(2 * result.size, length)
        residual = -multiply(coefficients, result, known)
        residual[0] += 2.0
        result = multiply(result, residual, known)
    return result


def inverse_by_substitution(coefficients: FloatArray, length: int) -> FloatArray:
    """Return the first `length` coefficients of 1 / series, each with a small relative error.

    They have the same bits on every processor. The time is proportional to the length times the number of coefficients.
    Errors of `inverse` are relative to the largest coefficient.

    >>> inverse_by_substitution(np.array([1.0, 2.0]), 4)
    array([ 1., -2.,  4., -8.])
    """
    from minsep.strategy import kernels

    result: FloatArray = kernels.substitute(coefficients, length)
    return result


def square_root_of_prefix_sums(length: int) -> FloatArray:
    """Return the coefficients of (1 - x)^(-1/2): the Toeplitz matrix whose square sums prefixes.

    >>> square_root_of_prefix_sums(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def inverse_of_that_square_root(length: int) -> FloatArray:
    """Return the coefficients of (1 - x)^(1/2): the inverse of the square root of prefix sums.

    >>> inverse_of_that_square_root(4)
    array([ 1.    , -0.5   , -0.125 , -0.0625])
    """
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((2 * k - 3) / (2 * k))])


def power_of_differences(exponent: float, length: int) -> FloatArray:
    """Return the coefficients of (1 - x)^exponent.

    >>> power_of_differences(1.0, 4) + 0.0
    array([ 1., -1.,  0.,  0.])
    """
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((k - 1 - exponent) / k)])
