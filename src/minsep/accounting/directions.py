"""The two directions of the divergence."""

import math
from typing import Literal

Direction = Literal["remove", "add"]
"""`remove` is H(P, Q): with the example against without it. `add` is H(Q, P)."""

DIRECTIONS: tuple[Direction, Direction] = ("remove", "add")


def add_is_zero(epsilon: float, no_participation: float) -> bool:
    """Whether `add` is 0: P/Q is nowhere below the probability of never taking part, and that is at least e^-epsilon.

    >>> add_is_zero(1.0, 0.4), add_is_zero(0.5, 0.4), add_is_zero(800.0, 0.0)
    (True, False, False)
    """
    return no_participation > 0 and -epsilon <= math.log(no_participation)
