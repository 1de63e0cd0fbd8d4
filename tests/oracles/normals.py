"""The normal variates of released noise, and rows on the grid, in as plain a form as possible."""

import math

import mpmath
import numpy as np

from minsep.randomness import STRIPE, NormalRows

PAIRS = STRIPE // 2


def exact_pair(first, second, third, place=0.5):
    """Box-Muller with 60 digits, at a place in the cell that three words name (0 to 1): (x, y, radius)."""
    with mpmath.workdps(60):
        bits = (int(first) << 10) | (int(second) >> 2 & 0x3FF)
        low = min(bits, 2**74 - 1 - bits) < 2**52
        within = (int(third) + mpmath.mpf(place)) / 2**64 if low else mpmath.mpf(place)
        u = (bits + within) / mpmath.mpf(2) ** 74
        radius = mpmath.sqrt(-2 * mpmath.log(u))
        angle = mpmath.pi / 2 * ((int(second) >> 12) + mpmath.mpf(place) - mpmath.mpf(1) / 2) / 2**52
        signs = 1 - 2 * (int(second) & 1), 1 - 2 * (int(second) >> 1 & 1)
        return signs[0] * radius * mpmath.cos(angle), signs[1] * radius * mpmath.sin(angle), float(radius)


def rows_of_z(key, iterations, size, sigma=1.0):
    """Rows of Z, of a given size."""
    stripes = -(-size // STRIPE)
    rows, out = NormalRows(key), np.empty((iterations, stripes, STRIPE))
    for row in range(iterations):
        rows.fill(row, 0, out[row])
    return sigma * out.reshape(iterations, -1)[:, :size]


def rows_on_the_grid(matrix, z, step):
    """Rows of C^-1 Z by the recursion, each rounded to the grid before the next one uses it."""
    rows = np.zeros_like(z)
    for t in range(len(matrix)):
        before = sum(matrix[t, k] * rows[k] for k in range(t)) if t else 0.0
        rows[t] = step * np.rint((z[t] - before) / matrix[t, t] / step)
    return rows


def step_of(matrix, sigma):
    """The grid's step: the power of two at or below a 2048th of the noise that a row has of its own."""
    return 2.0 ** (math.floor(math.log2(sigma / np.diag(matrix).max())) - 11)
