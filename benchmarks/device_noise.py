"""Noise on the host and on the device, a GPU if there is one: `python -m benchmarks.device_noise`."""

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

import minsep
from benchmarks.report import Comparison, print_comparisons
from minsep.strategy import Strategy
from minsep.training.torch.device_noise import DeviceNoiseStream

VALUES, ITERATIONS = 1_000_000, 1000
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def milliseconds(add_next: Callable[[], None], rows: int) -> float:
    start = time.perf_counter()
    for _ in range(rows):
        add_next()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / rows


def compared(strategy: Strategy, rows: int) -> Iterator[Comparison]:
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
    host = mechanism.noise(VALUES)
    device = DeviceNoiseStream(mechanism, VALUES, DEVICE, mechanism.noise_key())
    array = np.zeros(VALUES)
    vector = torch.zeros(VALUES, dtype=torch.float64, device=DEVICE)
    # The first block is special: the rows of a banded inverse have fewer terms there.
    times = {
        stream: [milliseconds(lambda: stream.release_next(total, 1.0), rows) for _ in range(2)][1]  # noqa: B023
        for stream, total in ((host, array), (device, vector))
    }
    yield Comparison(f"{strategy}: a release on {DEVICE}, beside the host (ms)", times[device], times[host])
    yield Comparison(f"  rows kept on {DEVICE}", device.kept_rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    strategies = [
        minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=17),
        minsep.BandedInverseToeplitz.square_root(iterations=ITERATIONS, bands=4),
        minsep.BandedInverseToeplitz.square_root(iterations=ITERATIONS, bands=17),
    ]
    comparisons = [row for strategy in strategies for row in compared(strategy, rows=16)]
    print_comparisons(f"Releases of {VALUES:,} values", comparisons)
