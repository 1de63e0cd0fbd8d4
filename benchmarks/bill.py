"""What a certified curve is worth, composition beside dp_accounting, and tuning: `python -m benchmarks.bill`.

About four minutes on two cores; `--quick` takes a smaller plan and one to two minutes.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from rich.console import Console
from rich.table import Table

import minsep
from benchmarks import tuning
from minsep.accounting.curves import Curve, PointCurve, compose_curves

RATES = (0.001, 0.01, 0.1)
RUNS = (2, 5, 10)
SETTINGS = {
    False: {"num_examples": 60_000, "batch_size": 512, "iterations": 2000, "epsilon": 4.0, "delta": 1e-5},
    True: {"num_examples": 20_000, "batch_size": 256, "iterations": 500, "epsilon": 4.0, "delta": 1e-5},
}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def estimated(certificate: minsep.Certificate) -> Curve:
    """The curve through estimated points, which proves nothing."""
    epsilons = np.linspace(0.0, 2 * certificate.epsilon, 65)
    found = minsep.privacy_curve(certificate.mechanism, epsilons, samples=100_000)
    remove, add = (
        tuple(
            (at, delta)
            for at, delta, error in zip(epsilons.tolist(), deltas.tolist(), errors, strict=True)
            if error < math.inf
        )
        for deltas, errors in ((found.remove, found.remove_stderr), (found.add, found.add_stderr))
    )
    return Curve(PointCurve(remove, add))


def least(curve: Curve, delta: float) -> str:
    try:
        return f"{curve.epsilon(delta):.2f}"
    except ValueError:
        return "-"


def of_one_plan(quick: bool) -> list[Table]:
    setting = SETTINGS[quick]
    plan, seconds = timed(lambda: minsep.plan(**setting, seed=1, curve=True))
    without, shorter = timed(lambda: minsep.plan(**setting, seed=1, curve=False))
    curved = plan.certificate
    point = replace(curved, curve_proof=None)
    guess = estimated(curved)
    title = (
        f"{plan.mechanism.name}, noise {plan.mechanism.noise_multiplier:.4f}, planned in {seconds:.0f} s; without a "
        f"curve {without.mechanism.noise_multiplier:.4f}, in {shorter:.0f} s"
    )
    table = Table(title=title, title_justify="left")
    for heading in ("", "from the point", "from the curve", "estimated", "seconds"):
        table.add_column(heading, justify="right" if heading else "left")
    for rate in RATES:
        row = [f"{100 * each.true_positives(rate):.1f} %" for each in (point.curve, curved.curve, guess)]
        table.add_row(f"true positives at {100 * rate:g} % false positives", *row, "")
    mu, took = timed(lambda: curved.curve.mu)
    table.add_row(f"Gaussian mu, up to epsilon {curved.curve.mu_reach:g}", "-", f"{mu:.3f}", "", f"{took:.2f}")
    doubled = f"{2 * curved.epsilon:g} at {(1 + math.exp(curved.epsilon)) * curved.delta:.1g}"
    replaced, took = timed(lambda: least(curved.curve.replacing(), curved.delta))
    guessed = least(guess.replacing(), curved.delta)
    name = f"epsilon if one example replaces another, delta {curved.delta:g}"
    table.add_row(name, doubled, replaced, guessed, f"{took:.2f}")
    for name, per_run in (("in all", False), ("for each run", True)):
        for runs in RUNS:
            delta = 2e-5 * (runs if per_run else 1)
            one = least(minsep.compose([point] * runs, max(delta, runs * point.delta)).curve, delta)
            together, took = timed(lambda runs=runs, delta=delta: minsep.compose([curved] * runs, delta))
            other = least(Curve(compose_curves([(guess.exact, runs)])), delta)
            row = [one, f"{together.epsilon:.2f}", other, f"{took:.2f}"]
            table.add_row(f"epsilon of {runs} runs, delta 2e-5 {name}", *row)
    return [table, tuning.of_one_curve(curved.curve, curved.delta)]


def cases(quick: bool) -> list[tuple[str, list[Any], list[tuple[Any, int]]]]:
    """Names, what we compose, and events with their counts for dp_accounting."""
    steps, cycle, rate = (200, 8, 0.01) if quick else (2000, 16, 512 / 60_000)
    identity = minsep.BandedToeplitz.identity(iterations=steps)
    poisson = minsep.Mechanism(identity, minsep.Poisson(rate=rate), 1.0)
    banded = minsep.BandedToeplitz.optimal(iterations=steps, bands=cycle)
    cyclic = minsep.Mechanism(banded, minsep.CyclicPoisson(rate, cycle, "equal"), 2.0)
    sampled = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(1.0)), steps)
    turns = SelfComposedDpEvent(PoissonSampledDpEvent(rate * cycle, GaussianDpEvent(2.0)), steps // cycle)
    mean = GaussianDpEvent(5.0)
    return [
        ("10 runs of DP-SGD", [poisson] * 10, [(sampled, 10)]),
        ("10 runs of cyclic Poisson", [cyclic] * 10, [(turns, 10)]),
        ("DP-SGD, cyclic Poisson and a mean", [poisson, cyclic, mean], [(sampled, 1), (turns, 1), (mean, 1)]),
        ("20 means", [mean] * 20, [(mean, 20)]),
    ]


def beside_dp_accounting(quick: bool) -> Table:
    table = Table(title="Exact cases at delta 1e-5, beside dp_accounting's PLDAccountant", title_justify="left")
    for heading in ("", "epsilon", "seconds", "theirs", "their seconds"):
        table.add_column(heading, justify="right" if heading else "left")

    def theirs(events: list[tuple[Any, int]]) -> float:
        accountant = PLDAccountant(NeighboringRelation.REPLACE_SPECIAL)
        for event, count in events:
            accountant.compose(event, count)
        return float(accountant.get_epsilon(1e-5))

    for name, items, events in cases(quick):
        our, took = timed(lambda items=items: minsep.compose(items, 1e-5).epsilon)
        their, longer = timed(lambda events=events: theirs(events))
        table.add_row(name, f"{our:.5f}", f"{took:.2f}", f"{their:.5f}", f"{longer:.2f}")
    return table


def main(quick: bool) -> None:
    console = Console(width=150)
    for table in (beside_dp_accounting(quick), *tuning.tables(), *of_one_plan(quick)):
        console.print(table)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
