"""Plans for a compute budget: how large batches should be, if the number of gradients is given."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minsep.core import validation as validate
from minsep.core.progress import Listener, Progress
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.planning.candidates import Candidate, candidates
from minsep.planning.planner import Plan, dated, make_plan
from minsep.planning.request import Request
from minsep.planning.search import Search, error_of

SIZES = 8
_FEWEST_BATCHES, _MOST_BATCHES = 7, 300  # of an epoch
_BANDS = (1, 4, 16, 64, 256, 1024)
_MOST_SAMPLED_ITERATIONS = 20_000  # where estimates of several batch sizes would take minutes
_NEARLY = 1.1  # times the lowest error, at which smaller batches are preferred: they give more steps
_MATTERS = 0.05  # share of DP-SGD's error that correlated noise must save to matter


@dataclass(frozen=True)
class BatchSizePoint:
    """One batch size of a frontier: its best mechanism by estimates, and DP-SGD's error beside it.

    Attributes:
        batch_size: The expected batch size.
        iterations: The number of iterations, which follows from the number of epochs.
        best: The mechanism with the lowest error, by estimates.
        dp_sgd: DP-SGD with Poisson sampling. None if it was not tried.
    """

    batch_size: int
    iterations: int
    best: Candidate
    dp_sgd: Candidate | None

    @property
    def error(self) -> float:
        """Root mean squared error of the workload for clip norm 1. For one number of epochs these compare."""
        return error_of(self.best)

    @property
    def saved(self) -> float | None:
        """The share of DP-SGD's error that the best mechanism saves. None if DP-SGD was not tried."""
        return None if self.dp_sgd is None else 1 - self.error / error_of(self.dp_sgd)


@dataclass(frozen=True)
class Frontier:
    """What several batch sizes give for one number of epochs, and the plan for one of them.

    Attributes:
        epochs: How often each example takes part on average.
        num_examples: The number of examples.
        points: The batch sizes that were tried, from small to large.
        chosen: The point that was planned for.
        plan: The plan for the chosen batch size.

    Examples:
        >>> found = plan_epochs(2000, 4, epsilon=4.0, delta=1e-4, batch_sizes=[200], estimate=True, max_bands=4)
        >>> found.chosen.iterations, found.chosen == found.points[0]
        (40, True)
    """

    epochs: float
    num_examples: int
    points: tuple[BatchSizePoint, ...]
    chosen: BatchSizePoint
    plan: Plan

    def noise_to_signal(self, point: BatchSizePoint) -> float:
        """Return the error of a point per gradient: the noise in the weights if learning rates grow with batches.

        Args:
            point: The point.
        """
        return point.error / (self.epochs * self.num_examples)

    @property
    def statement(self) -> str:
        """What to choose, and where correlated noise matters."""
        lowest = min(self.points, key=lambda point: point.error)
        sentence = (
            f"For {self.epochs:g} epochs, batches of {lowest.batch_size:,} have the lowest error by estimates "
            f"({lowest.error:.4g})"
        )
        if self.chosen == lowest:
            chosen = f"{sentence}, and were chosen."
        else:
            chosen = (
                f"{sentence}. Batches of {self.chosen.batch_size:,} were chosen: they are within "
                f"{100 * (_NEARLY - 1):.0f} % of it, and give {self.chosen.iterations:,} steps instead of "
                f"{lowest.iterations:,}."
            )
        return f"{chosen} {self._where_it_matters}".rstrip()

    @property
    def _where_it_matters(self) -> str:
        compared = [point for point in self.points if point.saved is not None]
        if not compared:
            return ""
        matters = [point for point in compared if (point.saved or 0.0) >= _MATTERS]
        if not matters:
            return "Correlated noise does not matter at any of these batch sizes: DP-SGD is as good."
        first, last = compared[0], compared[-1]
        small = f"Correlated noise saves {_percent(first.saved)} of DP-SGD's error at {first.batch_size:,}"
        largest = max(matters, key=lambda point: point.batch_size)
        large = (
            f" and {_percent(last.saved)} at {last.batch_size:,}."
            if largest == last
            else f", and less than {_percent(_MATTERS)} above {largest.batch_size:,}."
        )
        return f"{small}{large} {self._at_the_best_sizes(compared)}"

    def _at_the_best_sizes(self, compared: list[BatchSizePoint]) -> str:
        lowest = min(compared, key=lambda point: point.error)
        of_dp_sgd = {error_of(point.dp_sgd): point for point in compared if point.dp_sgd is not None}
        error = min(of_dp_sgd)
        saved = 1 - lowest.error / error
        return (
            f"If each uses its best batch size, it saves {_percent(saved)}: {lowest.error:.4g} at "
            f"{lowest.batch_size:,} instead of {error:.4g} at {of_dp_sgd[error].batch_size:,}."
        )


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.0f} %"


