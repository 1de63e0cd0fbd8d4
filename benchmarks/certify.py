"""Calibration with certificates: `python -m benchmarks.certify`. About ten minutes on two cores.

The last column is the estimated delta, in units of the target, at a noise multiplier 1.5 % below the certified one:
above 1, the certified multiplier is within 1.5 % of the one where the estimate meets the target.
"""

import sys
import time

from rich.console import Console
from rich.table import Table

import minsep
from minsep.accounting.sequential import fixed_sample_verifier


def main() -> None:
    table = Table(title="Calibrated noise multipliers, with certificates", title_justify="left")
    for heading in ("setting", "sigma", "samples", "seconds", "W", "plain samples", "delta 1.5 % lower"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    production = minsep.BandedToeplitz.optimal(iterations=7200, bands=256)
    settings = [
        (
            "production, epsilon 10",
            production,
            minsep.MinSep(1793 / 14_745_600, 256),
            10.0,
            1.301e-8,
            minsep.Truncation(2048, 14_745_600),
        )
    ]
    for bands in (8, 64):
        strategy = minsep.BandedToeplitz.optimal(iterations=1500, bands=bands)
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            name = f"n=1,500, {bands} bands, epsilon {epsilon:g}"
            settings.append((name, strategy, minsep.MinSep(1 / 300, bands), epsilon, 5.6e-6, None))
    for name, strategy, scheme, epsilon, delta, truncation in settings:
        start = time.perf_counter()
        found = minsep.calibrate(strategy, scheme, epsilon, delta, truncation)
        took = time.perf_counter() - start
        mechanism = minsep.Mechanism(strategy, scheme, found.mechanism.noise_multiplier / 1.015)
        lower = minsep.estimate_delta(mechanism, epsilon, seed=0)
        proof = found.certificate.proofs[0]
        table.add_row(
            name,
            f"{found.mechanism.noise_multiplier:.4f}",
            f"{sum(rung.samples for rung in found.rungs):,}",
            f"{took:.0f}",
            f"{proof.bound:.3g}",
            f"{fixed_sample_verifier(delta).samples:.2g}",
            f"{lower.value / delta:.3f} ± {lower.stderr / delta:.3f}",
        )
        print(f"{name}: {found.mechanism.noise_multiplier:.4f}, {took:.0f} s", file=sys.stderr, flush=True)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
