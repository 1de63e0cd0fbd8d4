import json
import stat
import subprocess
import sys

import numpy as np
import pytest

import minsep


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "minsep", *arguments], capture_output=True, text=True, timeout=120)


def test_strategy_as_json_and_as_a_table():
    result = run("strategy", "--iterations", "200", "--bands", "12", "--json")
    assert result.returncode == 0
    found = json.loads(result.stdout)
    best = minsep.BandedToeplitz.optimal(iterations=200, bands=12)
    assert found["coefficients"] == best.coefficients.tolist()
    assert found["mean_squared_error"] == best.mean_squared_error
    table = run("strategy", "--iterations", "200", "--bands", "12")
    assert table.returncode == 0
    assert "200 iterations, 12 bands" in table.stdout


def test_batches_are_those_of_the_library(tmp_path):
    path = tmp_path / "batches.npz"
    arguments = ["--examples", "500", "--batch-size", "20", "--iterations", "30", "--min-sep", "5", "--seed", "7"]
    result = run("batches", *arguments, "--max-batch-size", "22", "-o", str(path), "--json")
    assert result.returncode == 0
    summary = json.loads(result.stdout)
    assert summary["largest_batch"] <= 22
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    mechanism = minsep.Mechanism(
        minsep.BandedToeplitz.identity(iterations=30),
        minsep.MinSep(rate=20 / 500, min_sep=5),
        1.0,
        minsep.Truncation(batch_size=22),
    )
    expected = [batch[batch >= 0] for batch in mechanism.batches(500, seed=7)]
    saved = np.load(path)
    for i, batch in enumerate(expected):
        assert saved["indices"][saved["offsets"][i] : saved["offsets"][i + 1]].tolist() == batch.tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["strategy", "--iterations", "5", "--bands", "6"], "bands is 6, but it must be"),
        (["batches", "--examples", "0", "--batch-size", "1", "--iterations", "1"], "examples is 0, but it must be"),
        (
            ["batches", "--examples", "100", "--batch-size", "50", "--iterations", "9", "--min-sep", "4"],
            "rate is 0.5, but with min_sep 4 it must be at most 1/4",
        ),
    ],
)
def test_bad_input_exits_2_with_one_sentence(arguments, sentence):
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {sentence}")
    assert result.stderr.count("\n") == 1


def test_help_has_an_example_for_every_command():
    top = run("--help")
    assert top.returncode == 0
    for command in ("strategy", "batches"):
        assert command in top.stdout
        assert f"Example: minsep {command} --" in run(command, "--help").stdout
