"""The noise multipliers that the paper tries: powers of 1.01."""

import math

from minsep.core.identity import to_digits
from minsep.mechanism import NOISE_DIGITS

_STEP = 1.01


def power(exponent: int) -> float:
    """Return a noise multiplier of the ladder.

    >>> [power(exponent) for exponent in (-1, 0, 1)]
    [0.990099, 1.0, 1.01]
    """
    return to_digits(_STEP**exponent, NOISE_DIGITS)


def first_exponent(estimate: float) -> int:
    """Return the exponent of a power that lies a step or two below an estimate of the noise multiplier.

    >>> power(first_exponent(1.0))
    0.990099
    """
    return math.floor(math.log(estimate) / math.log(_STEP)) - 1
