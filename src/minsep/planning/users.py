"""Plans for users with several examples: how many examples of a user to keep."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from minsep.attribution import AttributionGraph, Bounded, bound_contributions
from minsep.core import validation as validate
from minsep.core.progress import Listener, Progress
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.planning.planner import DEFAULT_NOISE_MEMORY, SCHEMES, Plan, dated, plan
from minsep.strategy import Workload

_PREFIX_SUMS = Workload()


@dataclass(frozen=True)
class UserPlan:
    """The plan for one bound on the examples of a user, and what that bound keeps."""

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

    - `plans` are in the order of the bounds.
    - `recommended` is the one of least error for each example kept.
    """

    plans: tuple[UserPlan, ...]

    @property
    def recommended(self) -> UserPlan:
        """The plan of least error for each example kept."""
        return min(self.plans, key=lambda option: option.error_per_example)

    @property
    def statement(self) -> str:
        """The recommendation, in a sentence or two."""
        best = self.recommended
        quietest = min(self.plans, key=lambda option: option.plan.error)
        sentence = (
            f"Keep at most {best.user_bound} example{'s' if best.user_bound > 1 else ''} of a user: "
            f"{best.examples_kept:,} examples, and the least error for each of them."
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
    max_bands: int = 64,
    min_sep: int | None = None,
    schemes: Iterable[str] = SCHEMES,
    workload: Workload = _PREFIX_SUMS,
    model_size: int | None = None,
    noise_memory: int = DEFAULT_NOISE_MEMORY,
    tune: bool = True,
    estimate: bool = False,
    seed: int | None = None,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> UserPlans:
    """Plan a training run that protects users, for several bounds on how many examples of a user are kept.

    - `graph` says which examples belong to which users. Its contributions are bounded by `bound_contributions`, with
      `duplicates` if they may be kept more than once.
    - `batch_size`, `iterations`, `epsilon` and `delta` are those of `plan`; the number of examples is what is kept.
    - `user_bounds` are the bounds to plan for. With a bound of 1 the privacy of an example is that of its users.
    - `max_bands`, `min_sep`, `schemes`, `workload`, `model_size`, `noise_memory`, `tune`, `estimate`, `seed`,
      `compute`, `journal` and `progress` are those of `plan`; all plans have one seed and one journal.

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
    schemes = tuple(schemes)

    def planned(bound: int, run: Call) -> UserPlan:
        bounded = bound_contributions(graph, bound, duplicates=duplicates)

        def tell(event: Progress) -> None:
            if run.progress is not None:
                run.progress(replace(event, detail=f"user bound {bound}: {event.detail}"))

        found = plan(
            bounded.graph.num_examples,
            batch_size,
            iterations,
            epsilon,
            delta,
            max_bands=max_bands,
            min_sep=min_sep,
            schemes=schemes,
            user_bound=bound,
            graph=bounded.graph,
            workload=workload,
            model_size=model_size,
            noise_memory=noise_memory,
            tune=tune,
            estimate=estimate,
            attempts=len(bounds),
            seed=run.seed,
            compute=run.compute,
            progress=tell,
        )
        return UserPlan(bound, bounded, dated(found, run.date))

    inputs = {
        "graph": graph,
        "batch_size": batch_size,
        "iterations": iterations,
        "epsilon": epsilon,
        "delta": delta,
        "user_bounds": bounds,
        "duplicates": duplicates,
        "max_bands": max_bands,
        "min_sep": min_sep,
        "schemes": schemes,
        "workload": workload,
        "model_size": model_size,
        "noise_memory": noise_memory,
        "tune": tune,
        "estimate": estimate,
    }
    with begin(journal, "plan_users", inputs, seed, compute, progress) as run:
        plans = UserPlans(tuple(planned(bound, run) for bound in bounds))
        return run.finish(plans, plans.statement)
