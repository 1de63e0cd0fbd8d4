"""Estimates of delta over a grid of settings, 20,000 samples each: `python -m benchmarks.estimates [--few]`.

For every scheme, epsilon and delta, the noise is the one at which delta is about the target; what is shown is how well
20,000 samples resolve delta there. Where delta is 1e-3, plain samples of jax-privacy 2.0.0 stand beside it, if that is
installed.
"""

import argparse
import importlib.util
import math
import time

import numpy as np

import minsep
from minsep.accounting.estimation import estimated_noise_multiplier, guessed_noise_multiplier

SAMPLES = 20_000
MOST_RELATIVE_ERROR = 0.1


def settings() -> list[tuple[str, minsep.Design, float, float]]:
    """Return (name, design, epsilon, delta)."""
    optimal, identity = minsep.BandedToeplitz.optimal, minsep.BandedToeplitz.identity
    designs = {
        "b-min-sep n 1,000 b 8, 8 bands": minsep.Design(optimal(iterations=1000, bands=8), minsep.MinSep(0.004, 8)),
        "b-min-sep n 2,000 b 64, 64 bands": minsep.Design(
            optimal(iterations=2000, bands=64), minsep.MinSep(512 / 60_000, 64)
        ),
        "b-min-sep n 2,000 b 117, 16 bands": minsep.Design(
            optimal(iterations=2000, bands=16), minsep.MinSep(512 / 60_000, 117)
        ),
        "b-min-sep n 10,000 b 512, 32 bands": minsep.Design(
            optimal(iterations=10_000, bands=32), minsep.MinSep(0.001, 512)
        ),
        "b-min-sep n 300 b 4, identity": minsep.Design(identity(iterations=300), minsep.MinSep(0.01, 4)),
        "Poisson n 1,000, sampled": minsep.Design(identity(iterations=1000), minsep.MinSep(0.01, 1)),
        "balls-in-bins n 512 epoch 64, 8 bands": minsep.Design(
            optimal(iterations=512, bands=8), minsep.BallsInBins(64)
        ),
        "balls-in-bins n 64 epoch 64, identity": minsep.Design(identity(iterations=64), minsep.BallsInBins(64)),
    }
    budgets = [(0.05, 1e-3), (0.5, 1e-12), (2.0, 1e-6), (8.0, 1e-9), (30.0, 1e-12)]
    return [(name, design, *budget) for name, design in designs.items() for budget in budgets]


def peers_error(mechanism: minsep.Mechanism, epsilon: float) -> float:
    """Return the relative standard error of as many plain samples of the peer."""
    from jax_privacy import batch_selection
    from jax_privacy.experimental.monte_carlo import sample_generation

    scheme = mechanism.scheme
    assert isinstance(scheme, minsep.MinSep)
    sampling = batch_selection.BMinSepSampling(
        sampling_prob=scheme.sampling_prob, iterations=mechanism.iterations, min_sep=scheme.min_sep, warm_start=True
    )
    column = np.asarray(mechanism.strategy.coefficients)
    losses = []
    for _ in range(-(-SAMPLES // 1000)):
        samples = sample_generation.generate_sample(sampling, mechanism.noise_multiplier, column, num_samples=1000)
        losses.append(sample_generation.compute_privacy_loss(sampling, samples, mechanism.noise_multiplier, column))
    values = np.maximum(-np.expm1(np.minimum(epsilon - np.concatenate(losses), 0.0)), 0.0)
    return float(values.std() / math.sqrt(values.size) / values.mean()) if values.any() else math.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", action="store_true", help="every fourth setting")
    chosen = settings()[:: 4 if parser.parse_args().few else 1]
    peer = importlib.util.find_spec("jax_privacy") is not None
    print("| setting | epsilon | target | noise | remove | add | seconds | peer, plain |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    good = 0
    for name, design, epsilon, delta in chosen:
        budget = minsep.Budget(epsilon, delta)
        guess, slope = guessed_noise_multiplier(design, budget, 100.0)
        sigma = estimated_noise_multiplier(design, budget, guess, 4000, 0, directions=["remove"], slope=slope)
        start = time.perf_counter()
        found = minsep.estimate_delta(design.with_noise(sigma), epsilon, samples=SAMPLES, method="tilted")
        took = time.perf_counter() - start
        good += found.remove_stderr <= MOST_RELATIVE_ERROR * found.remove and _fine(found.add, found.add_stderr)
        beside = ""
        if peer and delta >= 1e-3 and isinstance(design.scheme, minsep.MinSep):
            beside = f"± {100 * peers_error(design.with_noise(sigma), epsilon):.0f} %"
        cells = [
            _shown(found.remove, found.remove_stderr, found.remove_bound),
            _shown(found.add, found.add_stderr, found.add_bound),
        ]
        row = [name, f"{epsilon:g}", f"{delta:g}", f"{sigma:.3f}", *cells, f"{took:.1f}", beside]
        print("| " + " | ".join(row) + " |", flush=True)
    print(f"{good} of {len(chosen)} settings have a relative standard error of at most 10 % in both directions.")


def _fine(value: float, stderr: float) -> bool:
    return stderr <= MOST_RELATIVE_ERROR * value


def _shown(value: float, stderr: float, bound: float | None) -> str:
    if math.isinf(stderr):
        return f"not resolved, at most {bound:.2g}"
    return f"{value:.3g}" + (f" ± {100 * stderr / value:.1f} %" if value > 0 else "")


if __name__ == "__main__":
    main()
