"""Compiled loops of strategies. They are imported where they are used: finding a strategy needs none of them."""

import numba
import numpy as np


@numba.njit(cache=True, fastmath={"contract", "reassoc"})
def substitute(coefficients, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the first `length` coefficients of 1 / series."""
    result = np.zeros(length)
    result[0] = 1.0 / coefficients[0]
    for i in range(1, length):
        reach = min(i, coefficients.size - 1)
        past = result[i - reach : i][::-1]
        total = 0.0
        for k in range(reach):
            total += coefficients[k + 1] * past[k]
        result[i] = -total / coefficients[0]
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
