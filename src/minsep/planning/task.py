"""What a person knows: the size of the data, the batches, the run and the budget."""

import math
from dataclasses import dataclass

from minsep import _validation as validate
from minsep.budget import Budget
from minsep.participation import Truncation


@dataclass(frozen=True)
class Task:
    """The numbers of a training run. All problems are reported together.

    - `num_examples` is the size of the dataset, `batch_size` the expected number of examples in a batch and
      `iterations` the number of steps.
    - `epsilon` and `delta` are the budget.
    - `max_batch_size`, if given, cuts larger batches.
    - `user_bound` is the most examples of one user, whose privacy is planned for.

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

    def __post_init__(self) -> None:
        examples = self.num_examples
        known = isinstance(examples, int) and examples >= 1
        checks = [
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
        validate.all_of(*checks)

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
