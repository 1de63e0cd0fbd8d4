"""Strategies, batches and noise beside their peers, in one run: `python -m benchmarks.foundation`.

Peers: jax-privacy 2.0.0 for strategies and batches, the row-by-row recursion in NumPy for noise.
"""

import resource
import time
from collections.abc import Callable, Iterator
from itertools import islice, product

import numpy as np

import minsep
from benchmarks.report import Comparison, peak_memory, print_comparisons
from benchmarks.rows import in_a_process

EXAMPLES, BATCH, ITERATIONS, BANDS = 14_745_600, 1793, 7200, 256
VALUES, NOISE_BANDS = 1_000_000, 64


def seconds(work: Callable[[], object], repeat: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - start) / repeat


def strategies() -> Iterator[Comparison]:
    import jax
    from jax_privacy.matrix_factorization import toeplitz

    minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    ours = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=BANDS)
    our_seconds = seconds(lambda: minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=BANDS), 5)
    theirs: list[np.ndarray] = []
    with jax.enable_x64():
        peer_seconds = seconds(lambda: theirs.append(np.asarray(toeplitz.optimize_banded_toeplitz(ITERATIONS, BANDS))))
    peer = minsep.BandedToeplitz.from_coefficients(np.maximum(theirs[0], 0), iterations=ITERATIONS)
    excess = ours.mean_squared_error / peer.mean_squared_error - 1
    yield Comparison(f"optimal strategy, n={ITERATIONS:,}, {BANDS} bands (s)", our_seconds, peer_seconds, bar=15)
    yield Comparison("  its error over the peer's, less 1", excess, None, bar=1e-6)
    large = "minsep.BandedToeplitz.optimal(iterations=100_000, bands=64)"
    yield Comparison("optimal strategy, n=100,000, 64 bands (s)", seconds(lambda: eval(large)), None, bar=10)
    yield Comparison("  peak memory of a process that does that (MiB)", peak_memory(large), None, bar=1024)


def batches() -> Iterator[Comparison]:
    from jax_privacy import batch_selection

    scheme = minsep.MinSep(rate=BATCH / EXAMPLES, min_sep=BANDS)
    identity = minsep.BandedToeplitz.identity(iterations=ITERATIONS)
    mechanism = minsep.Mechanism(identity, scheme, noise_multiplier=1.0)
    next(mechanism.batches(1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    stream = mechanism.batches(EXAMPLES)
    set_up = time.perf_counter() - start
    bytes_an_example = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / EXAMPLES
    ours = seconds(lambda: next(stream), 2000)
    sampler = batch_selection.BMinSepSampling(
        sampling_prob=scheme.sampling_prob, iterations=ITERATIONS, min_sep=BANDS
    ).batch_iterator(EXAMPLES, rng=np.random.default_rng(0))
    next(sampler)
    peer = seconds(lambda: next(sampler), 20)
    yield Comparison(f"b-min-sep batch, {EXAMPLES:,} examples, b={BANDS} (ms)", 1e3 * ours, 1e3 * peer, bar=100)
    yield Comparison("  setting the stream up, once (s)", set_up, None)
    yield Comparison("  its memory (bytes an example)", bytes_an_example, None, bar=16)
    state = stream.state_dict()
    resumed = mechanism.batches(EXAMPLES)
    yield Comparison("  resuming after 2,000 batches (s)", seconds(lambda: resumed.load_state_dict(state)), None)


def row_by_row(coefficients: np.ndarray, draw: Callable[[], np.ndarray]) -> Iterator[np.ndarray]:
    """Yield rows of C^-1 Z by the recursion, with a ring of past rows that are never moved."""
    first, later = coefficients[0], coefficients[:0:-1]
    past = np.zeros((later.size, VALUES), dtype=np.float32)
    for step in range(10**9):
        row = draw()
        row -= np.roll(later, step % later.size) @ past
        row /= first
        past[step % later.size] = row
        yield row


def noise() -> Iterator[Comparison]:
    strategy = minsep.BandedToeplitz.optimal(iterations=2000, bands=NOISE_BANDS)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=1 / 300, min_sep=NOISE_BANDS), noise_multiplier=1.0)

    def time_rows(rows: Iterator[np.ndarray]) -> float:
        for _ in islice(rows, NOISE_BANDS):
            pass
        start = time.perf_counter()
        for _ in islice(rows, 2 * NOISE_BANDS):
            pass
        return (time.perf_counter() - start) / (2 * NOISE_BANDS)

    generator = np.random.default_rng()
    coefficients = strategy.coefficients.astype(np.float32)
    peer = time_rows(row_by_row(coefficients, lambda: generator.standard_normal(VALUES, dtype=np.float32)))
    title = f"noise row, {VALUES:,} values, {NOISE_BANDS} bands (ms), beside one in float32 by NumPy"
    yield Comparison(title, 1e3 * time_rows(mechanism.noise(VALUES)), 1e3 * peer, bar=3)


def releases() -> Iterator[Comparison]:
    """Rows that are made, smoothed, added and rounded, as far as 20 GiB hold them: a step, the worst, and memory."""
    for values, bands in product((10**6, 10**7, 10**8), (1, 64, 256)):
        if 4 * values * bands > 20 * 2**30:
            continue
        found = in_a_process(values, bands, {1: 12}.get(bands, 2 * bands + 40))
        title = f"a release, {values:,} values, {bands} band{'s' if bands > 1 else ''}"
        yield Comparison(f"{title} (ns a value)", 1e9 * found["mean"] / values)
        yield Comparison("  the worst step over the mean", found["worst"] / found["mean"], None, bar=3)
        yield Comparison("  peak memory (GiB)", found["memory"])


if __name__ == "__main__":
    print_comparisons("Foundation", [*strategies(), *batches(), *noise(), *releases()])
