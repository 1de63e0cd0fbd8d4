"""Examples of several users, at the size of arXiv: `python -m benchmarks.attribution [--graph arxiv_graph.npz]`.

Without a path the graph is generated, of about the same shape; a second one has 2 million examples and 6 million edges.
`--table` calibrates the paper's setting instead, with certificates: 25 noise multipliers for each of independent
processes, one example a user, and the paper's Algorithm 3 under its assumption, beside BandMF without amplification. It
prints each line of a Markdown table when it is done; with `--graph` at the sampling probabilities of that graph, and
else at those of 300,000 examples that do not block each other. `--bands` and `--epsilons` take parts.
"""

import argparse
import math
import time
from functools import cache, partial

import numpy as np
from scipy.optimize import brentq

import minsep
from benchmarks.report import Comparison, peak_memory, print_comparisons
from minsep.accounting.exact import GaussianCurve
from minsep.participation import Scheme

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


def schemes_of(path: str | None, band: int) -> dict[str, Scheme]:
    """Return the schemes of the table by name, each with the sampling probability that it needs for the batches."""
    if path is None:
        rates = dict.fromkeys((1, 2), BATCH / EXAMPLES)
        # Examples that do not block each other: a graph's own p is larger, by how much they do.
        blocking = conditional(minsep.MinSep(rates[2], band).sampling_prob, band, user_bound=USER_BOUND)
    else:
        rates = {bound: BATCH / bounded_graph(path, bound).num_examples for bound in (1, 2)}
        blocking = conditional(expected_batch=BATCH, min_sep=band, graph=bounded_graph(path, USER_BOUND))
    return {
        "independent processes, k_u = 2": minsep.UserMinSep(rates[2], band, USER_BOUND),
        "k_u = 1": minsep.UserMinSep(rates[1], band, 1),
        "Algorithm 3, k_u = 2, CONDITIONAL": blocking,
    }


@cache
def bounded_graph(path: str, user_bound: int) -> minsep.AttributionGraph:
    """Return what is kept of a graph; copies are made where a user has room for them."""
    return minsep.bound_contributions(loaded(path), user_bound, duplicates=user_bound > 1).graph


def table(path: str | None, bands: list[int], epsilons: list[float]) -> None:
    """Print noise multipliers as a Markdown table, line by line, with the seconds that each took."""
    kept = [EXAMPLES, EXAMPLES] if path is None else [bounded_graph(path, bound).num_examples for bound in (1, 2)]
    print(
        f"n = {ITERATIONS:,}, expected batch {BATCH:,}, delta = {DELTA:g}, {kept[0]:,} (k_u = 1) and {kept[1]:,} kept"
    )
    print("| bands = b | scheme | p | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in epsilons) + " |")
    print("|---" * (len(epsilons) + 3) + "|", flush=True)
    start = time.perf_counter()
    for band in [1, *bands]:
        strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=band)
        for name, scheme in schemes_of(path, band).items():
            if band == 1 and "Algorithm" in name:
                continue  # Nothing blocks: the same as independent processes.
            cells = noise_multipliers(strategy, scheme, epsilons)
            values = " | ".join(cells[epsilon] for epsilon in epsilons)
            print(f"| {band} | {name} | {scheme.sampling_prob:.6f} | {values} |", flush=True)
    strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=FIXED_MIN_SEP)
    sensitivity = strategy.sensitivity(FIXED_MIN_SEP, FIXED_PARTICIPATIONS)
    values = " | ".join(f"{gaussian_noise(sensitivity, epsilon):.4f}" for epsilon in epsilons)
    print(f"| {FIXED_MIN_SEP} | without amplification, at most {FIXED_PARTICIPATIONS} times | | {values} |")
    print(f"All in {time.perf_counter() - start:.0f} s.")


def noise_multipliers(strategy: minsep.BandedToeplitz, scheme: Scheme, epsilons: list[float]) -> dict[float, str]:
    """Return the certified noise multiplier at each epsilon, with the seconds that it took."""
    cells: dict[float, str] = {}
    near = None
    for epsilon in sorted(epsilons, reverse=True):
        took, found = seconds(lambda e=epsilon, near=near: minsep.calibrate(strategy, scheme, e, DELTA, near=near))
        assert found.certificate.passed
        assert found.mechanism.scheme == scheme
        # Half of epsilon needs about this much more noise.
        near = 1.3 * found.mechanism.noise_multiplier
        cells[epsilon] = f"{found.mechanism.noise_multiplier:.4f} ({took:.0f} s)"
    return cells


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
