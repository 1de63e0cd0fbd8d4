"""What is named is the same on every processor: identities, batches, noise, plans, checkpoints and journals."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.processors.environments import ENVIRONMENTS, variables

OTHERS = [name for name in ENVIRONMENTS if ENVIRONMENTS[name]]
OLDEST = OTHERS[-1]
ROUNDING = 1e-4  # of weights after eleven steps in single precision


def run(environment, *command, check=True):
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        env=variables(environment),
        capture_output=True,
        text=True,
        check=check,
    )


def test_strategies_batches_and_noise_of_a_seed_are_the_same_on_every_processor():
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda name: run(name, "tests.goldens.compute", "strategies", "batches", "noise"), OTHERS)
    assert {name: done.stdout for name, done in zip(OTHERS, found, strict=True)} == dict.fromkeys(OTHERS, "")


@pytest.mark.slow
@pytest.mark.parametrize("environment", OTHERS)
def test_estimates_certificates_and_plans_are_the_same_on_every_processor(environment):
    assert run(environment, "tests.goldens.compute").stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("environment", OTHERS)
def test_a_checkpoint_of_one_processor_resumes_on_another(environment, tmp_path):
    straight, resumed, checkpoint = (tmp_path / name for name in ("straight.npy", "resumed.npy", "run.checkpoint"))
    run("this processor", "tests.training.small", tmp_path / "other.checkpoint", straight)
    killed = run("this processor", "tests.training.small", checkpoint, resumed, 8, check=False)
    assert (killed.returncode, resumed.exists()) == (-9, False)
    run(environment, "tests.training.small", checkpoint, resumed)
    np.testing.assert_allclose(np.load(resumed), np.load(straight), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("environment", OTHERS)
def test_a_journal_of_one_processor_goes_on_on_another(environment, tmp_path):
    whole, half = tmp_path / "whole.journal", tmp_path / "half.journal"
    first = run("this processor", "tests.processors.planning", whole).stdout
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in (len(lines) // 4, len(lines) // 2, len(lines) - 1, len(lines)):
        half.write_bytes(b"".join(lines[:kept]))
        assert run(environment, "tests.processors.planning", half).stdout == first
