"""The best of a family with one number, from a ladder of numbers: every processor finds the same rung."""

from collections.abc import Callable
from functools import cache


def best_rung(cost: Callable[[int], float], lowest: int, highest: int) -> int:
    """Return the rung of least cost, for a cost that falls and then grows.

    Args:
        cost: The cost of a rung. Neighbours differ by far more than rounding, but for the one that is least.
        lowest: The first rung.
        highest: The last rung.

    >>> best_rung(lambda rung: (rung - 37) ** 2, 0, 1000)
    37
    """
    known = cache(cost)
    while lowest < highest:
        middle = (lowest + highest) // 2
        if known(middle) <= known(middle + 1):
            highest = middle
        else:
            lowest = middle + 1
    return lowest
