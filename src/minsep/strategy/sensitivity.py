"""The largest |C x| over participation vectors x with ones at least b apart, and at most k of them."""

import math

import numpy as np

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray


def most_participations(iterations: int, min_sep: int, participations: int | None) -> int:
    """Return how many participations `min_sep` apart fit into the run, at most `participations`."""
    min_sep = validate.integer(min_sep=min_sep, at_least=1)
    if participations is not None:
        participations = validate.integer(participations=participations, at_least=1)
    fitting = -(-iterations // min_sep)
    return fitting if participations is None else min(fitting, participations)


def non_increasing_toeplitz(coefficients: FloatArray, iterations: int, min_sep: int, participations: int) -> float:
    """Exact, for non-negative non-increasing coefficients: the worst x takes part at 0, b, 2b, ...

    Theorem 2 of Kalinin and Lampert, "Banded Square Root Matrix Factorization for Differentially Private Model
    Training" (2024).
    """
    column = np.zeros(iterations)
    for start in range(0, participations * min_sep, min_sep):
        part = coefficients[: iterations - start]
        column[start : start + part.size] += part
    return float(np.linalg.norm(column))


def separate_columns(norms: FloatArray, min_sep: int, participations: int) -> float:
    """Exact, for columns that do not overlap at a distance of `min_sep`."""
    from minsep.strategy import kernels

    return math.sqrt(kernels.best_separated(norms**2, min(min_sep, norms.size), participations))


def upper_bound(gram: FloatArray, min_sep: int, participations: int) -> float:
    """Return a bound for any non-negative C with Gram matrix `gram`.

    |C x|^2 is the sum over participations i of the sum over participations j of <c_i, c_j>. Maximising the inner sum
    for each i separately, and then the outer one, can only increase it.
    """
    from minsep.strategy import kernels

    return math.sqrt(kernels.bound_squared(gram, min(min_sep, len(gram)), participations))
