"""Numbered chunks of work, computed anywhere and collected in order.

A chunk is a pure function of its number, so results depend neither on the executor nor on the order of completion.
"""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TypeVar

from minsep.core import validation as validate
from minsep.engine.cluster import ClusterPool, client_of, connected, options_of
from minsep.engine.cores import available_cores
from minsep.engine.tasks import ExecutorPool, run_tasks

Result = TypeVar("Result")

# Chunks in flight per worker: enough to keep it busy, few enough that memory does not grow with their number.
_CHUNKS_AHEAD_PER_WORKER = 4


def run_chunks(
    work: Callable[[int], Result],
    count: int,
    *,
    start: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    cluster: str | None = None,
) -> Generator[Result, None, None]:
    """Yield `work(start), ..., work(count - 1)` in order.

    By default they run in one thread per core, which the compiled kernels use in parallel. Any executor can be used, or
    a cluster by the address of its scheduler, if `work` can be pickled; they are sent several chunks at a time.

    >>> list(run_chunks(lambda chunk: chunk**2, 4, workers=2))
    [0, 1, 4, 9]
    """
    if cluster is not None:
        yield from run_tasks(work, start, count, ClusterPool(connected(cluster)))
        return
    workers = available_cores() if workers is None else validate.integer(workers=workers, at_least=1)
    if executor is None and workers == 1:
        yield from map(work, range(start, count))
        return
    if executor is not None and not isinstance(executor, ThreadPoolExecutor):
        client = client_of(executor)
        pool = ExecutorPool(executor, workers) if client is None else ClusterPool(client, options_of(executor))
        yield from run_tasks(work, start, count, pool)
        return
    with ThreadPoolExecutor(workers) if executor is None else nullcontext(executor) as threads:
        waiting: deque[Future[Result]] = deque()
        try:
            for chunk in range(start, count):
                waiting.append(threads.submit(work, chunk))
                if len(waiting) >= _CHUNKS_AHEAD_PER_WORKER * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
