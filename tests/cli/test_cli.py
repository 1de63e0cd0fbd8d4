import json
import os
import pty
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

import minsep

# Tables and bars are as wide as the terminal is.
WIDE = os.environ | {"COLUMNS": "120"}


def run(*arguments):
    command = [sys.executable, "-m", "minsep", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=WIDE)


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


SMALL = ["--examples", "1000", "--batch-size", "20", "--iterations", "40", "--bands", "2", "--min-sep", "4"]


def test_calibrate_certify_and_verify_agree(tmp_path):
    path = tmp_path / "certificate.json"
    budget = ["--epsilon", "2", "--delta", "1e-3", "--seed", "1"]
    calibrated = run("calibrate", *SMALL, *budget, "-o", str(path), "--json")
    assert calibrated.returncode == 0
    certificate = json.loads(calibrated.stdout)
    assert certificate == json.loads(path.read_text())
    assert certificate["passed"]
    sigma = certificate["mechanism"]["noise_multiplier"]
    certified = run("certify", *SMALL, *budget, "--noise-multiplier", str(1.05 * sigma))
    assert certified.returncode == 0
    assert "passed" in certified.stdout
    assert "Run only because it is certified" in certified.stdout
    verified = run("verify", str(path), "--json")
    assert (verified.returncode, json.loads(verified.stdout)["holds"]) == (0, True)
    path.write_text(path.read_text().replace('"epsilon": 2.0', '"epsilon": 1.9'))
    tampered = run("verify", str(path))
    assert tampered.returncode in (1, 2)
    assert "Traceback" not in tampered.stderr


def test_a_refused_certificate_exits_1(tmp_path):
    result = run("certify", *SMALL, "--noise-multiplier", "0.3", "--epsilon", "1", "--delta", "1e-4", "--seed", "0")
    assert result.returncode == 1
    assert "Not certified" in result.stdout


def test_the_paper_s_test_is_at_hand():
    arguments = ["--noise-multiplier", "2", "--epsilon", "2", "--delta", "1e-2", "--test", "fixed", "--json"]
    result = run("certify", *SMALL, *arguments)
    assert result.returncode == 0
    assert json.loads(result.stdout)["test"] == "fixed"


def test_estimates_have_their_error():
    delta = run("delta", *SMALL, "--noise-multiplier", "1", "--epsilon", "1", "--json")
    found = json.loads(delta.stdout)
    assert 0 < found["stderr"] < 0.1 * found["value"]
    epsilon = run("epsilon", *SMALL, "--noise-multiplier", "1", "--delta", str(found["value"]))
    assert epsilon.returncode == 0
    assert "estimate" in epsilon.stdout


TASK = ["--examples", "1000", "--batch-size", "20", "--iterations", "40", "--epsilon", "4", "--delta", "1e-2"]


def test_plan_writes_its_certificate_report_and_picture(tmp_path):
    files = {name: tmp_path / name for name in ("certificate.json", "plan.html", "plan.svg")}
    options = ["--max-bands", "2", "--no-tune", "--seed", "0", "-o", str(files["certificate.json"])]
    outputs = ["--report", str(files["plan.html"]), "--plot", str(files["plan.svg"])]
    result = run("plan", *TASK, *options, *outputs)
    assert result.returncode == 0, result.stderr
    assert "estimating" not in result.stderr  # no bar without a terminal; matplotlib may speak of its caches
    assert "mechanisms, ranked by estimates" in result.stdout
    assert "Train with" in result.stdout
    assert all(path.stat().st_size > 1000 for path in files.values())
    assert minsep.verify(minsep.Certificate.load(files["certificate.json"])).holds


def test_plan_says_all_that_is_wrong_at_once(tmp_path):
    result = run(
        "plan", "--examples", "10", "--batch-size", "20", "--iterations", "0", "--epsilon", "-1", "--delta", "2",
        "--scheme", "shuffle",
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stdout == ""
    names = [line.removeprefix("Error: ").split(" is ")[0] for line in result.stderr.splitlines()]
    assert names == ["batch_size", "iterations", "epsilon", "delta", "scheme"]
    missing = run("plan", *TASK, "--report", str(tmp_path / "none" / "plan.html"))
    assert missing.returncode == 2
    assert "does not exist" in missing.stderr


def test_plan_as_json_has_the_whole_table():
    result = run(
        "plan", *TASK, "--max-bands", "2", "--no-tune", "--scheme", "poisson", "--scheme", "cyclic-poisson", "--json"
    )
    assert result.returncode == 0
    found = json.loads(result.stdout)
    assert {one["scheme"] for one in found["table"]} == {"poisson", "cyclic-poisson"}
    assert found["certificate"]["passed"]


def test_compare_prints_ratios(tmp_path):
    arguments = ["--iterations", "32", "--epsilon", "2", "--epoch", "16", "--max-bands", "2"]
    result = run("compare", *arguments, "--plot", str(tmp_path / "ratios.png"))
    assert result.returncode == 0, result.stderr
    assert "over that of cyclic Poisson" in result.stdout
    assert (tmp_path / "ratios.png").stat().st_size > 1000
    cells = json.loads(run("compare", *arguments, "--json").stdout)["cells"]
    assert set(cells[0]["ratios"]) == {"cyclic-poisson", "balls-in-bins"}


def in_a_terminal(*arguments, interrupt_after=None):
    """Run a command in a pseudo-terminal; return its exit status and what it wrote there."""
    leader, follower = pty.openpty()
    # A shell that runs the tests in the background has them ignore Ctrl-C, and their children would inherit that.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-m", "minsep", *arguments]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, close_fds=True, env=WIDE)
    signal.signal(signal.SIGINT, inherited)
    os.close(follower)
    written, interrupted = b"", False
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux's answer when the other side is closed
            break
        if not piece:
            break
        written += piece
        if interrupt_after is not None and not interrupted and interrupt_after in written:
            process.send_signal(signal.SIGINT)
            interrupted = True
    os.close(leader)
    return process.wait(timeout=120), written.decode()


def test_a_terminal_shows_progress():
    status, written = in_a_terminal("calibrate", *SMALL, "--epsilon", "1", "--delta", "1e-4", "--seed", "1")
    assert status == 0
    assert "estimating at noise multiplier" in written
    assert "log-wealth" in written


def test_ctrl_c_stops_cleanly_and_says_what_was_under_way():
    arguments = [
        "--examples",
        "60000",
        "--batch-size",
        "512",
        "--iterations",
        "2000",
        "--epsilon",
        "4",
        "--delta",
        "1e-5",
    ]
    status, written = in_a_terminal("plan", *arguments, interrupt_after=b"estimating")
    assert status == 130
    assert "Stopped while estimating" in written
    assert "Nothing was written." in written
    assert "Traceback" not in written


def test_completion_is_offered():
    # Which shell is around is asked of its parent process, which is none here.
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-m", "minsep", "--show-completion", "bash"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert result.returncode == 0
    assert "minsep" in result.stdout.lower()


COMMANDS = ("plan", "calibrate", "certify", "verify", "delta", "epsilon", "compare", "strategy", "batches", "bound")


def test_help_has_an_example_for_every_command():
    top = run("--help")
    assert top.returncode == 0
    for command in COMMANDS:
        assert command in top.stdout
        assert f"Example: minsep {command} " in run(command, "--help").stdout
