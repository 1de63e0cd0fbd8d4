"""Newton's method for a few hundred unknowns.

The linear systems are solved by a compiled factorisation in this thread. A threaded library waits for cores that other
work holds: for systems of this size that took a hundred times longer than the sums.
"""

from collections.abc import Callable

import numba
import numpy as np

from minsep.arrays import FloatArray

_MOST_STEPS = 200
_MOST_HALVINGS = 50
_SUFFICIENT = 1e-4  # share of the decrease that the slope promises
_FIRST_SHIFT, _SHIFT_FACTOR = 1e-3, 10.0
_ROUNDING = 1e-14


def minimise(
    value_and_gradient: Callable[[FloatArray], tuple[float, FloatArray]],
    hessian: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    tolerance: float,
) -> FloatArray:
    """Return where a function is least, its gradient of at most a norm, by steps that each lower it.

    >>> def bowl(x):
    ...     return float(np.cosh(x).sum()), np.sinh(x)
    >>> minimise(bowl, lambda x: np.diag(np.cosh(x)), np.array([1.0, -2.0]), 1e-9).round(6) + 0.0
    array([0., 0.])
    """
    point = start
    value, gradient = value_and_gradient(point)
    for _ in range(_MOST_STEPS):
        if float(np.sqrt(gradient @ gradient)) <= tolerance:
            break
        step = _descent(hessian(point), gradient)
        slope = float(step @ gradient)
        if -slope <= _ROUNDING * abs(value):
            return point + step  # what is left is below the rounding of the function's values
        for halving in range(_MOST_HALVINGS):
            length = 0.5**halving
            trial = point + length * step
            found, its_gradient = value_and_gradient(trial)
            if found <= value + _SUFFICIENT * length * slope:
                break
        else:
            return point
        point, value, gradient = trial, found, its_gradient
    return point


def _descent(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the Newton step, with a multiple of the identity added to the Hessian until it is positive definite."""
    shift = 0.0
    scale = float(np.abs(np.diag(hessian)).mean())
    while True:
        step = -gradient
        if _solve(hessian + shift * scale * np.eye(gradient.size), step):
            return step
        shift = max(_FIRST_SHIFT, _SHIFT_FACTOR * shift)


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _solve(matrix, vector):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Solve a symmetric system in place by Cholesky's factorisation; return False if it is not positive definite."""
    size = vector.size
    for j in range(size):
        row = matrix[j, :j]
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= row[k] * row[k]
        if not pivot > 0.0:
            return False
        pivot = np.sqrt(pivot)
        matrix[j, j] = pivot
        for i in range(j + 1, size):
            other = matrix[i, :j]
            total = 0.0
            for k in range(j):
                total += other[k] * row[k]
            matrix[i, j] = (matrix[i, j] - total) / pivot
    for i in range(size):
        total = 0.0
        for k in range(i):
            total += matrix[i, k] * vector[k]
        vector[i] = (vector[i] - total) / matrix[i, i]
    for i in range(size - 1, -1, -1):
        vector[i] /= matrix[i, i]
        for k in range(i):
            vector[k] -= matrix[i, k] * vector[i]
    return True
