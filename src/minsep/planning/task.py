"""What a person knows: the size of the data, the batches, the run and the budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from minsep.attribution import AttributionGraph
from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.participation import Truncation
from minsep.strategy import Workload


@dataclass(frozen=True)
class Task:
    """The numbers of a training run. All problems are reported together.

    - `num_examples` is the size of the dataset, `batch_size` the expected number of examples in a batch and
      `iterations` the number of steps.
    - `epsilon` and `delta` are the budget.
    - `max_batch_size`, if given, cuts larger batches.
    - `user_bound` is the most examples of one user, whose privacy is planned for.
    - `graph`, if given, says who the users of each example are.
    - `workload` is what the optimiser makes of the noise: the error that is to be small.

    >>> Task(num_examples=60_000, batch_size=512, iterations=2000, epsilon=4.0, delta=1e-5).longest_separation
    117
    >>> Task(num_examples=100, batch_size=200, iterations=0, epsilon=4.0, delta=1e-5)
    Traceback (most recent call last):
    ValueError: batch_size is 200, but it must be a finite number above 0 and at most 100.
    iterations is 0, but it must be an integer of at least 1.
    """

    num_examples: int
    batch_size: float
    iterations: int
    epsilon: float
    delta: float
    max_batch_size: int | None = None
    user_bound: int = 1
    graph: AttributionGraph | None = field(default=None, repr=False, compare=False)
    workload: Workload = field(default_factory=Workload)

    def __post_init__(self) -> None:
        examples = self.num_examples
        known = isinstance(examples, int) and examples >= 1
        checks: list[Callable[[], object]] = [
            lambda: validate.integer(num_examples=examples, at_least=1),
            lambda: validate.real(batch_size=self.batch_size, above=0, at_most=examples if known else None),
            lambda: validate.integer(iterations=self.iterations, at_least=1),
            lambda: validate.real(epsilon=self.epsilon, above=0),
            lambda: validate.real(delta=self.delta, above=0, below=1),
            lambda: validate.integer(user_bound=self.user_bound, at_least=1),
        ]
        if self.max_batch_size is not None:
            least = math.ceil(self.batch_size) if self.batch_size > 0 else 1
            checks.append(lambda: validate.integer(max_batch_size=self.max_batch_size, at_least=least))
        if self.graph is not None:
            checks.append(self._check_graph)
        checks.append(self._check_workload)
        validate.all_of(*checks)

    def _check_graph(self) -> None:
        if not isinstance(self.graph, AttributionGraph):
            raise ValueError(f"graph is {self.graph!r}, but it must be an AttributionGraph such as from_lists gives.")
        if self.num_examples != self.graph.num_examples:
            raise ValueError(
                f"num_examples is {self.num_examples!r}, but the graph has {self.graph.num_examples:,} examples."
            )
        self.graph.check_user_bound(self.user_bound)

    def _check_workload(self) -> None:
        if not isinstance(self.workload, Workload):
            raise ValueError(f"workload is {self.workload!r}, but it must be a minsep.Workload.")
        most = self.workload.most_iterations
        if most is not None:
            validate.integer(iterations=self.iterations, at_most=most)

    @property
    def protected(self) -> str:
        """Whose privacy is planned for, in words: nothing where it is that of examples."""
        if self.user_bound == 1:
            return "" if self.graph is None else " for users with one example each"
        return f" for users with at most {self.user_bound} examples each"

    @property
    def rate(self) -> float:
        """Expected fraction of iterations that an example takes part in."""
        return self.batch_size / self.num_examples

    @property
    def longest_separation(self) -> int:
        """Number of batches in an epoch: no example can stay away for longer."""
        return int(self.num_examples / self.batch_size + 1e-9)

    @property
    def epoch(self) -> int:
        """Number of batches in an epoch, to the nearest."""
        return max(round(self.num_examples / self.batch_size), 1)

    @property
    def truncation(self) -> Truncation | None:
        """The cut of large batches, if there is one."""
        return None if self.max_batch_size is None else Truncation(self.max_batch_size, self.num_examples)

    @property
    def budget(self) -> Budget:
        """What is promised."""
        return Budget(self.epsilon, self.delta)
