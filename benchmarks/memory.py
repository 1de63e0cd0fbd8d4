"""Error against the memory of noise: `python -m benchmarks.memory`, some minutes.

Plans the default task by estimates for a model of 10^6 parameters, in whose memory everything fits, and prints the best
candidate of each strategy and size: what its noise keeps and draws, the noise multiplier and the error. Then releases
rows of each, in processor time. `--epoch` plans a run of one epoch instead, and `--certify` certifies the best of each
kind of strategy as well.
"""

import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import minsep
from minsep.planning import Candidate, Request
from minsep.planning.search import error_of
from minsep.strategy import Strategy

TASK = Request(60_000, 512, 2_000, 4.0, 1e-5, model_size=10**6, estimate=True)
EPOCH = Request(60_000, 512, 117, 4.0, 1e-5, model_size=10**6, estimate=True)
VALUES, ROWS, WARM = 1_000_000, 12, 2


def main() -> None:
    request = EPOCH if "--epoch" in sys.argv else TASK
    start = time.process_time()
    plan = minsep.plan(**request.fields, seed=0)
    console = Console(width=150)
    console.print(f"{plan.chosen.name}; {time.process_time() - start:.0f} s of processor time")
    table = Table("strategy", "bytes a parameter", "normals drawn", "noise multiplier", "error", "ms for 1e6 values")
    best = _best(plan)
    for one in best:
        strategy = one.strategy(plan.request)
        numbers = (
            f"{strategy.noise_bytes}",
            f"{strategy.drawn_rows}",
            f"{one.noise_multiplier:.4g}",
            f"{one.error:.4g}",
        )
        table.add_row(one.name, *numbers, f"{1000 * _seconds(strategy):.1f}")
    console.print(table)
    if "--certify" in sys.argv:
        for kind in dict.fromkeys(one.matrix for one in best):
            _certify(min((one for one in best if one.matrix == kind), key=error_of), plan, console)


def _best(plan: minsep.Plan) -> list[Candidate]:
    """Return the best candidate of each kind of strategy and size, those with least memory first."""
    found: dict[tuple[str, int], Candidate] = {}
    for one in plan.table:
        if one.error is not None:
            found.setdefault((one.matrix, one.bands), one)
    return sorted(found.values(), key=lambda one: (one.noise_bytes, one.drawn_rows, error_of(one)))


def _seconds(strategy: Strategy) -> float:
    """Return the processor time of a release, once as many rows are kept as ever are."""
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
    stream, sums = mechanism.noise(VALUES), np.ones(VALUES)
    for _ in range(min(max(WARM, strategy.noise_rows, strategy.drawn_rows), strategy.iterations - ROWS)):
        stream.release_next(sums, 1.0)
    start = time.process_time()
    for _ in range(ROWS):
        stream.release_next(sums, 1.0)
    return (time.process_time() - start) / ROWS


def _certify(one: Candidate, plan: minsep.Plan, console: Console) -> None:
    design, start = one.design(plan.request), time.process_time()
    found = minsep.calibrate(design, epsilon=plan.request.epsilon, delta=plan.request.delta, near=one.noise_multiplier)
    samples = sum(proof.samples for proof in found.certificate.proofs)
    console.print(
        f"{one.name}: certified error {found.mechanism.root_mean_squared_error:.4g}, {samples:,} samples, "
        f"{time.process_time() - start:.1f} s"
    )


if __name__ == "__main__":
    main()
