"""What a cluster costs and gives: `python -m benchmarks.scaling`, some minutes. `--figure PATH` also draws it.

Measured on local workers: the overhead of tasks, what the scheduler and the process that collects spend on them, and
threads beside processes. From these costs, a simulation by events says what 10 to 10,000 workers would do. It runs the
rule by which minsep really groups chunks into tasks.
"""

import heapq
import os
import random
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

import minsep
from benchmarks import scaling  # by this name, workers find what is sent to them
from minsep.accounting.certification.draws import _chunk
from minsep.accounting.importance import PlainLaw, TiltedLaw
from minsep.accounting.schemes import pair_of
from minsep.accounting.sequential import Wealth
from minsep.engine import Compute
from minsep.engine.cluster import ClusterPool, _forget, connected
from minsep.engine.grouping import Grouping
from minsep.engine.parcels import Done, Parcel, run_task, unpacked, versions_here
from minsep.randomness import Key

EPSILON, LEVEL = 10.0, 1.301e-8
SECONDS = 4.0  # of each measurement
TASKS = 500
CHUNKS = 200
WORKERS = (10, 100, 1_000, 10_000)
LATENCY = 0.002  # seconds between two machines and back
SPREAD = 0.2  # of the time of a task, for workers that are not alike


def mechanism() -> minsep.Mechanism:
    """The production mechanism of the b-min-sep paper."""
    strategy = minsep.BandedToeplitz.optimal(iterations=7200, bands=256)
    return minsep.Mechanism(strategy, minsep.MinSep(1793 / 14_745_600, 256), 0.4458)


def nap(seconds: float, chunk: int) -> int:
    time.sleep(seconds)
    return chunk


@contextmanager
def cluster(workers: int, threads: int = 1) -> Iterator[tuple[str, list[int]]]:
    """Start a scheduler and workers in processes of their own; yield its address and all processes, its own first."""
    from distributed.deploy.subprocess import SubprocessCluster

    with SubprocessCluster(n_workers=workers, threads_per_worker=threads, worker_kwargs={"memory_limit": 0}) as started:
        address = started.scheduler_address
        while len(found := connected(address).run(os.getpid)) < workers:
            time.sleep(0.1)
        try:
            yield address, [started.scheduler.process.pid, *found.values()]
        finally:
            _forget(address)


def rate(work: partial, compute: Compute, chunk_seconds: float) -> float:
    """Return chunks a second, once workers have compiled and made their tables."""
    list(compute.run(work, 16))
    count = max(int(SECONDS / chunk_seconds), 16)
    start = time.perf_counter()
    for _ in compute.run(work, count):
        pass
    return count / (time.perf_counter() - start)


def processor_seconds(work: partial, compute: Compute, processes: list[int], count: int) -> float:
    """Return the processor time of a chunk in this process and others, once workers have made their tables."""
    import psutil

    others = [psutil.Process(process) for process in processes]
    list(compute.run(work, 16))
    start = _processor_time(others)
    for _ in compute.run(work, count):
        pass
    return (_processor_time(others) - start) / count


def _processor_time(others: list) -> float:
    return time.process_time() + sum(sum(process.cpu_times()[:2]) for process in others)


@dataclass(frozen=True)
class Costs:
    """Seconds that the scheduler spends on a task, and the collecting process on a task and on a chunk of a test."""

    scheduler: float
    client: float
    fold: float


def costs(address: str, scheduler: int, values: np.ndarray) -> Costs:
    """Measure them as processor time, on tasks that do nothing."""
    import psutil

    pool, parcel = ClusterPool(connected(address)), Parcel.of(partial(scaling.nap, 0.0))
    process = psutil.Process(scheduler)

    def run(tasks: int) -> None:
        waiting: deque = deque()
        for chunk in range(tasks):
            waiting.append(pool.submit(run_task, versions_here(), parcel.digest, parcel.content, chunk, chunk + 1))
            if len(waiting) > 8:
                waiting.popleft().result()
        for future in waiting:
            future.result()

    run(100)
    theirs, ours = sum(process.cpu_times()[:2]), time.process_time()
    run(TASKS)
    theirs, ours = sum(process.cpu_times()[:2]) - theirs, time.process_time() - ours
    answer = run_task(versions_here(), *_values_parcel(values), 0, 100)
    assert isinstance(answer, Done)
    start = time.process_time()
    for _ in range(20):
        wealth = Wealth.start(LEVEL, 1.2e-5)
        for found in unpacked(answer.results):
            wealth = wealth.after(found)
            wealth.log_wealth  # noqa: B018
    return Costs(theirs / TASKS, ours / TASKS, (time.process_time() - start) / 2000)


def _values_parcel(values: np.ndarray) -> tuple[str, bytes]:
    parcel = Parcel.of(partial(scaling._constant, values))
    return parcel.digest, parcel.content


def _constant(values: np.ndarray, chunk: int) -> np.ndarray:
    return values


def simulate(workers: int, chunk: float, work: float, costs: Costs, ahead: int | None = None) -> tuple[float, float]:
    """Return the share of the workers' time that is spent on `work` core-seconds of chunks, and the seconds it takes.

    The scheduler and the collecting process do one thing after the other. Chunks are collected in order. `ahead` is the
    number of single chunks under way, instead of tasks as minsep groups them.
    """
    chance = random.Random(0)
    count = max(int(work / chunk), 1)
    grouping, under_way = Grouping(), deque[tuple[int, int]]()
    done: dict[int, float] = {}
    free = [0.0] * workers  # when each worker is free
    now = scheduler = 0.0
    first = collected = 0
    while collected < count:
        limit = grouping.tasks(workers) if ahead is None else ahead
        while first < count and len(under_way) < limit:
            size = 1 if ahead is not None else grouping.chunks(workers, first - collected, count - first)
            now += costs.client / 2
            scheduler = max(scheduler, now + LATENCY / 2) + costs.scheduler
            begin = max(heapq.heappop(free), scheduler + LATENCY / 2)
            end = begin + size * chunk * chance.uniform(1 - SPREAD, 1 + SPREAD)
            heapq.heappush(free, end)
            done[first] = end + LATENCY
            under_way.append((first, size))
            first += size
        oldest, size = under_way.popleft()
        now = max(now, done.pop(oldest)) + costs.client / 2 + size * costs.fold
        grouping.collect(size, size * chunk)
        collected += size
    return count * chunk / (workers * now), now


