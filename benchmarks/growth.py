"""How work and memory grow with iterations and bands: `python -m benchmarks.growth [--long]`.

Each row is a process of its own, which makes the strategy, the tables of the clustered law of b-min-sep and 200 values
of a test, at the rate, epsilon and noise of a large run (518,000 of 13e9 examples, epsilon 2). It prints processor time
and peak memory, and the exponent by which each grows from the smallest size to the largest.
"""

import json
import math
import resource
import subprocess
import sys
import time

import numpy as np

import minsep
from minsep.accounting.importance import best_clustered
from minsep.accounting.pairs import MinSepPair
from minsep.randomness import Key

ITERATIONS, BANDS = (5_000, 20_000, 100_000), (64, 256, 1024)
LONG_ITERATIONS, MANY_BANDS = (*ITERATIONS, 1_000_000), (*BANDS, 4096)
RATE, EPSILON, NOISE, VALUES = 518_000 / 13e9, 2.0, 0.85, 200
COLUMNS = ("strategy", "tables", "values", "memory")


def measure(iterations: int, bands: int) -> dict[str, float]:
    small = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    _work(small, 10)  # what is compiled
    start = time.process_time()
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    found = {"strategy": time.process_time() - start, **_work(strategy, VALUES)}
    return {**found, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def _work(strategy: minsep.BandedToeplitz, values: int) -> dict[str, float]:
    prob = RATE / (1 - (strategy.bands - 1) * RATE)
    pair = MinSepPair(strategy, NOISE, prob=prob, min_sep=strategy.bands, warm=True)
    start = time.process_time()
    law = best_clustered(pair, "remove", EPSILON)
    assert law is not None
    law.draw_values(Key.from_seed(0), 0, EPSILON)
    tables = time.process_time() - start
    start = time.process_time()
    drawn = [law.draw_values(Key.from_seed(0), chunk, EPSILON).size for chunk in range(1, 1 + max(values // 8, 1))]
    return {"tables": tables, "values": (time.process_time() - start) * VALUES / sum(drawn)}


def in_a_process(iterations: int, bands: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", "--one", str(iterations), str(bands)]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def table(name: str, sizes: tuple[int, ...], rows: list[dict[str, float]]) -> None:
    print(f"| {name} | strategy | tables | {VALUES} values | memory |\n|---:|---:|---:|---:|---:|")
    for size, row in zip(sizes, rows, strict=True):
        times = " | ".join(f"{row[column]:.2f} s" for column in COLUMNS[:-1])
        print(f"| {size:,} | {times} | {row['memory']:.2f} GiB |")
    growth = math.log(sizes[-1] / sizes[0])
    exponents = (float(np.log(max(rows[-1][c], 1e-9) / max(rows[0][c], 1e-9))) / growth for c in COLUMNS)
    print("| exponent | " + " | ".join(f"{exponent:.2f}" for exponent in exponents) + " |\n", flush=True)


if __name__ == "__main__":
    if "--one" in sys.argv:
        print(json.dumps(measure(*map(int, sys.argv[-2:]))))
    else:
        long = "--long" in sys.argv
        iterations, bands = (LONG_ITERATIONS, MANY_BANDS) if long else (ITERATIONS, BANDS)
        table("iterations, 64 bands", iterations, [in_a_process(n, 64) for n in iterations])
        table("bands, 20,000 iterations", bands, [in_a_process(20_000, b) for b in bands])
