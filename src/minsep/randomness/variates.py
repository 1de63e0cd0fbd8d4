"""Uniform and geometric numbers from random words: the same bits on every processor, because batches follow them.

Uniform numbers are the midpoints of 2**52 cells of (0, 1): exact, never 0 and never 1. Logarithms are our own, because
the last bits of the C library's depend on the processor.
"""

import math
from decimal import Decimal, localcontext

import numba
import numpy as np

from minsep.core.arrays import FloatArray, Words
from minsep.core.numerics import log_positive

_UNIT = 2.0**-52
_UNUSED_BITS = np.uint64(12)
_DIGITS = 50


@numba.njit(inline="always")
def uniform(word):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the uniform number of one word, in compiled code."""
    return ((word >> _UNUSED_BITS) + 0.5) * _UNIT


def uniforms(words: Words) -> FloatArray:
    """Return the uniform numbers of an array of words.

    >>> uniforms(np.array([0, 2**63], dtype=np.uint64)).tolist()
    [1.1102230246251565e-16, 0.5000000000000001]
    """
    return np.asarray(((words >> _UNUSED_BITS) + 0.5) * _UNIT, dtype=np.float64)


@numba.njit(inline="always")
def failures(word, log_miss):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the number of failures before the first success, as a float that may be large, in compiled code."""
    # NumPy's floor stays a float, where math.floor would wrap beyond 2**63.
    return np.floor(log_positive(uniform(word)) / log_miss)


def log_miss_of(prob: float) -> float:
    """Return log(1 - prob) for a probability, correctly rounded.

    >>> log_miss_of(0.5) == -math.log(2), log_miss_of(1.0), log_miss_of(1e-30)
    (True, -inf, -1e-30)
    """
    if prob >= 1:
        return -math.inf
    if prob < _UNIT / 4:
        return -prob
    with localcontext(prec=_DIGITS):
        return float((1 - Decimal(prob)).ln())