def plan_epochs(
    num_examples: int,
    epochs: float,
    epsilon: float,
    delta: float,
    *,
    batch_sizes: Sequence[int] | None = None,
    seed: int | None = None,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
    curve: bool | None = None,
    **options: Any,
) -> Frontier:
    """Find how large batches should be for a number of epochs, and plan for the best batch size.

    - The number of gradients is given, so a larger batch means fewer iterations. If learning rates grow with batches,
      the noise in the final weights is the error of prefix sums divided by the number of gradients.
    - Each batch size gets quick estimates. The chosen one is the smallest whose error is within 10 % of the lowest,
      because more steps help the optimiser. It is planned for and certified like any other.
    - Predicted errors say nothing of how well an optimiser uses few steps with large batches.

    Args:
        num_examples: The number of examples.
        epochs: How often each example takes part on average.
        epsilon: As for `minsep.plan`.
        delta: As for `minsep.plan`.
        batch_sizes: The batch sizes to compare. By default eight are, from a 300th to a 7th of the examples.
        seed: As for `minsep.plan`.
        compute: As for `minsep.plan`.
        journal: As for `minsep.plan`.
        progress: As for `minsep.plan`.
        curve: As for `minsep.plan`.
        **options: Other parameters of `minsep.plan`, such as `estimate`, `model_size` or `schemes`.

    Returns:
        The points of all batch sizes, and the plan for the chosen one.

    Examples:
        >>> import minsep
        >>> found = minsep.plan_epochs(2000, 4, epsilon=4.0, delta=1e-4, batch_sizes=[50, 200], estimate=True, max_bands=4)
        >>> [(point.batch_size, point.iterations) for point in found.points]
        [(50, 160), (200, 40)]
        >>> found.plan.request.batch_size == found.chosen.batch_size
        True
    """  # noqa: E501
    epochs = validate.real(epochs=epochs, above=0)
    num_examples = validate.integer(num_examples=num_examples, at_least=1)
    sizes = usual_batch_sizes(num_examples) if batch_sizes is None else _checked(batch_sizes, num_examples)
    requests = [
        Request(num_examples, size, iterations_of(epochs, num_examples, size), epsilon, delta, **options)
        for size in sizes
    ]
    asked = {"num_examples": num_examples, "epochs": epochs, "batch_sizes": list(sizes), "curve": curve}
    inputs = {**requests[0].fields, **asked}
    with begin(journal, "plan_epochs", inputs, seed, compute, progress) as run:
        points = tuple(point for request in requests if (point := _point(request, run)) is not None)
        if not points:
            raise ValueError(f"batch_sizes is {list(sizes)}, but no mechanism is known for any of them.")
        lowest = min(point.error for point in points)
        chosen = next(point for point in points if point.error <= _NEARLY * lowest)
        request = next(one for one in requests if one.batch_size == chosen.batch_size)
        made = make_plan(request, seed=run.seed, compute=run.compute, progress=run.progress, curve=curve)
        found = Frontier(epochs, num_examples, points, chosen, dated(made, run.date))
        return run.finish(found, found.statement)


def iterations_of(epochs: float, num_examples: int, batch_size: float) -> int:
    """Return the number of iterations in which each example takes part so often on average.

    Args:
        epochs: How often.
        num_examples: The number of examples.
        batch_size: The expected batch size.

    >>> iterations_of(10, 60_000, 512)
    1172
    """
    return max(round(epochs * num_examples / batch_size), 1)


def usual_batch_sizes(num_examples: int) -> tuple[int, ...]:
    """Return eight batch sizes, from a 300th to a 7th of the examples.

    Args:
        num_examples: The number of examples.

    >>> usual_batch_sizes(60_000)
    (200, 342, 585, 1001, 1712, 2929, 5011, 8571)
    """
    low, high = max(num_examples / _MOST_BATCHES, 1.0), max(num_examples / _FEWEST_BATCHES, 1.0)
    return tuple(sorted({round(size) for size in np.geomspace(low, high, SIZES).tolist()}))


def _checked(batch_sizes: Sequence[int], num_examples: int) -> tuple[int, ...]:
    sizes = [validate.integer(batch_sizes=size, at_least=1, at_most=num_examples) for size in batch_sizes]
    if not sizes:
        raise ValueError("batch_sizes is empty: give at least one, or leave it out.")
    return tuple(sorted(set(sizes)))


def _point(request: Request, run: Call) -> BatchSizePoint | None:
    """Return the best mechanism of a batch size by quick estimates, with fewer bands than a plan tries."""
    size, iterations = int(request.batch_size), request.iterations

    def tell(event: Progress) -> None:
        if run.progress is not None:
            run.progress(replace(event, detail=f"batches of {size:,}: {event.detail}"))

    if request.tuned is not None:
        request = request.at(request.tuned.of_one.epsilon)
    search = Search(request, run.seed, run.compute, tell)
    listed = [one for one in candidates(request) if not one.skipped and one.is_banded and one.bands in _BANDS]
    if iterations > _MOST_SAMPLED_ITERATIONS:
        listed = [one for one in listed if search.is_exact(one)]
    tried = sorted((one for one in search.estimate_all(listed) if not one.skipped), key=error_of)
    if not tried:
        return None
    dp_sgd = next((one for one in tried if one.scheme == "poisson" and one.bands == 1), None)
    return BatchSizePoint(size, iterations, tried[0], dp_sgd)
