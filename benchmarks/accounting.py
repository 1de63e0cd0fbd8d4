"""Privacy-loss samples a second beside jax-privacy 2.0.0, in one run on one core: `python -m benchmarks.accounting`."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Iterator

import numpy as np

import minsep
from benchmarks.report import Comparison, peak_memory, print_comparisons

SETTINGS = [(1024, 32, 1 / 256, 0.8), (7200, 256, 1793 / 14_745_600, 0.47)]
SECONDS = 4.0
EPSILON = 8.0  # large enough for `add` to be free, so that every sample is one from P


def mechanism(iterations: int, bands: int, rate: float, sigma: float) -> minsep.Mechanism:
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=rate, min_sep=bands), sigma)


def ours(mech: minsep.Mechanism, workers: int) -> float:
    """Return microseconds a sample, losses summed to a delta."""
    minsep.estimate_delta(mech, EPSILON, samples=2000, method="plain", compute=minsep.Compute(workers=workers))
    samples = 4000
    while True:
        start = time.perf_counter()
        minsep.estimate_delta(mech, EPSILON, samples=samples, method="plain", compute=minsep.Compute(workers=workers))
        took = time.perf_counter() - start
        if took > SECONDS / 2:
            return 1e6 * took / samples
        samples *= 2


def peer(mech: minsep.Mechanism) -> float:
    """Return microseconds a sample of jax-privacy: draws from P and their privacy losses, many at once."""
    from jax_privacy import batch_selection
    from jax_privacy.experimental.monte_carlo import sample_generation

    scheme = mech.scheme
    assert isinstance(scheme, minsep.MinSep)
    sampling = batch_selection.BMinSepSampling(
        sampling_prob=scheme.sampling_prob, iterations=mech.iterations, min_sep=scheme.min_sep, warm_start=True
    )
    column = np.asarray(mech.strategy.coefficients)
    count, done = 256, 0
    start = time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        samples = sample_generation.generate_sample(sampling, mech.noise_multiplier, column, num_samples=count)
        sample_generation.compute_privacy_loss(sampling, samples, mech.noise_multiplier, column)
        done += count
    return 1e6 * (time.perf_counter() - start) / done


def comparisons() -> Iterator[Comparison]:
    for iterations, bands, rate, sigma in SETTINGS:
        mech = mechanism(iterations, bands, rate, sigma)
        one, two = ours(mech, 1), ours(mech, 2)
        title = f"n={iterations:,}, {bands} bands"
        yield Comparison(f"privacy loss, {title}, one core (us)", one, peer(mech), bar=8)
        yield Comparison("  the same on two cores, beside one core (us)", two, one, bar=1.8)
    iterations, bands, rate, sigma = SETTINGS[1]
    for samples in (2_000, 40_000):
        memory = peak_memory(
            f"strategy = minsep.BandedToeplitz.optimal(iterations={iterations}, bands={bands});"
            f"mech = minsep.Mechanism(strategy, minsep.MinSep({rate}, {bands}), {sigma});"
            f"minsep.estimate_delta(mech, {EPSILON}, samples={samples})"
        )
        yield Comparison(f"peak memory with {samples:,} samples, two threads (MiB)", memory, bar=300)


if __name__ == "__main__":
    print_comparisons("Accounting", list(comparisons()))
