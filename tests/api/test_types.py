import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
from typing import reveal_type

import numpy as np

import minsep

strategy: minsep.BandedToeplitz = minsep.BandedToeplitz.optimal(iterations=2000, bands=16)
scheme = minsep.MinSep(rate=512 / 60_000, min_sep=16)
mechanism = minsep.Mechanism(strategy, scheme, noise_multiplier=0.8)
estimate = minsep.estimate_delta(mechanism, epsilon=4.0, samples=20_000, seed=0, compute=minsep.Compute(workers=1))
value: float = estimate.value
certificate: minsep.Certificate = minsep.certify(mechanism, epsilon=4.0, delta=1e-5)
passed: bool = minsep.verify(certificate, reproduce=True).holds
best: minsep.Calibration = minsep.calibrate(strategy, scheme, epsilon=4.0, delta=1e-5)
plan = minsep.plan(num_examples=60_000, batch_size=512, iterations=2000, epsilon=4.0, delta=1e-5)
for indices in plan.mechanism.batches(num_examples=60_000):
    total: np.int64 = indices.sum()
reveal_type(estimate.stderr)
reveal_type(plan.certificate.statement)
minsep.certify(mechanism, epsilon='four', delta=1e-5)
minsep.plan(60_000, 512, 2000, 4.0, 1e-5, worker=3)
"""


def test_a_caller_sees_types(tmp_path):
    """Two mistakes of a user are found, and nothing else."""
    (tmp_path / "caller.py").write_text(PROGRAM)
    # With the settings and the cache of `make check`, which has just looked at all that the program imports.
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    command = [sys.executable, "-m", "mypy", "--strict", *options, "caller.py"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout
    assert found.count("error:") == 2, found
    assert 'Argument "epsilon" to "certify" has incompatible type "str"' in found
    assert 'Unexpected keyword argument "worker" for "plan"' in found
    assert 'Revealed type is "float"' in found
    assert 'Revealed type is "str"' in found
