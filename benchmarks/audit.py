"""What audits find: faults that are caught, and how near the lower bound comes to the certified epsilon.

`python -m benchmarks.audit [FIGURE]` prints the tables of docs/audit.md, and draws its figure.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import minsep
from minsep.auditing import plain_loop
from minsep.auditing.statistic import Statistic
from minsep.auditing.torch import TorchLoop
from minsep.randomness import Key
from minsep.show.report import plot_audit
from tests.auditing.faults import FAULTS, MISSED

RUNS, CANARIES = 16, 1024
BOUNDS = [
    # bands, separation, rate, epsilon, delta, runs
    (4, 8, 0.1, 1.0, 1e-2, 400),
    (4, 8, 0.1, 2.0, 1e-2, 400),
    (4, 8, 0.1, 4.0, 1e-2, 400),
    (4, 4, 0.2, 4.0, 1e-3, 400),
    (4, 4, 0.2, 4.0, 1e-3, 1000),
    (4, 4, 0.2, 4.0, 1e-5, 16),
    (4, 4, 0.2, 4.0, 1e-5, 1000),
]


def certificate_of(bands, separation, rate, epsilon, delta):
    strategy = minsep.BandedToeplitz.optimal(iterations=32, bands=bands)
    scheme = minsep.MinSep(rate=rate, min_sep=separation)
    return minsep.calibrate(strategy, scheme, epsilon=epsilon, delta=delta, seed=0).certificate


def timed(certificate, loop, runs):
    start = time.process_time()
    result = minsep.audit(certificate, loop, runs=runs, canaries=CANARIES, seed=1, verify=False)
    return result, time.process_time() - start


def _in_words(p_value):
    if p_value == 0:
        return "cannot happen"
    return "below 1e-290" if p_value < 1e-290 else f"{p_value:.0e}"


def faults():
    certificate = certificate_of(4, 8, 0.1, 4.0, 1e-3)
    print("| loop | alarms | strongest p-value | epsilon at least | CPU |\n|---|---|---|---|---|")
    for name, loop in {"correct": plain_loop, **FAULTS, **MISSED}.items():
        result, seconds = timed(certificate, loop, RUNS)
        alarms = sorted((check for check in result.checks if not check.passed), key=lambda check: check.p_value)
        names = ", ".join(check.name.lower() for check in alarms)
        if result.violated:
            names = f"**epsilon**, {names}"
        strongest = "" if not alarms else _in_words(alarms[0].p_value)
        print(f"| {name} | {names or 'none'} | {strongest} | {result.lower_bound:.2f} | {seconds:.1f} s |", flush=True)


def most_without_assumptions(mechanism, trials, delta, chance):
    """The bound that no audit of so many trials reaches in half of all cases, as docs/audit.md proves."""
    statistic = Statistic.of(mechanism, trials, Key.from_seed(2))
    needed = 0.5 * math.log(0.5 / chance) + 0.5 * math.log(0.5 / (1 - chance))
    low, high = 0.0, float(statistic.present[-1])
    for _ in range(40):
        middle = (low + high) / 2
        directions = (statistic.present, -statistic.absent)
        information = sum(divergence(ratios, middle, delta) for ratios in directions)
        low, high = (middle, high) if trials / 2 * information > needed else (low, middle)
    return high


def divergence(ratios, epsilon, delta):
    """KL(Q || Q') for the nearest Q' with which a direction of a pair (P, Q) has this epsilon and delta.

    `ratios` are samples of log P/Q under P. Q' is Q times a factor: as large as need be up to P/Q e^-epsilon where that
    is above 1, and one below 1 elsewhere.
    """
    above = ratios[ratios > epsilon]

    def raised(most):
        return np.minimum(most, np.exp(above - epsilon))

    def excess(most):
        return np.sum(1 - np.exp(epsilon - above) * raised(most)) / ratios.size - delta

    if excess(1.0) <= 0:
        return 0.0
    factor, mass = raised(brentq(excess, 1.0, 1e9)), np.exp(-above) / ratios.size
    elsewhere = 1 - mass.sum()
    return -(mass * np.log(factor)).sum() - elsewhere * math.log((1 - (mass * factor).sum()) / elsewhere)


def bounds(figure):
    print("\n| loop | certified | trials | epsilon at least | no audit above | if the noise is Gaussian | CPU |")
    print("|---|---|---|---|---|---|---|")
    rows = [("NumPy", plain_loop, row) for row in BOUNDS]
    rows.append(("PyTorch adapter", TorchLoop(resume_every=50), BOUNDS[2]))
    for name, loop, (*setting, epsilon, delta, runs) in rows:
        certificate = certificate_of(*setting, epsilon, delta)
        result, seconds = timed(certificate, loop, runs)
        assert result.passed, result.alarms
        chance = result.bound_failure_probability
        most = most_without_assumptions(certificate.mechanism, result.trials, delta, chance)
        shown = (f"{bound:.2f} ({bound / epsilon:.0%})" for bound in (result.lower_bound, most, result.gaussian_bound))
        print(
            f"| {name} | ({epsilon:g}, {delta:g}) | {result.trials:,} | {' | '.join(shown)} | {seconds:.0f} s |",
            flush=True,
        )
        if figure is not None and (delta, runs) == (1e-3, 1000):
            plot_audit(result, figure)


if __name__ == "__main__":
    faults()
    bounds(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
