"""A user with several examples, each by itself a b-min-sep process: laws by enumeration."""

import numpy as np

from tests.oracles.participation import Law, participation_law


def sum_law(law: Law, copies: int) -> Law:
    """Return the law of the sum of independent vectors."""
    (length,) = {len(x) for x in law}
    total: Law = {(0,) * length: 1.0}
    for _ in range(copies):
        longer: Law = {}
        for x, weight in total.items():
            for y, other in law.items():
                both = tuple(int(value) for value in np.add(x, y))
                longer[both] = longer.get(both, 0.0) + weight * other
        total = longer
    return total


def joint_law(scheme, iterations: int, examples: int) -> dict[tuple[tuple[int, ...], ...], float]:
    """Return the law of who takes part when, of all examples together: every coin of every example."""
    law = participation_law(scheme, iterations)
    joint: dict[tuple[tuple[int, ...], ...], float] = {(): 1.0}
    for _ in range(examples):
        joint = {
            (*vectors, x): weight * other
            for vectors, weight in joint.items()
            for x, other in law.items()
            if weight * other > 0
        }
    return joint
