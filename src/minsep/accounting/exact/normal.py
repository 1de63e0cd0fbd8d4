"""The integral for normal losses, rounded up."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from minsep.core.arrays import FloatArray

# Errors of the functions below in units in the last place, with a margin.
_ROUNDING = 8 * 2.0**-53
_SMALLEST = 1e-300  # what underflows is less


def normal_excess(middle: ArrayLike, deviation: float) -> FloatArray:
    """Return E (1 - exp(middle + deviation Z))_+ for standard normal Z, rounded up.

    It is a difference of two numbers that may be nearly equal. What rounding can have removed is added to it: relative
    errors of a normal tail grow with the square of where it starts, those of an exponential with its argument.

    >>> float(normal_excess(0.0, 1.0).round(6))
    0.238422
    >>> 1 < float(normal_excess(30.0, 1.0)) / 1.57947970741753649e-199 < 1.0001  # with 40 digits
    True
    """
    middle = np.asarray(middle, dtype=np.float64)
    below = -middle / deviation
    log_tail = log_ndtr(below - deviation)
    first = ndtr(below)
    # If the difference is positive, the second is at most 1.
    second = np.exp(np.minimum(middle + deviation**2 / 2 + log_tail, 0.0))
    error_of_first = 4 + np.minimum(below, 0.0) ** 2
    error_of_second = 4 + np.abs(middle) + deviation**2 + np.abs(log_tail) + np.minimum(below - deviation, 0.0) ** 2
    allowance = _ROUNDING * (first * error_of_first + second * error_of_second) + _SMALLEST
    return np.asarray(np.minimum(np.maximum(first - second, 0.0) + allowance, 1.0))
