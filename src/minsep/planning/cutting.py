"""What cutting large batches costs, and from which size on it costs next to nothing."""

from dataclasses import replace

from minsep.accounting import cost_of_cutting, has_exact_curve
from minsep.planning.candidates import Candidate
from minsep.planning.task import Task

_SMALL_SHARE = 0.05  # of delta


def reason_not_to_cut(candidate: Candidate, task: Task) -> str:
    """Return why a candidate cannot be proven with its batches cut, or nothing.

    Exact curves know of the cut; elsewhere what it adds to delta must be less than delta.
    """
    design = candidate.design(task)
    if design.truncation is None or has_exact_curve(design):
        return ""
    cost = min(cost_of_cutting(design, task.epsilon), 1.0)
    if cost < task.delta:
        return ""
    return f"cutting batches at {task.max_batch_size:,} adds up to {cost:.2g} to delta, which is {task.delta:g}"


def size_that_suffices(candidate: Candidate, task: Task) -> int:
    """Return the smallest cut at which what it adds to delta is a small share of it.

    >>> task = Task(1000, 50, 60, 4.0, 1e-3, max_batch_size=60)
    >>> size_that_suffices(Candidate("min-sep", bands=8, min_sep=16), task)
    87
    """

    def suffices(size: int) -> bool:
        design = candidate.design(replace(task, max_batch_size=size))
        return cost_of_cutting(design, task.epsilon) <= _SMALL_SHARE * task.delta

    low, high = int(task.batch_size), task.num_examples
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
