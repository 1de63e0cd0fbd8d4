"""What a checker requires of a record, and the error that says what is wrong with one."""

import math

RELATIVE_TOLERANCE = 1e-6
"""What processors and versions of libraries may differ by."""


class CheckError(ValueError):
    """The reason why a certificate does not hold."""


def require(condition: bool, problem: str) -> None:
    """Refuse a record unless a condition is met."""
    if not condition:
        raise CheckError(problem)


def require_equal(name: str, recorded: float, needed: float) -> None:
    """Refuse a record that was changed; not a number is equal to nothing."""
    same = recorded == needed or math.isclose(recorded, needed, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-300)
    require(same, f"{name} is {recorded!r}, but should be {needed!r}")
