"""Plans for users with several examples: how many examples of a user to keep."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from minsep.attribution import AttributionGraph, Bounded, bound_contributions
from minsep.core import validation as validate
from minsep.core.progress import Listener, Progress
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.planning.planner import Plan, dated, make_plan
from minsep.planning.request import Request


@dataclass(frozen=True)
class UserPlan:
    """The plan for one bound on the examples of a user, and what that bound keeps.

    Attributes:
        user_bound: The most examples of a user that are kept.
        bounded: The examples that the bound keeps, and their graph.
        plan: The plan for the examples that are kept.
    """

    user_bound: int
    bounded: Bounded
    plan: Plan

    @property
    def examples_kept(self) -> int:
        """Number of examples that the bound keeps."""
        return self.bounded.graph.num_examples

    @property
    def error_per_example(self) -> float:
        """Error of the workload over the number of examples kept: noise against signal at a given number of epochs."""
        return self.plan.error / self.examples_kept


@dataclass(frozen=True)
class UserPlans:
    """Plans for several bounds on the examples of a user.

    Attributes:
        plans: The plans, in the order of the bounds.
    """

    plans: tuple[UserPlan, ...]

    @property
    def recommended(self) -> UserPlan:
        """The plan with the lowest error for each example kept."""
        return min(self.plans, key=lambda option: option.error_per_example)

    @property
    def statement(self) -> str:
        """The recommendation, in a sentence or two."""
        best = self.recommended
        quietest = min(self.plans, key=lambda option: option.plan.error)
        sentence = (
            f"Keep at most {best.user_bound} example{'s' if best.user_bound > 1 else ''} of a user: "
            f"{best.examples_kept:,} examples, and the lowest error for each of them."
        )
        if quietest is best:
            return sentence
        return (
            f"{sentence} A bound of {quietest.user_bound} has less error for a batch of the same size "
            f"({quietest.plan.error:.4g} instead of {best.plan.error:.4g}), from {quietest.examples_kept:,} examples."
        )


def plan_users(
    graph: AttributionGraph,
    batch_size: float,
    iterations: int,
    epsilon: float,
    delta: float,
    *,
    user_bounds: Sequence[int] = (1, 2, 4),
    duplicates: bool = False,
    seed: int | None = None,
    curve: bool | None = None,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
    **options: Any,
) -> UserPlans:
    """Plan a training run that protects users, for several bounds on how many examples of a user are kept.

    The number of examples of each plan is the number that its bound keeps. All plans have one seed and one journal.

    Args:
        graph: Which examples belong to which users. Its contributions are bounded by `bound_contributions`.
        batch_size: As for `plan`.
        iterations: As for `plan`.
        epsilon: As for `plan`.
        delta: As for `plan`.
        user_bounds: The bounds to plan for. With a bound of 1 the privacy of an example is the privacy of its users.
        duplicates: Whether an example may be kept more than once, as for `bound_contributions`.
        seed: As for `plan`.
        curve: As for `plan`.
        compute: As for `plan`.
        journal: As for `plan`.
        progress: As for `plan`.
        **options: Other parameters of `plan`, such as `max_bands`, `schemes` or `model_size`.

    Returns:
        One plan for each bound, and which of them is recommended.

    Examples:
        >>> import minsep
        >>> graph = minsep.AttributionGraph.from_lists([[k // 2, 1000 + k // 3] for k in range(2000)])
        >>> found = minsep.plan_users(
        ...     graph, 20, 20, epsilon=4.0, delta=1e-2, user_bounds=[1, 2], schemes=["poisson"], seed=0
        ... )
        >>> found.recommended.user_bound, found.recommended.examples_kept, found.recommended.plan.certificate.passed
        (2, 1334, True)
    """
    bounds = tuple(validate.integer(user_bounds=bound, at_least=1) for bound in user_bounds)
    if not bounds or len(set(bounds)) < len(bounds):
        raise ValueError(f"user_bounds is {user_bounds!r}, but it must be one or more different numbers.")
    bounded = {bound: bound_contributions(graph, bound, duplicates=duplicates) for bound in bounds}
    requests = {
        bound: Request(
            kept.graph.num_examples,
            batch_size,
            iterations,
            epsilon,
            delta,
            user_bound=bound,
            graph=kept.graph,
            attempts=len(bounds),
            **options,
        )
        for bound, kept in bounded.items()
    }

    def planned(bound: int, run: Call) -> UserPlan:
        def tell(event: Progress) -> None:
            if run.progress is not None:
                run.progress(replace(event, detail=f"user bound {bound}: {event.detail}"))

        found = make_plan(requests[bound], seed=run.seed, compute=run.compute, progress=tell, curve=curve)
        return UserPlan(bound, bounded[bound], dated(found, run.date))

    of_graph = {"graph": graph, "user_bounds": bounds, "duplicates": duplicates, "curve": curve}
    inputs = {**requests[bounds[0]].fields, **of_graph}
    with begin(journal, "plan_users", inputs, seed, compute, progress) as run:
        plans = UserPlans(tuple(planned(bound, run) for bound in bounds))
        return run.finish(plans, plans.statement)
