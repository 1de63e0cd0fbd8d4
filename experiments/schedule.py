"""The learning-rate schedule of the paper's images."""

from collections.abc import Callable

FINAL = 1 / 20


def linear_decay(iterations: int) -> Callable[[int], float]:
    """Return a factor of the learning rate: 1, linear from a quarter to three quarters of the run, then a twentieth."""
    begin, length = iterations / 4, iterations / 2

    def factor(step: int) -> float:
        done = min(max((step - begin) / length, 0.0), 1.0)
        return (1.0 - done) + FINAL * done

    return factor
