"""The two directions of the divergence."""

from typing import Literal

Direction = Literal["remove", "add"]
"""`remove` is H(P, Q): with the example against without it. `add` is H(Q, P)."""

DIRECTIONS: tuple[Direction, Direction] = ("remove", "add")
