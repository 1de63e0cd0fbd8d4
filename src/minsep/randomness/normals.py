"""Standard normal variates from uniform words, vectorised.

The Box-Muller transform in float64. The radius takes 52 bits of one word, so values reach 8.57 standard deviations (a
normal variate lies beyond with probability 1e-17), and the angle 52 bits and two signs of another.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from minsep.arrays import Rows
from minsep.engine import available_cores
from minsep.numerics import INTEGER_PART, ONE, TWO_52, bits_of, float_of, log_positive, polynomial
from minsep.randomness.keys import Key, KeyedWords

# Values per task: its words fill half of a typical second-level cache.
_CHUNK = 1 << 16

_BITS_1, _BITS_12, _BITS_63 = (np.uint64(n) for n in (1, 12, 63))

_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(10))


@numba.njit(inline="always")
def normal_pair(first, second):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return two independent standard normal variates from two words."""
    # (k + 1/2) / 2**52 with k uniform on 52 bits: exact, and never 0 or 1.
    u = (float_of((first >> _BITS_12) | INTEGER_PART) - (TWO_52 - 0.5)) * (1.0 / TWO_52)
    half_radius = math.sqrt(-log_positive(u))
    # The angle is pi/4 + turn, within the first quadrant; two signs move it to any of the four.
    turn = (math.pi / 2) * (float_of((second >> _BITS_12) | ONE) - 1.5)
    sine = turn * polynomial(_SINE, turn * turn)
    cosine = polynomial(_COSINE, turn * turn)
    x = float_of(bits_of(half_radius * (cosine - sine)) ^ (second << _BITS_63))
    y = float_of(bits_of(half_radius * (cosine + sine)) ^ ((second >> _BITS_1) << _BITS_63))
    return x, y


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def add_normals(words, scale, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add `scale` times standard normal variates to `out`, one per word (`words` has one more if the size is odd)."""
    half = words.size // 2
    rest = out.size - half
    # Halves as separate arrays: indices that cannot be negative keep the loop vectorisable.
    radii, angles = words[:half], words[half:]
    lower, upper = out[:half], out[half:]
    for i in range(rest):
        x, y = normal_pair(radii[i], angles[i])
        lower[i] += scale * x
        upper[i] += scale * y
    if rest < half:
        x, y = normal_pair(radii[rest], angles[rest])
        lower[rest] += scale * x


class NormalRows:
    """Rows of independent standard normal variates, each a function of (key, row) for any number of threads.

    >>> rows = NormalRows(Key.from_seed(0))
    >>> out = np.zeros((3, 5))
    >>> rows.add_to(out, first=10, scale=1.0)
    >>> again = np.zeros((1, 5))
    >>> rows.add_to(again, first=12, scale=1.0)
    >>> bool((out[2] == again[0]).all())
    True
    """

    def __init__(self, key: Key, threads: int | None = None) -> None:
        self._words = KeyedWords(key)
        self._threads = threads or available_cores()

    def add_to(self, out: Rows, first: int, scale: float, columns: tuple[int, int] | None = None) -> None:
        """Add `scale` times rows `first, first + 1, ...` to the rows of a C-contiguous array.

        If the array holds a part of the rows, `columns` is (its first column, the width of a whole row).
        """
        begin, width = (0, out.shape[1]) if columns is None else columns
        end = begin + out.shape[1]

        def work(task: tuple[int, int]) -> None:
            row, start = task
            size = min(_CHUNK, width - start)
            words = self._words.take(first + row, size + size % 2, start)
            inside = slice(max(start, begin), min(start + size, end))
            part = out[row, inside.start - begin : inside.stop - begin]
            if part.size == size:
                add_normals(words, scale, part)
            else:
                # The values of a chunk depend on its size, so one that reaches beyond the columns is computed in full.
                whole = np.zeros(size, dtype=out.dtype)
                within = whole[inside.start - start : inside.stop - start]
                within[:] = part
                add_normals(words, scale, whole)
                part[:] = within

        tasks = ((row, start) for row in range(out.shape[0]) for start in range(begin - begin % _CHUNK, end, _CHUNK))
        if out.size <= _CHUNK or self._threads == 1:
            for task in tasks:
                work(task)
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(work, tasks))
