"""Orthonormal directions of canaries: from a single coordinate to half of all, with signs and places at random."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from minsep.core.arrays import FloatArray
from minsep.randomness import Key, KeyedWords

_LARGEST_BLOCK = 1024


class Directions:
    """An orthonormal basis of signed Hadamard blocks of many sizes, over coordinates in random order.

    The first block has half of all coordinates, the next one half of the rest, down to single coordinates. In a block
    of size m, the m entries of a direction are 1 or -1 over the square root of m, and all others are 0. A wrong norm
    may agree with the Euclidean one on vectors with one number of entries, but not with all numbers.

    Args:
        size: Number of coordinates, and of directions.
        key: The key of signs and of the order of coordinates. None gives the blocks as they are.

    Examples:
        >>> directions = Directions(4)
        >>> directions.vectors(np.array([1, 3])).round(3)
        array([[ 0.707, -0.707,  0.   ,  0.   ],
               [ 0.   ,  0.   ,  0.   ,  1.   ]])
        >>> values = np.array([[3.0], [1.0], [0.0], [5.0]])
        >>> directions.along(values).round(3).ravel()
        array([2.828, 1.414, 0.   , 5.   ])
        >>> directions.back(directions.along(values)).round(3).ravel()
        array([3., 1., 0., 5.])
    """

    def __init__(self, size: int, key: Key | None = None) -> None:
        self.size = size
        self._order: NDArray[np.int64] = np.arange(size)
        self._signs = np.ones(size)
        if key is not None:
            words = KeyedWords(key)
            self._order = np.argsort(words.take(0, size), kind="stable")
            self._signs[words.take(1, size) >= np.uint64(1 << 63)] = -1.0
        self._place_of = np.argsort(self._order)
        self._blocks = list(_blocks(size))

    def vectors(self, places: NDArray[np.int64]) -> FloatArray:
        """Return some directions, one a row.

        Args:
            places: The numbers of the directions.
        """
        ordered = np.zeros((places.size, self.size))
        by_place = np.argsort(places)
        ends = np.searchsorted(places[by_place], [start + length for start, length in self._blocks])
        for (start, length), (first, end) in zip(self._blocks, pairwise([0, *ends]), strict=True):
            if first < end:
                inside = by_place[first:end]
                ordered[inside, start : start + length] = _hadamard(length)[places[inside] - start]
        rows: FloatArray = ordered[:, self._place_of]
        rows *= self._signs
        return rows

    def along(self, values: FloatArray) -> FloatArray:
        """Return what vectors, one a column, have along each direction.

        Args:
            values: A row for each coordinate.
        """
        ordered = values[self._order] * self._signs[self._order, None]
        return np.concatenate([_hadamard(length) @ ordered[start : start + length] for start, length in self._blocks])

    def back(self, values: FloatArray) -> FloatArray:
        """Return the vectors, one a column, that have these values along the directions.

        Args:
            values: A row for each direction.
        """
        ordered = [_hadamard(length) @ values[start : start + length] for start, length in self._blocks]
        vectors: FloatArray = np.concatenate(ordered)[self._place_of] * self._signs[:, None]
        return vectors

    def shares(self, kept: NDArray[np.bool_]) -> FloatArray:
        """Return how much of each coordinate lies in the span of some directions: the squared norm of its projection.

        Args:
            kept: Whether each direction is one of them.
        """
        shares = np.empty(self.size)
        for start, length in self._blocks:
            shares[self._order[start : start + length]] = np.mean(kept[start : start + length])
        return shares


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each block."""
    start = 0
    while start < size:
        half = max((size - start) // 2, 1)
        length = min(1 << (half.bit_length() - 1), _LARGEST_BLOCK)
        yield start, length
        start += length


@cache
def _hadamard(length: int) -> FloatArray:
    """Return an orthonormal matrix of entries of one size, equal to its inverse."""
    matrix: FloatArray = hadamard(length, dtype=np.float64) / length**0.5
    matrix.flags.writeable = False
    return matrix
