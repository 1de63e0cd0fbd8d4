"""Messages name a flag or a file, and say what is wrong once."""

from pathlib import Path

import pytest

import minsep
from tests.cli.command_line import run

TASK = ["--examples", 60, "--batch-size", 6, "--iterations", 8, "--epsilon", 1, "--delta", 0.01]


@pytest.fixture
def certificate():
    identity = minsep.BandedToeplitz.identity(iterations=8)
    made = minsep.certify(minsep.Mechanism(identity, minsep.Poisson(rate=0.1), 2.0), epsilon=4.0, delta=1e-2)
    made.save("good.json")
    Path("cut.json").write_text(made.to_json()[:300])
    Path("forged.json").write_text(made.to_json().replace('"noise_multiplier": 2.0', '"noise_multiplier": 0.1'))
    return made


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["verify", "none.json"],
            "certificate is 'none.json', but the file cannot be read: No such file or directory.",
        ),
        (
            ["statement", "none.json"],
            "certificate is 'none.json', but the file cannot be read: No such file or directory.",
        ),
        (["verify", "cut.json"], "cut.json: This is not a certificate of minsep: Unterminated string"),
        (["statement", "cut.json"], "cut.json: This is not a certificate of minsep: Unterminated string"),
        (["audit", "forged.json"], "forged.json: The certificate does not hold: delta is"),
        (["statement", "forged.json"], "forged.json: The certificate does not hold: delta is"),
        (["bound", "none.csv", "--user-bound", 1], "The file 'none.csv' cannot be used: No such file or directory."),
        (["plan", *TASK[2:]], "--examples is missing: give the number of examples"),
        (
            ["plan", *TASK, "--batch-size", 5000],
            "--batch-size is 5000.0, but it must be a finite number above 0 and at most 60, the number of examples.",
        ),
        (
            ["calibrate", *TASK, "--batch-size", 5000],
            "--batch-size is 5000.0, but it must be a finite number above 0 and at most 60, the number of examples.",
        ),
        (
            ["serve", "--no-browser", "--port", 0, "--folder", "good.json"],
            "--folder is 'good.json', but runs cannot be kept there: File exists. Choose another folder.",
        ),
    ],
)
def test_a_message_names_its_flag_or_its_file_once(arguments, sentence, certificate):
    found = run(*arguments)
    assert (found.returncode, found.stdout) == (2, "")
    told = [line for line in found.stderr.splitlines() if not line.startswith("[")]  # progress, on a busy machine
    assert told[0].startswith(f"Error: {sentence}")
    assert len(told) == 1
    assert "Errno" not in found.stderr
    assert found.stderr.lower().count("does not hold") <= 1


def test_verify_speaks_of_its_flag():
    setting = ["--bands", 2, "--min-sep", 4, "--noise-multiplier", 1, "--seed", 0]
    assert run("certify", *TASK, *setting).returncode == 0
    found = run("verify", "certificate.json").stdout
    assert "--reproduce" in found
    assert "reproduce=True" not in found
