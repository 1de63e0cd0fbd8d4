"""The time of a plan by stage: `python -m benchmarks.plan`. About two minutes on two cores."""

import time

from rich.console import Console
from rich.table import Table

import minsep
from minsep.progress import Progress


def main() -> None:
    spent: dict[str, float] = {}
    counted: dict[str, int] = {}
    at_hand = ["", "", time.perf_counter()]

    def note(progress: Progress) -> None:
        stage, detail, since = at_hand
        now = time.perf_counter()
        if stage:
            spent[stage] = spent.get(stage, 0.0) + now - since
        if (stage, detail) != (progress.stage, progress.detail):
            counted[progress.stage] = counted.get(progress.stage, 0) + 1
        at_hand[:] = [progress.stage, progress.detail, now]

    start = time.perf_counter()
    best = minsep.plan(60_000, 512, 2000, 4.0, 1e-5, seed=0, progress=note)
    end = time.perf_counter()
    spent[at_hand[0]] += end - at_hand[2]
    table = Table(
        title="60,000 examples, batches of 512, 2,000 iterations, epsilon 4, delta 1e-5", title_justify="left"
    )
    for heading in ("stage", "mechanisms or rungs", "seconds"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for stage, seconds in spent.items():
        table.add_row(stage, str(counted[stage]), f"{seconds:.1f}")
    table.add_row("all", "", f"{end - start:.1f}")
    console = Console(width=130)
    console.print(table)
    proven = min(one.error for one in best.table if one.error is not None and one.exact)
    paper = min(one.error for one in best.table if one.error is not None and one.shrink == 1.0)
    console.print(best.statement)
    console.print(
        f"Best with an exact proof: {proven:.4g}; b-min-sep with the paper's strategy, estimated: {paper:.4g}."
    )


if __name__ == "__main__":
    main()
