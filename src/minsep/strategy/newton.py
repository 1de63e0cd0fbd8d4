"""Newton's method for up to some thousand unknowns.

Systems of a few hundred unknowns are solved in this thread. A threaded library waits for cores that other work holds:
for systems of that size it took a hundred times longer than the sums. Compiled code would take longer to load than to
run. Larger systems are worth the wait.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import linalg

from minsep.core.arrays import FloatArray

_MOST_STEPS = 200
_MOST_HALVINGS = 50
_SUFFICIENT = 1e-4  # share of the decrease that the slope promises
_FIRST_SHIFT, _SHIFT_FACTOR = 1e-3, 10.0
_ROUNDING = 1e-14
_MOST_IN_THIS_THREAD = 512  # unknowns


def minimise(
    value_and_gradient: Callable[[FloatArray], tuple[float, FloatArray]],
    hessian: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    tolerance: float,
) -> FloatArray:
    """Return where a function is least, up to rounding, by steps that each lower it.

    Args:
        value_and_gradient: Returns the value of the function at a point, and its gradient.
        hessian: Returns the Hessian at a point.
        start: The first point.
        tolerance: Once the norm of the gradient is at most this, one more step follows. Newton's method squares the
            error, so what is left is rounding, and it does not matter at which step the tolerance was met.

    >>> def bowl(x):
    ...     return float(np.cosh(x).sum()), np.sinh(x)
    >>> minimise(bowl, lambda x: np.diag(np.cosh(x)), np.array([1.0, -2.0]), 1e-9).round(6) + 0.0
    array([0., 0.])
    """
    point = start
    value, gradient = value_and_gradient(point)
    for _ in range(_MOST_STEPS):
        step = _descent(hessian(point), gradient)
        slope = float(step @ gradient)
        # What is left may be below the rounding of the function's values.
        if float(np.sqrt(gradient @ gradient)) <= tolerance or -slope <= _ROUNDING * abs(value):
            return point + step
        for halving in range(_MOST_HALVINGS):
            length = 0.5**halving
            trial = point + length * step
            found, its_gradient = value_and_gradient(trial)
            if found <= value + _SUFFICIENT * length * slope:
                break
        else:
            # The decrease is below rounding, so the full step is the best that is known, as above.
            return point + step
        point, value, gradient = trial, found, its_gradient
    return point


def _descent(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the Newton step, with a multiple of the identity added to the Hessian until it is positive definite."""
    shift = 0.0
    scale = float(np.abs(np.diag(hessian)).mean())
    while (factor := _cholesky(hessian + shift * scale * np.eye(gradient.size))) is None:
        shift = max(_FIRST_SHIFT, _SHIFT_FACTOR * shift)
    if gradient.size > _MOST_IN_THIS_THREAD:
        return np.asarray(linalg.cho_solve((factor, True), -gradient, check_finite=False))
    step = -gradient
    for i in range(step.size):
        step[i] = (step[i] - _dot(factor[i, :i], step[:i])) / factor[i, i]
    for i in range(step.size - 1, -1, -1):
        step[i] = (step[i] - _dot(factor[i + 1 :, i], step[i + 1 :])) / factor[i, i]
    return step


def _cholesky(matrix: FloatArray) -> FloatArray | None:
    """Return the lower triangular factor of a symmetric matrix, or None if it is not positive definite."""
    if len(matrix) > _MOST_IN_THIS_THREAD:
        factor, failed = linalg.lapack.dpotrf(matrix, lower=1, clean=1)
        return None if failed else factor
    factor = np.zeros_like(matrix)
    for j in range(len(matrix)):
        column = matrix[j:, j] - np.einsum("ij,j->i", factor[j:, :j], factor[j, :j])
        if not column[0] > 0:
            return None
        factor[j:, j] = column / math.sqrt(column[0])
    return factor


def _dot(left: FloatArray, right: FloatArray) -> float:
    return float(np.einsum("i,i->", left, right))
