"""The best mechanism by other workloads: how much a ranking depends on what the optimiser does."""

from collections.abc import Sequence
from dataclasses import dataclass

from minsep.planning.candidates import Candidate
from minsep.planning.planner import Plan
from minsep.planning.search import noise_of
from minsep.strategy import Workload

WORKLOADS = (
    Workload(),
    Workload(momentum=0.9),
    Workload(horizon=1000),
    Workload(horizon=100),
    Workload(horizon=10),
)


@dataclass(frozen=True)
class Ranking:
    """The best of a plan's candidates by one workload, and the plan's own mechanism beside it.

    Attributes:
        workload: The workload that the candidates are ranked by.
        best: The candidate with the lowest error.
        error: The error of the best candidate.
        plan_error: The error of the plan's mechanism at the noise that it was estimated to need, as the others' are.
    """

    workload: Workload
    best: Candidate
    error: float
    plan_error: float

    @property
    def sentence(self) -> str:
        """What the ranking says."""
        more = 100 * (self.plan_error / self.error - 1)
        beside = "the plan's mechanism is as good" if more < 1 else f"the plan's mechanism has {more:.0f} % more"
        return f"By {self.workload.name}, {self.best.name} has the lowest error, {self.error:.3g}; {beside}."


def rankings(plan: Plan, workloads: Sequence[Workload] = WORKLOADS) -> list[Ranking]:
    """Rank the candidates of a plan by several workloads.

    Args:
        plan: The plan. Its candidates are taken with the noise and the strategies that it found.
        workloads: The workloads to rank by.

    Returns:
        One ranking for each workload.

    Examples:
        >>> import minsep
        >>> plan = minsep.plan(2000, 100, 100, 2.0, 1e-3, max_bands=4, schemes=["poisson", "cyclic-poisson"], seed=0)
        >>> [ranking.best.bands for ranking in minsep.rankings(plan, [minsep.Workload(), minsep.Workload(horizon=1)])]
        [4, 1]
    """
    request = plan.request
    tried = {one: one.strategy(request) for one in plan.table if one.noise_multiplier is not None}
    found = []
    for workload in workloads:
        errors = {one: workload.error(strategy, noise_of(one)) for one, strategy in tried.items()}
        best = min(errors, key=lambda one: errors[one])
        own = workload.error(plan.mechanism.strategy, noise_of(plan.chosen))
        found.append(Ranking(workload, best, errors[best], own))
    return found
