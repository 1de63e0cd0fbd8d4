"""Examples of several users, at the size of arXiv: `python -m benchmarks.attribution [--graph arxiv_graph.npz]`.

Without a path the graph is generated, of about the same shape; a second one has 2 million examples and 6 million edges.
`--table` calibrates the paper's setting instead: 25 noise multipliers with certificates, beside DP-SGD and BandMF
without amplification, and prints each line of a Markdown table when it is done; with `--graph` at the sampling
probabilities of that graph, and else at those of 300,000 examples that do not block each other. `--bands` and
`--epsilons` take parts.
"""

import argparse
import math
import time
from functools import partial

import numpy as np
from scipy.optimize import brentq

import minsep
from benchmarks.report import Comparison, peak_memory, print_comparisons
from minsep.accounting.exact import GaussianCurve

ITERATIONS, BATCH, MIN_SEP, USER_BOUND = 1000, 1024, 32, 2
EXAMPLES, DELTA = 300_000, 1 / 500_000
BANDS, EPSILONS = (2, 4, 8, 16, 32), (1.0, 2.0, 4.0, 8.0, 16.0)
# Separation and most participations of the paper's batches without amplification.
FIXED_MIN_SEP, FIXED_PARTICIPATIONS = 128, 7

# The paper's Algorithm 3, under its assumption.
conditional = partial(minsep.MultiAttributionMinSep, accept_assumption=True)


def generated(num_examples: int, num_edges: int, num_users: int, seed: int = 0) -> minsep.AttributionGraph:
    """Return a graph with few users an example, at least one, and some users with hundreds of examples."""
    generator = np.random.default_rng(seed)
    sizes = 1 + generator.negative_binomial(1, num_examples / num_edges, size=num_examples)
    rows = np.repeat(np.arange(num_examples), sizes)
    # Squares of uniform variables prefer low numbers: the first users have many examples.
    columns = (num_users * generator.random(rows.size) ** 2).astype(np.int64)
    edges = np.unique(np.stack([rows, columns], axis=1), axis=0)
    return minsep.AttributionGraph.from_edges(edges, num_users=num_users)


def loaded(path: str | None) -> minsep.AttributionGraph:
    """Return the graph of an .npz file with `indptr` and `indices`, or a generated one like arXiv's."""
    if path is None:
        return generated(587_754, 1_780_221, 581_344)
    with np.load(path) as file:
        rows = np.repeat(np.arange(file["indptr"].size - 1), np.diff(file["indptr"]))
        return minsep.AttributionGraph.from_edges(rows, file["indices"])


def seconds(work) -> tuple[float, object]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(name: str, open_graph, times: float) -> list[Comparison]:
    """Measure loading and bounding, the search for the sampling probability, and a run of batches."""

    def bound() -> minsep.Bounded:
        return minsep.bound_contributions(open_graph(), USER_BOUND, duplicates=True)

    bound()  # compiles
    took, bounded = seconds(bound)
    rows = [Comparison(f"{name}: load and bound, s", took, bar=10 * times)]
    graph = bounded.graph
    print(name, bounded.summary())
    for block in ("sampled", "participated"):
        options = {"min_sep": MIN_SEP, "graph": graph, "block": block, "accept_assumption": True}
        took, scheme = seconds(lambda options=options: minsep.MultiAttributionMinSep(expected_batch=BATCH, **options))
        rows.append(Comparison(f"{name}: sampling probability, {block}, s", took))
        mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=ITERATIONS), scheme, 1.0)
        took, sizes = seconds(lambda m=mechanism: [batch.size for batch in m.batches(graph.num_examples, seed=0)])
        rows.append(Comparison(f"{name}: 1,000 batches of about 1,024, {block}, s", took, bar=20 * times))
        mean = scheme.mean_batch_size
        print(
            f"{name}, {block}: sampling_prob {scheme.sampling_prob:.6f}, mean batch {mean.value:.1f} ± "
            f"{mean.stderr:.1f}, drawn {np.mean(sizes):.1f} ± {np.std(sizes) / math.sqrt(len(sizes)):.1f}"
        )
    return rows


