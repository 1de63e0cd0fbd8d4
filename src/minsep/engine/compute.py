"""Where samples are drawn, which never changes a result."""

from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from minsep.core import validation as validate
from minsep.engine.chunks import run_chunks
from minsep.engine.cluster import check_address

Result = TypeVar("Result")
State = TypeVar("State")
Value = TypeVar("Value")


def never(state: object) -> bool:
    """Say of no state that it is the last."""
    return False


@dataclass(frozen=True)
class Compute:
    """Where work is done: in threads of this process by default, in any executor, or on a cluster.

    A result is a function of its inputs and its seed, wherever it was computed.

    Args:
        workers: The number of threads; None is one per core. With an executor that does not say how many workers it
            has, it is their number.
        executor: A `concurrent.futures.Executor` to use instead, such as a process pool.
        cluster: The address of a Dask scheduler to use instead, such as "tcp://127.0.0.1:8786": docs/scaling.md. This
            process connects when it first needs it and stays connected. It needs the extra `cluster`.

    Examples:
        >>> list(Compute(workers=2).run(lambda chunk: chunk**2, 4))
        [0, 1, 4, 9]
        >>> Compute(cluster="tcp://127.0.0.1:8786")  # connects when it is first used
        Compute(workers=None, executor=None, cluster='tcp://127.0.0.1:8786')
    """

    workers: int | None = None
    executor: Executor | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            validate.integer(workers=self.workers, at_least=1)
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise ValueError(f"executor is {self.executor!r}, but it must be a concurrent.futures.Executor.")
        if self.cluster is not None:
            check_address(self.cluster)
            for name, value in (("workers", self.workers), ("executor", self.executor)):
                if value is not None:
                    raise ValueError(
                        f"{name} is {value!r}, but cluster is {self.cluster!r} and has its own workers: omit one."
                    )

    def run(self, work: Callable[[int], Result], count: int, start: int = 0) -> Generator[Result, None, None]:
        """Yield `work(start), ..., work(count - 1)` in order.

        Args:
            work: Computes a chunk from its number.
            count: The number after that of the last chunk.
            start: The number of the first chunk.
        """
        return run_chunks(work, count, start=start, workers=self.workers, executor=self.executor, cluster=self.cluster)

    @property
    def local(self) -> "Compute":
        """Threads of this process: for work that takes less time than sending what it works on."""
        return self if self.executor is None and self.cluster is None else LOCAL

    def fold(
        self,
        work: Callable[[int], Result],
        count: int,
        state: State,
        step: Callable[[State, Result], State],
        finished: Callable[[State], bool] = never,
        name: str = "",
    ) -> State:
        """Return the state after `step(state, work(0))`, `step(state, work(1))`, ..., in order.

        It ends after `count` chunks, or as soon as a state is `finished`. With a journal, states are written
        down, and a fold continues from where it was.

        Args:
            work: Computes a chunk from its number.
            count: The number of chunks, at most.
            state: The first state: a number, or a small frozen dataclass of numbers, text and arrays.
            step: Returns the next state from a state and the result of a chunk.
            finished: Says whether a state ends the fold.
            name: What the fold computes, in words for people.

        Examples:
            >>> Compute().fold(lambda chunk: chunk, 10, 0, lambda total, chunk: total + chunk)
            45
        """
        with closing(self.run(work, count)) as results:
            for result in results:
                state = step(state, result)
                if finished(state):
                    break
        return state

    def remember(
        self,
        make: "Callable[[Compute], Value]",
        pack: Callable[[Value], Any],
        unpack: Callable[[Any], Value],
        name: str = "",
    ) -> Value:
        """Return `make(self)`, whose value is worth being written down if there is a journal.

        Args:
            make: Computes the value, as a function of its arguments.
            pack: Makes plain data of the value.
            unpack: Makes the value of plain data.
            name: What the value is, in words for people.

        Examples:
            >>> Compute().remember(lambda compute: 7, str, int)
            7
        """
        return make(self)

    def note(self, sentence: str) -> None:
        """Write down a decision, if there is a journal.

        Args:
            sentence: The decision, as a sentence for people.

        Examples:
            >>> Compute().note("noise multiplier 0.85 passed")
        """


LOCAL = Compute()
"""As many threads as there are cores."""
