"""What cutting large batches costs, and from which size on it costs next to nothing."""

from dataclasses import replace

from minsep.accounting import cost_of_cutting, has_exact_curve
from minsep.planning.candidates import Candidate
from minsep.planning.request import Request

_SMALL_SHARE = 0.05  # of delta


def reason_not_to_cut(candidate: Candidate, request: Request) -> str:
    """Return why a candidate cannot be proven with its batches truncated, or nothing.

    Exact curves account for truncation. Elsewhere what it adds to delta must be less than delta.
    """
    design = candidate.design(request)
    if design.truncation is None or has_exact_curve(design):
        return ""
    cost = min(cost_of_cutting(design, request.epsilon), 1.0)
    if cost < request.delta:
        return ""
    return f"cutting batches at {request.max_batch_size:,} adds up to {cost:.2g} to delta, which is {request.delta:g}"


def size_that_suffices(candidate: Candidate, request: Request) -> int:
    """Return the smallest size at which truncation adds only a small share of delta.

    >>> request = Request(1000, 50, 60, 4.0, 1e-3, max_batch_size=60)
    >>> size_that_suffices(Candidate("min-sep", bands=8, min_sep=16), request)
    87
    """

    def suffices(size: int) -> bool:
        design = candidate.design(replace(request, max_batch_size=size))
        return cost_of_cutting(design, request.epsilon) <= _SMALL_SHARE * request.delta

    low, high = int(request.batch_size), request.num_examples
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