def memory_of(path: str | None, big: bool) -> float:
    """Return the peak memory in MiB of the whole: loading, bounding, sampling."""
    make = "a.generated(2_000_000, 6_000_000, 2_000_000)" if big else f"a.loaded({path!r})"
    work = (
        f"import benchmarks.attribution as a; b = minsep.bound_contributions({make}, {USER_BOUND}, duplicates=True); "
        f"s = minsep.MultiAttributionMinSep(expected_batch={BATCH}, min_sep={MIN_SEP}, graph=b.graph, "
        "accept_assumption=True); "
        f"m = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations={ITERATIONS}), s, 1.0); "
        "[x.size for x in m.batches(b.graph.num_examples, seed=0)]"
    )
    return peak_memory(work)


def figures(path: str | None) -> None:
    name = "arXiv" if path else "like arXiv"
    rows = measure(name, lambda: loaded(path), 1)
    rows.append(Comparison(f"{name}: peak memory, MiB", memory_of(path, big=False), bar=1024))
    big = generated(2_000_000, 6_000_000, 2_000_000)
    users = np.repeat(np.arange(big.num_examples), big.users_per_example), big.users
    rows += measure("2 million examples", lambda: minsep.AttributionGraph.from_edges(*users), 4)
    rows.append(Comparison("2 million examples, generating them too: peak memory, MiB", memory_of(None, big=True)))
    print_comparisons("Examples of several users", rows)


def table(path: str | None, bands: list[int], epsilons: list[float]) -> None:
    """Print noise multipliers as a Markdown table, line by line, with the time that each took."""
    graph = None
    if path is not None:
        graph = minsep.bound_contributions(loaded(path), USER_BOUND, duplicates=True).graph
    examples = EXAMPLES if graph is None else graph.num_examples
    print(f"n = {ITERATIONS:,}, expected batch {BATCH:,} of {examples:,}, k_u = {USER_BOUND}, delta = {DELTA:g}")
    print("| scheme | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in epsilons) + " |")
    print("|---" * (len(epsilons) + 1) + "|", flush=True)
    start = time.perf_counter()
    for band in [1, *bands]:
        strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=band)
        if graph is None:
            scheme = conditional(sampling_prob_of_singles(band), band, user_bound=USER_BOUND)
        else:
            scheme = conditional(expected_batch=BATCH, min_sep=band, graph=graph)
        cells: dict[float, str] = {}
        near = None
        for epsilon in sorted(epsilons, reverse=True):
            took, found = seconds(
                lambda s=strategy, c=scheme, e=epsilon, near=near: minsep.calibrate(s, c, e, DELTA, near=near)
            )
            assert found.certificate.passed
            assert found.mechanism.scheme == scheme
            # Half of epsilon needs about this much more noise.
            near = 1.3 * found.mechanism.noise_multiplier
            cells[epsilon] = f"{found.mechanism.noise_multiplier:.4f} ({took:.0f} s)"
        name = "DP-SGD, b = 1" if band == 1 else f"b-min-sep, b = bands = {band}"
        print(f"| {name} | " + " | ".join(cells[epsilon] for epsilon in epsilons) + " |", flush=True)
    print(f"| BandMF unamplified, b = {FIXED_MIN_SEP}, k = {FIXED_PARTICIPATIONS} | ", end="")
    strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=FIXED_MIN_SEP)
    sensitivity = strategy.sensitivity(FIXED_MIN_SEP, FIXED_PARTICIPATIONS)
    print(" | ".join(f"{gaussian_noise(sensitivity, epsilon):.4f}" for epsilon in epsilons) + " |")
    print(f"All in {time.perf_counter() - start:.0f} s.")


def sampling_prob_of_singles(min_sep: int) -> float:
    """Return the p of single examples for the expected batch: p0 / (1 - p0 (b - 1)).

    A graph's own p is larger, by how much its examples block each other.
    """
    rate = BATCH / EXAMPLES
    return rate / (1 - rate * (min_sep - 1))


def gaussian_noise(sensitivity: float, epsilon: float) -> float:
    """Return the noise multiplier of the Gaussian mechanism."""

    def excess(log_sigma: float) -> float:
        return float(GaussianCurve(sensitivity / math.exp(log_sigma)).delta(epsilon, "remove")) - DELTA

    return math.exp(brentq(excess, -5.0, 10.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", help="an .npz file with indptr and indices")
    parser.add_argument("--table", action="store_true", help="calibrate the paper's setting")
    parser.add_argument("--bands", type=int, nargs="*", default=list(BANDS))
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    arguments = parser.parse_args()
    if arguments.table:
        table(arguments.graph, arguments.bands, arguments.epsilons)
    else:
        figures(arguments.graph)


if __name__ == "__main__":
    main()
