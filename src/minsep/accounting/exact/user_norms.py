"""How far a user moves the output in total, if the sampling is public."""

import math

import numpy as np

from minsep.core.arrays import FloatArray

# Longer tables gain nothing: values beyond the table count as the largest possible value.
_MOST_VALUES = 20_000


def user_norm_law(prob: float, group: int, min_sep: int, iterations: int) -> tuple[FloatArray, FloatArray]:
    """Return values T and their probabilities for T = sum of x_i^2, rounded up where the table ends.

    x is the dominating participation of a user: Binomial(group, prob) in every iteration, but 0 in the `min_sep - 1`
    iterations after one that is not 0.

    >>> values, probabilities = user_norm_law(0.5, group=2, min_sep=2, iterations=2)
    >>> values, probabilities
    (array([0., 1., 2., 3., 4.]), array([0.0625, 0.625 , 0.    , 0.    , 0.3125]))
    """
    min_sep = min(min_sep, iterations)  # no example returns after the run
    largest = group**2 * -(-iterations // min_sep)
    size = min(largest, _MOST_VALUES) + 1
    chances = [math.comb(group, j) * prob**j * (1 - prob) ** (group - j) for j in range(group + 1)]
    # laws[k]: the law of the sum over the last k iterations, of which only the last min_sep are needed.
    laws = np.zeros((min_sep, size))
    start = np.zeros(size)
    start[0] = 1.0
    laws[:] = start
    for done in range(1, iterations + 1):
        again = laws[done % min_sep]  # the law of max(done - min_sep, 0) iterations
        law = chances[0] * laws[(done - 1) % min_sep]
        for j in range(1, group + 1):
            square = min(j * j, size - 1)
            law[square:] += chances[j] * again[: size - square]
            law[-1] += chances[j] * again[size - square :].sum()
        laws[done % min_sep] = law
    values = np.arange(size, dtype=np.float64)
    values[-1] = largest
    return values, laws[iterations % min_sep]
