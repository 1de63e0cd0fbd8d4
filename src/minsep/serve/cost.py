"""About how long a plan takes, before it is made."""

import math

from minsep.accounting import needs_samples
from minsep.planning import Request
from minsep.planning.candidates import candidates

_SECONDS_AN_ITERATION = 1.5e-4  # for one iteration of one candidate, estimated from samples on one core
_TINY_DELTA, _FACTOR_OF_TINY_DELTA = 1e-6, 4.0  # below which estimates take so many times as long
_MOST_LOG_STATES = 20.0  # for ever, and yet a number


def seconds_of(request: Request) -> float:
    """Return about how long estimates take on one core; what is computed exactly counts for nothing.

    >>> seconds_of(Request(1000, 50, 100, 4.0, 1e-5, schemes=["poisson"]))
    0.0
    """
    sampled = [one for one in candidates(request) if needs_samples(one.scheme) and not one.skipped]
    count = sum(_states(one.min_sep, request.user_bound) for one in sampled)
    return (
        _SECONDS_AN_ITERATION
        * (_FACTOR_OF_TINY_DELTA if request.delta < _TINY_DELTA else 1.0)
        * count
        * request.iterations
    )


def _states(separation: int, user_bound: int) -> float:
    """Return how much longer an iteration takes for a user of several examples: each waits by itself."""
    if user_bound == 1:
        return 1.0
    ways = math.lgamma(separation + user_bound + 1) - math.lgamma(separation + 1) - math.lgamma(user_bound + 1)
    return math.exp(min(ways, _MOST_LOG_STATES)) / 4
