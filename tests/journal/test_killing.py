"""SIGKILL at random moments of a calibration: identical outcomes, and nothing tested twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(folder, outcomes, kills, seed):
    """Kill calibrations, and return how many lines their journals had at the kills."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.journal.killing", str(folder), *map(str, (outcomes, kills, seed))],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["found"] == [result["expected"]] * outcomes
    whole = (folder / "whole.journal").read_bytes()
    check_that_nothing_is_repeated([json.loads(line) for line in whole.splitlines()])
    # There is a line for every chunk, so a chunk that counted twice, or not, would show.
    assert all((folder / f"{number}.journal").read_bytes() == whole for number in range(outcomes))
    return result["lines_at_kills"]


def check_that_nothing_is_repeated(entries):
    chunks = 0
    for entry in entries:
        if entry.get("kind") == "fold":
            assert entry["chunks"] == chunks + 1
            chunks = 0 if entry["last"] else entry["chunks"]
    rungs = [entry["note"] for entry in entries if entry.get("kind") == "note"]
    assert rungs
    assert len(rungs) == len(set(rungs))
    assert [entry.get("kind") for entry in entries].count("end") == 1


def test_a_calibration_killed_at_some_moments_ends_the_same(tmp_path):
    assert len(check(tmp_path, outcomes=2, kills=3, seed=1)) >= 5


@pytest.mark.slow
def test_fifty_calibrations_killed_at_random_moments_end_the_same(tmp_path):
    lines = check(tmp_path, outcomes=50, kills=2, seed=2)
    assert len(lines) >= 90
    assert len(set(lines)) > 20
