"""Whether rows of C^-1 Z can be computed in a given precision: docs/rounding.md derives the bounds."""

from typing import Any

import numpy as np

from minsep.strategy import Strategy

# The largest entry of C^-1 times the spacing of a dtype's numbers at 1.
_MOST = 2.0**-10


def check_stable(strategy: Strategy, dtype: np.dtype[Any]) -> None:
    """Refuse a strategy whose inverse grows so large that rounding to a dtype would remove its noise.

    >>> from minsep import BandedToeplitz
    >>> check_stable(
    ...     BandedToeplitz.from_coefficients([1, 2], iterations=40), np.dtype(np.float32)
    ... )  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: strategy is BandedToeplitz(iterations=40, bands=2), but C^-1 has entries up to 1.2e+12: ...
    >>> check_stable(BandedToeplitz.from_coefficients([1, 2], iterations=40), np.dtype(np.float64))
    """
    largest = strategy.largest_inverse_entry
    if largest <= _limit(dtype):  # false for NaN
        return
    wider = np.dtype(np.float64)
    remedy = (
        f"dtype {wider} is sufficient."
        if largest <= _limit(wider)
        else "No dtype is sufficient: use coefficients whose inverse does not grow, such as BandedToeplitz.optimal."
    )
    raise ValueError(
        f"strategy is {strategy!r}, but C^-1 has entries up to {largest:.2g}: in dtype {dtype}, which allows entries "
        f"up to {_limit(dtype):.2g}, rounding would remove the noise. {remedy}"
    )


def _limit(dtype: np.dtype[Any]) -> float:
    return _MOST / float(np.finfo(dtype).eps)
