"""Chunks in tasks, on workers that may come and go, collected in order."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, wait
from typing import Any, NamedTuple, TypeVar

from minsep.engine.grouping import Grouping
from minsep.engine.parcels import Answer, Missing, OtherVersions, Parcel, run_task, unpacked, versions_here

Result = TypeVar("Result")

_LOOK_SECONDS = 1.0  # how often to look whether there are more workers


class Pool(ABC):
    """Workers that tasks are sent to."""

    @abstractmethod
    def cores(self) -> int:
        """Return how many tasks can run at once now: at least 1."""

    @abstractmethod
    def submit(self, function: Callable[..., Answer], *arguments: Any) -> "Future[Answer]":
        """Send a task."""

    def repeat_or_raise(self, error: BaseException, times: int) -> None:
        """Raise the error of a task that was repeated some times, unless it should be repeated once more."""
        raise error


class ExecutorPool(Pool):
    """The workers of an executor, whose number is what the executor says, or what the caller said."""

    def __init__(self, executor: Executor, workers: int) -> None:
        self._executor = executor
        self._workers = workers

    def cores(self) -> int:
        """Return how many tasks can run at once now."""
        for name in ("_max_workers", "max_workers"):
            found = getattr(self._executor, name, None)
            if isinstance(found, int) and found > 0:
                return found
        return self._workers

    def submit(self, function: Callable[..., Answer], *arguments: Any) -> "Future[Answer]":
        """Send a task."""
        return self._executor.submit(function, *arguments)


class _Task(NamedTuple):
    first: int
    last: int
    future: "Future[Answer]"
    repeated: int = 0


def run_tasks(work: Callable[[int], Result], start: int, count: int, pool: Pool) -> Iterator[Result]:
    """Yield `work(start), ..., work(count - 1)` in order."""
    parcel, grouping = Parcel.of(work), Grouping()
    waiting: deque[_Task] = deque()
    unsent, first = pool.cores(), start

    def send(first: int, last: int, with_content: bool, repeated: int = 0) -> _Task:
        content = parcel.content if with_content else None
        return _Task(first, last, pool.submit(run_task, versions_here(), parcel.digest, content, first, last), repeated)

    try:
        while waiting or first < count:
            cores = pool.cores()
            while first < count and len(waiting) < grouping.tasks(cores):
                under_way = first - waiting[0].first if waiting else 0
                last = first + grouping.chunks(cores, under_way, count - first)
                waiting.append(send(first, last, parcel.is_small or unsent > 0))
                unsent, first = unsent - 1, last
            if not parcel.is_small:
                # Workers that do not have it get it now, and not when their turn comes.
                for place, task in enumerate(waiting):
                    if _is_missing(task):
                        waiting[place] = send(task.first, task.last, True, task.repeated)
            oldest = waiting[0]
            if not wait([oldest.future], _LOOK_SECONDS).done:
                continue
            try:
                answer = oldest.future.result()
            except BaseException as error:
                pool.repeat_or_raise(error, oldest.repeated)
                waiting[0] = send(oldest.first, oldest.last, True, oldest.repeated + 1)
                continue
            if isinstance(answer, Missing):
                waiting[0] = send(oldest.first, oldest.last, True, oldest.repeated)
                continue
            if isinstance(answer, OtherVersions):
                raise _refuse(answer)
            waiting.popleft()
            grouping.collect(oldest.last - oldest.first, answer.seconds)
            yield from unpacked(answer.results)
    finally:
        for task in waiting:
            task.future.cancel()


def _is_missing(task: _Task) -> bool:
    future = task.future
    return future.done() and not future.cancelled() and not future.exception() and isinstance(future.result(), Missing)


def _refuse(answer: OtherVersions) -> ValueError:
    here = versions_here()
    different = [package for package in here if here[package] != answer.versions.get(package)]
    theirs = ", ".join(f"{package} {answer.versions.get(package, 'of no version')}" for package in different)
    ours = ", ".join(f"{package} {here[package]}" for package in different)
    return ValueError(f"A worker has {theirs}, but this process has {ours}: install the same on all workers.")
