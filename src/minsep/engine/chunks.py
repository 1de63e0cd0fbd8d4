"""Numbered chunks of work, computed anywhere and collected in order.

A chunk is a pure function of its number, so results depend neither on the executor nor on the order of completion.
"""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TypeVar

from minsep import _validation as validate
from minsep.engine.cores import available_cores

Result = TypeVar("Result")

# Chunks in flight per worker: enough to keep it busy, few enough that memory does not grow with their number.
_AHEAD = 4


def run_chunks(
    work: Callable[[int], Result],
    count: int,
    *,
    start: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Generator[Result, None, None]:
    """Yield `work(start), ..., work(count - 1)` in order.

    By default they run in one thread per core, which the compiled kernels use in parallel. Any executor can be used (a
    process pool, a cluster) if it can send `work` to its workers.

    >>> list(run_chunks(lambda chunk: chunk**2, 4, workers=2))
    [0, 1, 4, 9]
    """
    workers = available_cores() if workers is None else validate.integer(workers=workers, at_least=1)
    if executor is None and workers == 1:
        yield from map(work, range(start, count))
        return
    with ThreadPoolExecutor(workers) if executor is None else nullcontext(executor) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for chunk in range(start, count):
                waiting.append(pool.submit(work, chunk))
                if len(waiting) >= _AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
