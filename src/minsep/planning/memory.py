"""What memory for past noise buys: the candidates of a plan that no other beats in memory, draws and error together."""

from dataclasses import dataclass

from minsep.planning.candidates import Candidate
from minsep.planning.margin import RELATIVE_ERROR_OF_A_TIE
from minsep.planning.planner import Plan
from minsep.planning.search import error_of


@dataclass(frozen=True)
class MemoryPoint:
    """One mechanism on the frontier of error against the memory of noise.

    Attributes:
        candidate: The mechanism, with its error as it was estimated.
        noise_bytes: The bytes of past noise that a run keeps.
        drawn_rows: The rows of normals that a run draws in each step: more than one where rows are drawn again.
        fits: Whether it fits into the memory that was requested.
    """

    candidate: Candidate
    noise_bytes: int
    drawn_rows: int
    fits: bool

    @property
    def cost(self) -> tuple[int, int, float]:
        """Memory, draws and error: less is better in each."""
        return self.noise_bytes, self.drawn_rows, error_of(self.candidate)


def memory_frontier(plan: Plan) -> list[MemoryPoint]:
    """Return the candidates of a plan that no other beats in memory, draws and error, those with least memory first.

    Errors within 1 % of each other count as equal, which is about what the estimates resolve. Candidates that need more
    memory than was requested are among them, so that it shows what more memory would buy.

    Args:
        plan: A plan for a model whose size is known; there is nothing to return for another.

    Examples:
        >>> import minsep
        >>> found = minsep.plan(
        ...     2000, 100, 100, 2.0, 1e-3, max_bands=4, model_size=10**6, noise_memory=10**6, estimate=True, tune=False
        ... )
        >>> [(point.candidate.name, point.noise_bytes, point.drawn_rows) for point in memory_frontier(found)][-1]
        ('b-min-sep, b = 8, 4 bands', 12000000, 1)
        >>> found.chosen.noise_bytes
        0
    """
    request = plan.request
    if request.model_size is None:
        return []
    points = []
    for one in (*plan.table, *plan.beyond):
        if one.error is not None:
            memory = one.noise_bytes * request.model_size
            points.append(MemoryPoint(one, memory, one.drawn_rows, memory <= request.noise_memory))
    found: list[MemoryPoint] = []
    for point in sorted(points, key=lambda point: point.cost):
        if point.candidate == plan.chosen or not any(_beats(other, point) for other in found):
            found.append(point)
    return found


def _beats(one: MemoryPoint, other: MemoryPoint) -> bool:
    """Return whether one is no worse than another, but for an error that estimates cannot tell from it."""
    lean = one.noise_bytes <= other.noise_bytes and one.drawn_rows <= other.drawn_rows
    return lean and error_of(one.candidate) <= RELATIVE_ERROR_OF_A_TIE * error_of(other.candidate)
