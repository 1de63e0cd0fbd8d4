"""Vectors and rows of samples, two of which are interleaved in a row."""

import numba
import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import FloatArray, Rows


def add_to_samples(rows: Rows, added: NDArray[np.floating], which: NDArray[np.bool_] | None = None) -> None:
    """Add a vector to all samples, or to some.

    >>> rows = np.zeros((1, 4))
    >>> add_to_samples(rows, np.array([1.0, 2.0]), np.array([False, True]))
    >>> rows.tolist()
    [[0.0, 1.0, 0.0, 2.0]]
    """
    _add_to_samples(rows, added, np.ones(2 * rows.shape[0], dtype=np.bool_) if which is None else which)


def inner_products(rows: Rows, vector: FloatArray) -> FloatArray:
    """Return the inner product of each sample with a vector.

    >>> inner_products(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([1.0, 10.0])).tolist()
    [31.0, 42.0]
    """
    products = np.empty(2 * rows.shape[0])
    _sum_products(rows, vector, products)
    return products


@numba.njit(nogil=True, cache=True)
def _add_to_samples(rows, added, which):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(rows.shape[0]):
        first, second = which[2 * row], which[2 * row + 1]
        for i in range(added.size):
            if first:
                rows[row, 2 * i] += added[i]
            if second:
                rows[row, 2 * i + 1] += added[i]


@numba.njit(nogil=True, cache=True)
def _sum_products(rows, vector, products):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(rows.shape[0]):
        first, second = 0.0, 0.0
        for i in range(vector.size):
            first += vector[i] * rows[row, 2 * i]
            second += vector[i] * rows[row, 2 * i + 1]
        products[2 * row], products[2 * row + 1] = first, second
