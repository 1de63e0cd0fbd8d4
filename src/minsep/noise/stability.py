"""Whether rows of C^-1 Z can be computed in a precision: docs/rounding.md has the bounds behind it."""

from typing import Any

import numpy as np

from minsep.strategy import Strategy

# The largest entry of C^-1 times the spacing of a dtype's numbers at 1.
_MOST = 2.0**-10


def check_stable(strategy: Strategy, dtype: np.dtype[Any]) -> None:
    """Refuse a strategy whose inverse grows so far that numbers of a dtype round its noise away.

    >>> from minsep import BandedToeplitz
    >>> check_stable(
    ...     BandedToeplitz.from_coefficients([1, 2], iterations=40), np.dtype(np.float32)
    ... )  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: strategy is BandedToeplitz(iterations=40, bands=2), but C^-1 has entries up to 1.2e+12: ...
    >>> check_stable(BandedToeplitz.from_coefficients([1, 2], iterations=40), np.dtype(np.float64))
    """
    largest = strategy.largest_inverse_entry
    if largest <= _limit(dtype):  # false for what is not a number
        return
    wider = np.dtype(np.float64)
    remedy = (
        f"dtype {wider} would do."
        if largest <= _limit(wider)
        else "No dtype would do: take coefficients whose inverse does not grow, as BandedToeplitz.optimal has them."
    )
    raise ValueError(
        f"strategy is {strategy!r}, but C^-1 has entries up to {largest:.2g}: numbers of dtype {dtype} would round its "
        f"noise away, which takes entries up to {_limit(dtype):.2g}. {remedy}"
    )


def _limit(dtype: np.dtype[Any]) -> float:
    return _MOST / float(np.finfo(dtype).eps)
