"""Compiled loops of strategies. They are imported where they are used: finding a strategy needs none of them."""

import numba
import numpy as np


@numba.njit(cache=True)
def substitute(coefficients, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the first `length` coefficients of 1 / series.

    Each one found is subtracted from those that follow, in a fixed order and without fused operations: the same bits on
    every processor, and a loop that vectorises all the same.
    """
    result = np.zeros(length)
    result[0] = 1.0
    for i in range(length):
        found = result[i] / coefficients[0]
        result[i] = found
        for k in range(1, min(coefficients.size, length - i)):
            result[i + k] -= coefficients[k] * found
    return result


@numba.njit(cache=True)
def solve_buffered(rows, decays, scales, first):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return C^-1 times rows, for C with the coefficients `first` times 1 and sum_i scale_i decay_i^(k-1)."""
    result = np.empty_like(rows)
    buffers = np.zeros((decays.size, rows.shape[1]))
    for t in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            value = rows[t, j] / first
            for i in range(decays.size):
                value -= scales[i] * buffers[i, j]
            for i in range(decays.size):
                buffers[i, j] = decays[i] * buffers[i, j] + value
            result[t, j] = value
    return result


@numba.njit(cache=True)
def best_separated(weights, min_sep, count):  # type: ignore[no-untyped-def]  # pragma: no cover
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
def bound_squared(gram, min_sep, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Bound |C x|^2 by the Gram matrix: the best partners of each participation, and then the best participations."""
    n = gram.shape[0]
    totals = np.empty(n)
    for i in range(n):
        others = gram[i].copy()
        others[max(0, i - min_sep + 1) : i + min_sep] = 0.0
        totals[i] = gram[i, i] + best_separated(others, min_sep, count - 1)
    return best_separated(totals, min_sep, count)
