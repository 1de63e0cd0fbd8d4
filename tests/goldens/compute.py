"""Outputs of seeded mechanisms, pinned: whatever changes one of them changes what users see under a seed.

`python -m tests.goldens.compute [PART...]` prints what differs from the file; `--write` writes the file anew.
"""

import hashlib
import json
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np

import minsep
from minsep import paper

FILE = Path(__file__).with_name("goldens.json")

STRATEGY = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
IDENTITY = minsep.BandedToeplitz.identity(iterations=60)
GRAPH = minsep.AttributionGraph.from_lists([[k, k + 1] for k in range(500)])
MIN_SEP = minsep.MinSep(rate=0.02, min_sep=10)

SCHEMES = {
    "poisson": minsep.Poisson(0.02),
    "cyclic": minsep.CyclicPoisson(0.02, 10),
    "cyclic with equal parts": minsep.CyclicPoisson(0.02, 10, "equal"),
    "balls-in-bins": minsep.BallsInBins(50),
    "random allocation": minsep.RandomAllocation(25),
    "b-min-sep": MIN_SEP,
    "b-min-sep, cold": minsep.MinSep(0.02, 10, "cold"),
    "fixed order": minsep.Unamplified(30, 2),
    "several users": minsep.MultiAttributionMinSep(0.02, 4, GRAPH, accept_assumption=True),
}


def strategies():
    """Identities: the same on every processor, to the last digit."""
    sizes = {"60 by 4": (60, 4), "500 by 33": (500, 33), "2000 by 64": (2000, 64)}
    workload = minsep.Workload(momentum=0.9, horizon=100)
    found = {
        "optimal": minsep.BandedToeplitz.optimal,
        "optimal for a workload": partial(minsep.BandedToeplitz.optimal, workload=workload),
        "square root": minsep.BandedToeplitz.square_root,
        "inverse, optimal": minsep.BandedInverseToeplitz.optimal,
        "inverse, of several": partial(minsep.BandedInverseToeplitz.optimal, min_sep=20, participations=3),
        "inverse, square root": minsep.BandedInverseToeplitz.square_root,
        "lambda-CGD": lambda iterations, bands: minsep.LambdaCGD.optimal(
            iterations=iterations, min_sep=5 * bands, participations=3
        ),
        "gamma-BIFR": minsep.GammaBIFR.optimal,
        "buffered": lambda iterations, bands: minsep.BufferedToeplitz.optimal(
            iterations=iterations, buffers=3, min_sep=5 * bands, participations=3
        ),
        "damped": lambda **size: minsep.BandedInverseToeplitz.optimal(**size).damped(0.98),
        "shrunk": lambda **size: minsep.BandedToeplitz.optimal(**size).shrunk(0.35),
        "from coefficients": lambda iterations, bands: minsep.BandedToeplitz(1 / np.arange(1, bands + 1), iterations),
        "dense": lambda iterations, bands: minsep.Dense(np.tril(1 / (1 + np.add.outer(range(bands), range(bands))))),
    }
    return {
        f"{name}, {size}": make(iterations=n, bands=bands).fingerprint
        for name, make in found.items()
        for size, (n, bands) in sizes.items()
    }


def batches():
    found = {}
    for name, scheme in SCHEMES.items():
        for cut in (None, minsep.Truncation(12)):
            drawn = minsep.Mechanism(STRATEGY, scheme, 1.0, cut).batches(500, seed=3)
            text = json.dumps([batch.indices.tolist() for batch in drawn.with_masks()])
            found[name + (", cut" if cut else "")] = hashlib.sha256(text.encode()).hexdigest()
    return found


def noise():
    strategies = {
        "banded": STRATEGY,
        "banded inverse": minsep.BandedInverseToeplitz.optimal(iterations=60, bands=3),
        "buffered": minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=60),
        "dense": minsep.Dense(np.tril(np.ones((60, 60)))),
    }
    return {
        name: [
            [float(value) for value in row[:3]]
            for row in list(minsep.Mechanism(strategy, MIN_SEP, 1.5).noise(7, np.float64, seed=4))[::20]
        ]
        for name, strategy in strategies.items()
    }


def estimates():
    mechanisms = {
        "b-min-sep": minsep.Mechanism(STRATEGY, MIN_SEP, 0.8),
        "b-min-sep, cold": minsep.Mechanism(STRATEGY, SCHEMES["b-min-sep, cold"], 0.8),
        "b-min-sep, cut": minsep.Mechanism(STRATEGY, MIN_SEP, 0.8, minsep.Truncation(20, 500)),
        "balls-in-bins": minsep.Mechanism(STRATEGY, SCHEMES["balls-in-bins"], 0.8),
        "balls-in-bins, overlapping": minsep.Mechanism(STRATEGY, minsep.BallsInBins(3), 3.0),
        "cyclic": minsep.Mechanism(STRATEGY, SCHEMES["cyclic"], 0.8),
        "poisson": minsep.Mechanism(IDENTITY, SCHEMES["poisson"], 0.8),
        "poisson, overlapping": minsep.Mechanism(STRATEGY, minsep.Poisson(0.002), 0.8),
        "fixed order": minsep.Mechanism(STRATEGY, SCHEMES["fixed order"], 2.0),
        "several users": minsep.Mechanism(STRATEGY, SCHEMES["several users"], 1.2),
        "public coins": minsep.Mechanism(STRATEGY, SCHEMES["several users"].with_public_coins(), 3.0),
    }
    found = {}
    for name, mechanism in mechanisms.items():
        delta = minsep.estimate_delta(mechanism, 1.5, samples=4000, seed=1)
        epsilon = minsep.estimate_epsilon(mechanism, 1e-2, samples=4000, seed=1)
        found[name] = [delta.value, delta.stderr, delta.remove, delta.add, epsilon.value, epsilon.stderr]
    cyclic = mechanisms["cyclic"]
    found["cyclic, sampled"] = minsep.estimate_delta(cyclic, 1.5, samples=4000, seed=1, method="plain").value
    return found


