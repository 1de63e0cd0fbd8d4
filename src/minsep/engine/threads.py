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
    results: dict[int, Result] = {}
    # One iterator for all: a future for each task would give the garbage collector more to do than the work.
    numbers = iter(range(len(tasks)))

    def run() -> None:
        for number in numbers:
            results[number] = work(tasks[number])

    with ThreadPoolExecutor(threads) as pool:
        for running in [pool.submit(run) for _ in range(threads)]:
            running.result()
    return [results[number] for number in range(len(tasks))]
