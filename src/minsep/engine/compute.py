"""Where samples are drawn, which never changes a result."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from minsep import _validation as validate
from minsep.engine.chunks import run_chunks

Result = TypeVar("Result")


@dataclass(frozen=True)
class Compute:
    """Where work is done: in threads of this process by default, or in any executor.

    - `workers` is the number of threads; None is one per core.
    - `executor` is a `concurrent.futures.Executor` to use instead, such as a process pool or that of a cluster.

    A result is a function of its inputs and its seed, wherever it was computed.

    >>> list(Compute(workers=2).run(lambda chunk: chunk**2, 4))
    [0, 1, 4, 9]
    """

    workers: int | None = None
    executor: Executor | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            validate.integer(workers=self.workers, at_least=1)
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise ValueError(f"executor is {self.executor!r}, but it must be a concurrent.futures.Executor.")

    def run(self, work: Callable[[int], Result], count: int) -> Iterator[Result]:
        """Yield `work(0), ..., work(count - 1)` in order."""
        return run_chunks(work, count, workers=self.workers, executor=self.executor)


LOCAL = Compute()
"""As many threads as there are cores."""