def _proof(proof):
    names = ("kind", "samples", "bound", "log_constant", "law")
    found = {name: getattr(proof, name) for name in names if hasattr(proof, name)}
    outcome = getattr(proof, "outcome", None)
    return found | ({} if outcome is None else {"log_wealth": outcome.log_wealth})


def certificates():
    mechanisms = {
        "b-min-sep": (minsep.Mechanism(STRATEGY, MIN_SEP, 0.95), 1e-3),
        "b-min-sep at small delta": (minsep.Mechanism(STRATEGY, MIN_SEP, 1.45), 1e-6),
        "b-min-sep, cold": (minsep.Mechanism(STRATEGY, SCHEMES["b-min-sep, cold"], 0.95), 1e-3),
        "b-min-sep, cut": (minsep.Mechanism(STRATEGY, MIN_SEP, 0.9, minsep.Truncation(40, 500)), 1e-3),
        "balls-in-bins": (minsep.Mechanism(STRATEGY, SCHEMES["balls-in-bins"], 1.0), 1e-3),
        "balls-in-bins, buffered": (
            minsep.Mechanism(minsep.BufferedToeplitz([0.9], [0.2], 60), minsep.BallsInBins(20), 2.2),
            1e-3,
        ),
        "poisson": (minsep.Mechanism(IDENTITY, SCHEMES["poisson"], 1.0), 1e-3),
        "several users": (minsep.Mechanism(STRATEGY, SCHEMES["several users"], 2.0), 1e-3),
        "refused": (minsep.Mechanism(STRATEGY, MIN_SEP, 0.5), 1e-3),
    }
    found = {}
    for name, (mechanism, delta) in mechanisms.items():
        certificate = minsep.certify(mechanism, 1.5, delta, seed=5)
        found[name] = [certificate.passed, certificate.level, *map(_proof, certificate.proofs)]
    fixed = paper.certify(mechanisms["b-min-sep"][0], 2.0, 5e-2, seed=5)
    found["the paper's verifier"] = [fixed.passed, fixed.samples, fixed.level]
    return found


def calibrations():
    found = {}
    for name in ("b-min-sep", "balls-in-bins", "several users"):
        best = minsep.calibrate(STRATEGY, SCHEMES[name], epsilon=2.0, delta=1e-3, seed=6)
        found[name] = [[rung.noise_multiplier, rung.passed, rung.samples] for rung in best.rungs]
        found[name].append(best.mechanism.noise_multiplier)
    return found


def plans():
    best = minsep.plan(2000, 40, 60, epsilon=2.0, delta=1e-3, max_bands=8, seed=7)
    table = [[one.scheme, one.bands, one.min_sep, one.noise_multiplier, one.error] for one in best.table]
    ratios = paper.compare(32, epsilons=[2.0], epochs=[16], max_bands=4)
    return {
        "plan": [table, best.mechanism.noise_multiplier, best.certificate.samples],
        "comparison": [ratios.ratios("cyclic-poisson"), ratios.ratios("balls-in-bins")],
    }


PARTS = {part.__name__: part for part in (strategies, batches, noise, estimates, certificates, calibrations, plans)}


def compute(names=tuple(PARTS)):
    return json.loads(json.dumps({name: PARTS[name]() for name in names}))


def close(pinned, found):
    """Floats may differ in their last digits from processor to processor; nothing else may."""
    if isinstance(pinned, float) and isinstance(found, float | int):
        return math.isclose(pinned, found, rel_tol=1e-6, abs_tol=1e-12)
    return pinned == found


def differences(pinned, found, name=""):
    """Yield the name, the pinned value and the value found, wherever they differ."""
    if isinstance(pinned, dict) and isinstance(found, dict):
        for key in sorted({*pinned, *found}):
            yield from differences(pinned.get(key), found.get(key), f"{name}/{key}")
    elif isinstance(pinned, list) and isinstance(found, list) and len(pinned) == len(found):
        for place, (one, other) in enumerate(zip(pinned, found, strict=True)):
            yield from differences(one, other, f"{name}/{place}")
    elif not close(pinned, found):
        yield name, pinned, found


if __name__ == "__main__":
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(compute(), indent=1) + "\n")
    else:
        asked = sys.argv[1:] or list(PARTS)
        everything = json.loads(FILE.read_text())
        for difference in differences({name: everything.get(name) for name in asked}, compute(asked)):
            print(*difference)
