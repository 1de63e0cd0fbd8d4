"""The largest |C x| over participation vectors x with ones at least b apart, and at most k of them."""

import math

import numba
import numpy as np

from minsep import _validation as validate
from minsep.arrays import FloatArray


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
    return math.sqrt(_best_separated(norms**2, min(min_sep, norms.size), participations))


def upper_bound(gram: FloatArray, min_sep: int, participations: int) -> float:
    """Return a bound for any non-negative C with Gram matrix `gram`.

    |C x|^2 is the sum over participations i of the sum over participations j of <c_i, c_j>. Maximising the inner sum
    for each i separately, and then the outer one, can only increase it.
    """
    return math.sqrt(_bound_squared(gram, min(min_sep, len(gram)), participations))


@numba.njit(cache=True)
def _best_separated(weights, min_sep, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Largest sum of at most `count` weights at least `min_sep` apart."""
    n = weights.size
    fewer = np.zeros(n + min_sep)
    for _ in range(count):
        best = np.zeros(n + min_sep)
        for i in range(n - 1, -1, -1):
            best[i] = max(best[i + 1], weights[i] + fewer[i + min_sep])
        fewer = best
    return fewer[0]


@numba.njit(cache=True)
def _bound_squared(gram, min_sep, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    n = gram.shape[0]
    totals = np.empty(n)
    for i in range(n):
        others = gram[i].copy()
        others[max(0, i - min_sep + 1) : i + min_sep] = 0.0
        totals[i] = gram[i, i] + _best_separated(others, min_sep, count - 1)
    return _best_separated(totals, min_sep, count)
