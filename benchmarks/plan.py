"""Plans: time by stage, by estimates alone, repeated, and at the edges. `python -m benchmarks.plan`, some minutes.

`--edges` adds plans at the edges of what anybody may ask for: small and huge data, extreme budgets, extreme batches.
Each runs in a process of its own, which shows its peak of memory.
"""

import resource
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

import minsep
from minsep.core.progress import Progress

TASK = (60_000, 512, 2000, 4.0, 1e-5)
REPEATS = 5
EDGES = {
    "1,000 examples": (1_000, 50, 200, 2.0, 1e-3),
    "epsilon 0.1": (60_000, 512, 2_000, 0.1, 1e-5),
    "epsilon 100": (60_000, 512, 2_000, 100.0, 1e-5),
    "full batches": (1_000, 1_000, 200, 4.0, 1e-5),
    "batches of one": (60_000, 1, 2_000, 4.0, 1e-5),
    "delta 1e-15": (60_000, 512, 2_000, 4.0, 1e-15),
    "a billion examples, a million iterations": (10**9, 10_000, 10**6, 4.0, 1e-10),
}


def main() -> None:
    console = Console(width=130)
    if sys.argv[1:2] == ["--edge"]:
        _edge(sys.argv[2])
        return
    best = _by_stage(console)
    proven = min(one.error for one in best.table if one.error is not None and one.exact)
    paper = min(one.error for one in best.table if one.error is not None and one.shrink == 1.0)
    console.print(best.statement)
    console.print(
        f"Best with an exact proof: {proven:.4g}; b-min-sep with the paper's strategy, estimated: {paper:.4g}."
    )
    start = time.perf_counter()
    estimated = minsep.plan(*TASK, estimate=True)
    console.print(f"By estimates alone: {time.perf_counter() - start:.1f} s, {estimated.chosen.name}.")
    repeated = [minsep.plan(*TASK) for _ in range(REPEATS)]
    named = {(one.chosen.name, f"{one.mechanism.noise_multiplier:.4f}") for one in repeated}
    console.print(f"{REPEATS} plans without a seed name {len(named)} mechanism(s): {named}")
    if "--edges" in sys.argv:
        for name in EDGES:
            subprocess.run([sys.executable, "-m", "benchmarks.plan", "--edge", name], check=True)


def _by_stage(console: Console) -> minsep.Plan:
    spent: dict[str, float] = {}
    at_hand = ["", time.perf_counter()]

    def note(progress: Progress) -> None:
        now = time.perf_counter()
        if at_hand[0]:
            spent[at_hand[0]] = spent.get(at_hand[0], 0.0) + now - at_hand[1]
        at_hand[:] = [progress.stage, now]

    start = time.perf_counter()
    best = minsep.plan(*TASK, seed=0, progress=note)
    end = time.perf_counter()
    spent[at_hand[0]] += end - at_hand[1]
    table = Table(
        title="60,000 examples, batches of 512, 2,000 iterations, epsilon 4, delta 1e-5", title_justify="left"
    )
    for heading in ("stage", "seconds"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for stage, seconds in spent.items():
        table.add_row(stage, f"{seconds:.1f}")
    table.add_row("all", f"{end - start:.1f}")
    console.print(table)
    return best


def _edge(name: str) -> None:
    start = time.perf_counter()
    try:
        outcome = minsep.plan(*EDGES[name], seed=0).statement
    except ValueError as error:
        outcome = f"refused: {error}"
    took, memory = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {took:.0f} s, {memory:.1f} GiB. {outcome}")


if __name__ == "__main__":
    main()
