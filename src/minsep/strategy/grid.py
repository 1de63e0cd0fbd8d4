"""The public grid of the strategies that minsep computes.

An optimisation ends in slightly different bits on processors of different types, and the identity of a strategy, and
with it the noise of a seed, follows its bits. The optimum is flat, so it is rounded to a grid that is coarse beside
those differences and fine beside anything that matters: docs/strategies.md has the figures.
"""

import numpy as np

from minsep.core.arrays import FloatArray

STEPS = 2**20
"""Number of steps of the grid between 0 and the first coefficient."""


def on_grid(coefficients: FloatArray) -> FloatArray:
    """Return coefficients relative to the first one, rounded to multiples of 2^-20.

    >>> (STEPS * on_grid(np.array([3.0, 1.0]))).tolist()
    [1048576.0, 349525.0]
    """
    return np.asarray(np.rint(coefficients / coefficients[0] * STEPS) / STEPS)


def to_mantissa(values: FloatArray) -> FloatArray:
    """Return positive numbers rounded to 20 binary digits.

    >>> to_mantissa(np.array([1 / 3, 1e-9])).tolist() == [699051 / 2**21, 562950 / 2**49]
    True
    """
    mantissas, exponents = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(mantissas * STEPS) / STEPS, exponents))
