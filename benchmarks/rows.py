"""Releases of noise, in a process of its own: `python -m benchmarks.rows VALUES BANDS ROWS` prints what they take.

The strategy is optimal with these bands, or the identity for one band. The first rows, whose sums are shorter, are left
out of the mean, and none is left out of the worst step.
"""

import json
import subprocess
import sys
import time

import numpy as np

import minsep


def measure(values: int, bands: int, rows: int) -> dict[str, float]:
    strategy = minsep.BandedToeplitz.optimal(iterations=2000, bands=bands)
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
    small = mechanism.noise(100_000)
    for _ in range(5):  # what is compiled
        small.release_next(np.zeros(100_000), 1.0)
    sums, seconds = np.ones(values), []
    stream = mechanism.noise(values)
    for _ in range(rows):
        start = time.perf_counter()
        stream.release_next(sums, 1.0)
        seconds.append(time.perf_counter() - start)
    mean = float(np.mean(seconds[min(bands, rows // 2) :]))
    with open("/proc/self/status") as status:
        peak = next(float(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return {"mean": mean, "worst": max(seconds), "memory": peak / 2**20}


def in_a_process(values: int, bands: int, rows: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.rows", *map(str, (values, bands, rows))]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
