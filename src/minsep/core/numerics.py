"""Elementary functions without branches, so that the compiler turns loops over them into vector instructions.

A call into the C library would not vectorise. Each function is a truncated series on a reduced argument, accurate to a
few units in the last place of its result; all are inlined where they are used.
"""

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

TWO_52 = 2.0**52
ROUNDER = 1.5 * 2.0**52  # adding it and taking it off rounds numbers below 2**51 to integers, half to even
LOG_2 = math.log(2.0)
INTEGER_PART = np.uint64(0x4330000000000000)  # the bits of 2**52: or-ing in a 52-bit integer k gives 2**52 + k
ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0
BITS_52 = np.uint64(52)

_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
_FROM_ONE = 1.0 - math.sqrt(0.5)
_FROM_ROOT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)

_ATANH = tuple(2.0 / (2 * k + 1) for k in range(9))
_FINE_ATANH = tuple(2.0 / (2 * k + 1) for k in range(10))
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(10))
_EXPONENTIAL = tuple(1.0 / math.factorial(k) for k in range(13))
_LOG_2_HIGH = 0.6931471803691238  # log(2) with its low half cleared, so that multiples of it are exact
_LOG_2_LOW = 1.9082149292705877e-10
_LEAST_EXPONENT = -708.0


def _bit_cast(result: Any, argument: Any, element: ir.Type) -> Any:
    def typer(_context: Any, _argument: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], element)

        return result(argument), generate

    return intrinsic(typer)


float_of = _bit_cast(types.float64, types.uint64, ir.DoubleType())
bits_of = _bit_cast(types.uint64, types.float64, ir.IntType(64))


@numba.njit(inline="always")
def polynomial(coefficients, z):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Evaluate a polynomial, lowest power first; even and odd powers separately, for a shorter dependency chain."""
    square = z * z
    count = len(coefficients)
    last_even = (count - 1) // 2 * 2
    last_odd = count // 2 * 2 - 1
    even = coefficients[last_even]
    odd = coefficients[last_odd]
    for k in range(last_even - 2, -1, -2):
        even = even * square + coefficients[k]
    for k in range(last_odd - 2, 0, -2):
        odd = odd * square + coefficients[k]
    return odd * z + even


@numba.njit(inline="always")
def log_positive(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Logarithm of a positive normal number: x = 2^e m, m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s)."""
    shifted = bits_of(x) + _FROM_ROOT_HALF
    mantissa = float_of((shifted & _MANTISSA) + _ROOT_HALF)
    exponent = float_of((shifted >> BITS_52) | INTEGER_PART) - (TWO_52 + 1023.0)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    # x - x is 0 for every number, and nan for infinity and nan, which the bits would turn into numbers.
    return exponent * LOG_2 + s * polynomial(_ATANH, s * s) + (x - x)


@numba.njit(inline="always")
def log_of_side(h, upper):  # type: ignore[no-untyped-def]  # pragma: no cover
    """log(1 - h) if `upper`, else log(h), for h in (0, 1/2), with a small relative error even where 1 - h nears 1."""
    x = 1.0 - h if upper else h
    shifted = bits_of(x) + _FROM_ROOT_HALF
    mantissa = float_of((shifted & _MANTISSA) + _ROOT_HALF)
    exponent = float_of((shifted >> BITS_52) | INTEGER_PART) - (TWO_52 + 1023.0)
    # Where x is its own mantissa, x - 1 is -h before rounding.
    above = -h if upper and h < _FROM_ONE else mantissa - 1.0
    s = above / (mantissa + 1.0)
    return exponent * LOG_2 + s * polynomial(_FINE_ATANH, s * s)


@numba.njit(inline="always")
def sine(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Sine of an angle up to pi/4 in size."""
    return x * polynomial(_SINE, x * x)


@numba.njit(inline="always")
def cosine(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Cosine of an angle up to pi/4 in size."""
    return polynomial(_COSINE, x * x)


@numba.njit(inline="always")
def exp_up_to_709(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Exponential, at least 3e-308; NaN stays NaN. Undefined beyond 709."""
    x = _LEAST_EXPONENT if x < _LEAST_EXPONENT else x
    rounded = x * (1.0 / LOG_2) + ROUNDER
    k = rounded - ROUNDER
    rest = (x - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    power = float_of((bits_of(rounded) << BITS_52) + ONE)
    return polynomial(_EXPONENTIAL, rest) * power


@numba.njit(inline="always")
def log_add_exp(a, b):  # type: ignore[no-untyped-def]  # pragma: no cover
    """log(e^a + e^b) for a finite and b finite or minus infinity, or vice versa; NaN stays NaN."""
    above = a > b
    high = a if above else b
    low = b if above else a
    return high + log_positive(1.0 + exp_up_to_709(low - high))


def x_log_x(x: float) -> float:
    """Return x log x, which is 0 at 0.

    >>> x_log_x(0.0), x_log_x(1.0)
    (0.0, 0.0)
    """
    return x * math.log(x) if x > 0 else 0.0
