"""Work in threads, for compiled code that runs without Python's global lock."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from minsep.engine.cores import available_cores

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_threads(work: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Return what `work` returns for each task, in order, with a thread for each core that this process may use.

    >>> in_threads(lambda number: number**2, [1, 2, 3])
    [1, 4, 9]
    """
    tasks = list(tasks)
    threads = min(available_cores(), len(tasks))
    if threads <= 1:
        return [work(task) for task in tasks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, tasks))
