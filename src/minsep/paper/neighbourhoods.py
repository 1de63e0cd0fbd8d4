"""The paper's rule of thumb for the size of neighbourhoods, where users share examples."""

import math

from minsep.core import validation as validate


def neighbourhood_rule(sampling_prob: float, min_sep: int) -> int:
    """Return the largest neighbourhood bound k_e with b p k_e < 1, and at least 1.

    Roughly, an example with a larger neighbourhood prevents more participations than it adds.

    Args:
        sampling_prob: The probability p that an example is sampled.
        min_sep: The separation b.

    Examples:
        >>> neighbourhood_rule(sampling_prob=0.004, min_sep=32)
        7
    """
    prob = validate.real(sampling_prob=sampling_prob, above=0, at_most=1)
    separation = validate.integer(min_sep=min_sep, at_least=1)
    return max(math.ceil(1 / (separation * prob)) - 1, 1)
