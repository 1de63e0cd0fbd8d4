"""Standard normal variates from uniform words, vectorised.

The Box-Muller transform in float64. The radius takes 52 bits of one word, so values reach 8.57 standard deviations (a
normal variate lies beyond with probability 1e-17), and the angle 52 bits and two signs of another. Logarithm, sine and
cosine are truncated series with errors below one unit in the last place of their argument's range, written without
branches so that the compiler turns the loop into vector instructions; a call into the C library would not.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from minsep.engine import available_cores
from minsep.randomness.keys import Key, KeyedWords

FloatArray = NDArray[np.floating[Any]]

# Values per task: its words fill half of a typical second-level cache.
_CHUNK = 1 << 16

_TO_INTEGER = np.uint64(0x4330000000000000)  # the bits of 2**52: or-ing in a 52-bit integer k gives 2**52 + k
_ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_FROM_ROOT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
_BITS_1, _BITS_12, _BITS_52, _BITS_63 = (np.uint64(n) for n in (1, 12, 52, 63))
_TWO_52 = 2.0**52
_LOG_2 = math.log(2.0)

# Highest power first, for Horner's rule.
_ATANH = tuple(2.0 / (2 * k + 1) for k in reversed(range(11)))
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in reversed(range(9)))
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in reversed(range(10)))


def _bit_cast(result: types.Type, argument: types.Type, element: ir.Type) -> Any:
    def typer(_context: Any, _argument: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], element)

        return result(argument), generate

    return intrinsic(typer)


_float_of = _bit_cast(types.float64, types.uint64, ir.DoubleType())
_bits_of = _bit_cast(types.uint64, types.float64, ir.IntType(64))


@numba.njit(inline="always")
def _polynomial(coefficients, z):  # type: ignore[no-untyped-def]  # pragma: no cover
    value = coefficients[0]
    for k in range(1, len(coefficients)):
        value = value * z + coefficients[k]
    return value


@numba.njit(inline="always")
def _pair(first, second):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return two independent standard normal variates from two words."""
    # u = (k + 1/2) / 2**52 lies in (0, 1), and log(u) = exponent * log(2) + 2 atanh(s).
    u = _float_of((first >> _BITS_12) | _TO_INTEGER) - (_TWO_52 - 0.5)
    shifted = _bits_of(u) + _FROM_ROOT_HALF
    mantissa = _float_of((shifted & _MANTISSA) + _ROOT_HALF)
    exponent = _float_of((shifted >> _BITS_52) | _TO_INTEGER) - (_TWO_52 + 1023.0 + 52.0)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    half_radius = math.sqrt(-(exponent * _LOG_2 + s * _polynomial(_ATANH, s * s)))
    # The angle is pi/4 + turn, within the first quadrant; two signs move it to any of the four.
    turn = (math.pi / 2) * (_float_of((second >> _BITS_12) | _ONE) - 1.5)
    sine = turn * _polynomial(_SINE, turn * turn)
    cosine = _polynomial(_COSINE, turn * turn)
    x = _float_of(_bits_of(half_radius * (cosine - sine)) ^ (second << _BITS_63))
    y = _float_of(_bits_of(half_radius * (cosine + sine)) ^ ((second >> _BITS_1) << _BITS_63))
    return x, y


@numba.njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def add_normals(words, scale, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add `scale` times standard normal variates to `out`, from as many words (one more when odd)."""
    half = words.size // 2
    rest = out.size - half
    # Halves as arrays of their own: indices that cannot be negative keep the loop vectorisable.
    radii, angles = words[:half], words[half:]
    lower, upper = out[:half], out[half:]
    for i in range(rest):
        x, y = _pair(radii[i], angles[i])
        lower[i] += scale * x
        upper[i] += scale * y
    if rest < half:
        x, y = _pair(radii[rest], angles[rest])
        lower[rest] += scale * x


class NormalRows:
    """Rows of independent standard normal variates, each a function of (key, row) whatever the number of threads.

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

    def add_to(self, out: FloatArray, first: int, scale: float) -> None:
        """Add `scale` times rows `first, first + 1, ...` to the rows of a C-contiguous array."""

        def work(task: tuple[int, int]) -> None:
            row, start = task
            part = out[row, start : start + _CHUNK]
            words = self._words.take(first + row, part.size + part.size % 2, start)
            add_normals(words, scale, part)

        tasks = self._tasks(*out.shape)
        if out.size <= _CHUNK or self._threads == 1:
            for task in tasks:
                work(task)
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(work, tasks))

    @staticmethod
    def _tasks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
        return ((row, start) for row in range(rows) for start in range(0, columns, _CHUNK))
