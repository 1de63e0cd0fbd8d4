"""Numbered chunks of work, done anywhere and collected in order.

A chunk is a pure function of its number, so results do not depend on who does the work or in which order it ends.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TypeVar

from minsep import _validation as validate
from minsep.engine.cores import available_cores

Result = TypeVar("Result")

# Chunks under way for each worker: enough to keep it busy, few enough for memory not to grow with their number.
_AHEAD = 4


def run_chunks(
    work: Callable[[int], Result], count: int, *, workers: int | None = None, executor: Executor | None = None
) -> Iterator[Result]:
    """Yield `work(0), ..., work(count - 1)` in order.

    By default they run in as many threads as the process has cores, which the compiled kernels use in parallel. Any
    executor serves (a process pool, a cluster's) if it can send `work` to its workers.

    >>> list(run_chunks(lambda chunk: chunk**2, 4, workers=2))
    [0, 1, 4, 9]
    """
    workers = available_cores() if workers is None else validate.integer(workers=workers, at_least=1)
    if executor is None and workers == 1:
        yield from map(work, range(count))
        return
    with ThreadPoolExecutor(workers) if executor is None else nullcontext(executor) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for chunk in range(count):
                waiting.append(pool.submit(work, chunk))
                if len(waiting) >= _AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