def main() -> None:
    console = Console(width=120)
    pair = pair_of(mechanism(), np.float64)
    tilted = partial(_chunk, TiltedLaw(pair, "remove", 2, 1.0), EPSILON, Key.from_seed(0), 1 << 60)
    plain = partial(_chunk, PlainLaw(pair, "remove"), EPSILON, Key.from_seed(0), 1 << 60)
    values = tilted(0)
    here = Compute(workers=1)
    seconds = {name: processor_seconds(work, here, [], 50) for name, work in (("tilted", tilted), ("plain", plain))}
    measured = _measure(console, tilted, seconds["tilted"], values)
    console.print(
        f"A chunk of {values.size} samples takes {1e3 * seconds['tilted']:.1f} ms of a tilted law, and "
        f"{1e3 * seconds['plain']:.1f} ms of the plain one. A task costs the scheduler "
        f"{1e3 * measured.scheduler:.2f} ms and the collecting process {1e3 * measured.client:.2f} ms; a chunk of a "
        f"test costs it "
        f"{1e3 * measured.fold:.3f} ms. All in processor time."
    )
    points = _simulate(console, seconds, measured)
    if "--figure" in sys.argv:
        draw(points, sys.argv[sys.argv.index("--figure") + 1])


def _measure(console: Console, work: partial, seconds: float, values: np.ndarray) -> Costs:
    table = Table(title="Local workers, beside this process alone", title_justify="left")
    for heading in ("chunk", "unit", "here", "1 worker", "overhead", "2 workers", "overhead"):
        table.add_column(heading, justify="left" if heading in ("chunk", "unit") else "right")
    works = [(each, partial(scaling.nap, each)) for each in (0.01, 0.03, 0.1)]
    alone = {each: rate(nap, Compute(workers=1), each) for each, nap in works}
    found: dict[tuple[float, int], float] = {}
    spent: dict[int, float] = {}
    for workers in (1, 2):
        with cluster(workers) as (address, processes):
            compute = Compute(cluster=address)
            if workers == 1:
                measured = costs(address, processes[0], values)
                print(measured, file=sys.stderr, flush=True)
            for each, nap in works:
                found[each, workers] = rate(nap, compute, each / workers)
            spent[workers] = processor_seconds(work, compute, processes, CHUNKS)
    for each, _ in works:
        cells = [(found[each, workers], workers * alone[each] / found[each, workers] - 1) for workers in (1, 2)]
        shown = [text for rate, more in cells for text in (f"{rate:.1f}", f"{100 * more:.1f} %")]
        table.add_row(f"{1e3 * each:.0f} ms, asleep", "chunks a second", f"{alone[each]:.1f}", *shown)
    cells = [(1e3 * spent[workers], spent[workers] / seconds - 1) for workers in (1, 2)]
    shown = [text for each, more in cells for text in (f"{each:.2f}", f"{100 * more:.1f} %")]
    table.add_row("production", "ms of processors", f"{1e3 * seconds:.2f}", *shown)
    with cluster(1, threads=2) as (address, processes):
        threads = processor_seconds(work, Compute(cluster=address), processes, CHUNKS)
    console.print(table)
    console.print(
        f"One worker of two threads spends {1e3 * threads:.2f} ms of processors on a production chunk, two workers of "
        f"one thread {1e3 * spent[2]:.2f} ms."
    )
    return measured


def _simulate(console: Console, seconds: dict[str, float], measured: Costs) -> list[tuple[str, int, float]]:
    table = Table(title="Simulated: share of the workers' time that is used", title_justify="left")
    for heading in ("workers", "tilted", "plain", "plain, no test", "a chunk a task", "8 chunks under way"):
        table.add_column(heading, justify="right")
    without_test = Costs(measured.scheduler, measured.client, 1e-5)
    points = []
    for workers in WORKERS:
        work = 300.0 * workers  # five minutes of all workers
        few = min(work, 200_000 * seconds["plain"])
        shares = {
            "tilted law": simulate(workers, seconds["tilted"], work, measured)[0],
            "plain law": simulate(workers, seconds["plain"], work, measured)[0],
            "plain law, values not tested": simulate(workers, seconds["plain"], work, without_test)[0],
            "one chunk a task": simulate(workers, seconds["plain"], few, without_test, 4 * workers)[0],
            "8 chunks under way": simulate(workers, seconds["plain"], min(few, 400.0), without_test, 8)[0],
        }
        table.add_row(f"{workers:,}", *(f"{100 * share:.1f} %" for share in shares.values()))
        points += [(name, workers, share) for name, share in shares.items()]
    console.print(table)
    return points


def draw(points: list[tuple[str, int, float]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "minsep"
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for name in dict.fromkeys(name for name, _, _ in points):
        mine = [(workers, workers * share) for each, workers, share in points if each == name]
        axes.plot(*zip(*mine, strict=True), marker="o", label=name)
    axes.plot(WORKERS, WORKERS, color="grey", linestyle=":", label="ideal")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="workers' worth of work done")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
