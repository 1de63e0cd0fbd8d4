"""What audits find: faults that are caught, and how near the lower bound comes to the certified epsilon.

`python -m benchmarks.audit [FIGURE]` prints the tables of docs/audit.md, and draws its figure.
"""

import sys
import time
from pathlib import Path

import minsep
from minsep.auditing import plain_loop
from minsep.auditing.torch import TorchLoop
from minsep.show.report import plot_audit
from tests.auditing.faults import FAULTS

RUNS, CANARIES = 16, 1024
BOUNDS = [
    # bands, separation, rate, epsilon, delta, runs
    (4, 8, 0.1, 1.0, 1e-2, 400),
    (4, 8, 0.1, 2.0, 1e-2, 400),
    (4, 8, 0.1, 4.0, 1e-2, 400),
    (4, 4, 0.2, 4.0, 1e-3, 400),
    (4, 4, 0.2, 4.0, 1e-3, 1000),
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
    for name, loop in {"correct": plain_loop, **FAULTS}.items():
        result, seconds = timed(certificate, loop, RUNS)
        alarms = sorted((check for check in result.checks if not check.passed), key=lambda check: check.p_value)
        names = ", ".join(check.name.lower() for check in alarms)
        if result.violated:
            names = f"**epsilon**, {names}"
        strongest = "" if not alarms else _in_words(alarms[0].p_value)
        print(f"| {name} | {names or 'none'} | {strongest} | {result.lower_bound:.2f} | {seconds:.1f} s |", flush=True)


def bounds(figure):
    print("\n| loop | certified | trials | epsilon at least | share | CPU |\n|---|---|---|---|---|---|")
    rows = [("NumPy", plain_loop, row) for row in BOUNDS]
    rows.append(("PyTorch adapter", TorchLoop(resume_every=50), BOUNDS[2]))
    for name, loop, (*setting, epsilon, delta, runs) in rows:
        result, seconds = timed(certificate_of(*setting, epsilon, delta), loop, runs)
        assert result.passed, result.alarms
        print(
            f"| {name} | ({epsilon:g}, {delta:g}) | {result.trials:,} | {result.lower_bound:.2f} | "
            f"{result.lower_bound / epsilon:.0%} | {seconds:.0f} s |",
            flush=True,
        )
        if figure is not None and (delta, runs) == (1e-3, 1000):
            plot_audit(result, figure)


if __name__ == "__main__":
    faults()
    bounds(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
