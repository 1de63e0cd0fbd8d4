import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer.testing

import minsep
import minsep.planning.planner
from minsep.accounting.certification import calibration
from minsep.accounting.certification.proofs import Refusal
from minsep.cli import output
from minsep.cli.app import app
from minsep.cli.progress import Bar
from minsep.core.install import install_command
from tests.cli.command_line import WIDE, run

ENVIRONMENT = os.environ | WIDE


def test_the_module_is_the_command_line():
    command = [sys.executable, "-m", "minsep", "strategy", "--iterations"]
    for iterations, status in (("5", 0), ("0", 2)):
        done = subprocess.run([*command, iterations, "--bands", "1"], capture_output=True, text=True, env=ENVIRONMENT)
        here = run("strategy", "--iterations", iterations, "--bands", "1")
        assert (done.returncode, done.stdout, done.stderr) == here == (status, here.stdout, here.stderr)


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


def test_batches_of_a_certificate(tmp_path):
    mechanism = minsep.Mechanism(
        minsep.BandedToeplitz.identity(iterations=30), minsep.Poisson(rate=0.04), noise_multiplier=2.0
    )
    certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-3)
    certificate.save(tmp_path / "certificate.json")
    arguments = ["batches", "--examples", "500", "--certificate", str(tmp_path / "certificate.json")]
    result = run(*arguments, "--seed", "7", "-o", str(tmp_path / "batches.jsonl"), "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["iterations"] == 30
    drawn = [json.loads(line) for line in (tmp_path / "batches.jsonl").read_text().splitlines()]
    # As for every setting, batches are those of the design at noise multiplier 1: their seeds do not depend on it.
    assert drawn == [batch.tolist() for batch in mechanism.batches(500, seed=7)]
    refused = run(*arguments, "--bands", "2", "--iterations", "30")
    assert refused.returncode == 2
    assert refused.stderr.count("but the certificate says what is sampled: omit it.") == 2
    assert "--batch-size is missing: give it, or a certificate." in run("batches", "--examples", "9").stderr
    content = json.loads(certificate.to_json())
    content["mechanism"]["noise_multiplier"] = 0.1
    (tmp_path / "certificate.json").write_text(json.dumps(content))
    forged = run(*arguments)
    assert forged.returncode == 2
    assert "certificate does not hold" in forged.stderr
    assert run(*arguments, "--no-verify").returncode == 0


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
    expected = list(mechanism.batches(500, seed=7))
    saved = np.load(path)
    for i, batch in enumerate(expected):
        assert saved["indices"][saved["offsets"][i] : saved["offsets"][i + 1]].tolist() == batch.tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["strategy", "--iterations", "5", "--bands", "6"], "--bands is 6, but it must be"),
        (["batches", "--examples", "0", "--batch-size", "1", "--iterations", "1"], "--examples is 0, but it must be"),
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


REPEATS = ([], ["--reproduce"])


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
    assert "provided you run it only if it passes" in certified.stdout
    verified = run("verify", str(path), "--json")
    assert (verified.returncode, json.loads(verified.stdout)["holds"]) == (0, True)
    first, second = (len(json.loads(run("verify", str(path), "--json", *more).stdout)["caveats"]) for more in REPEATS)
    assert second == first - 1  # repeating the prover shows that laws were chosen before their samples were drawn
    path.write_text(path.read_text().replace('"epsilon": 2.0', '"epsilon": 1.9'))
    tampered = run("verify", str(path))
    assert tampered.returncode == 1
    assert "the file was changed" in tampered.stdout
    assert json.loads(run("verify", str(path), "--json").stdout)["holds"] is False
    path.write_text("no certificate")
    assert run("verify", str(path)).returncode == 2
    assert run("verify", str(tmp_path / "none.json")).returncode == 2


def test_a_refused_certificate_exits_1(tmp_path):
    result = run("certify", *SMALL, "--noise-multiplier", "0.3", "--epsilon", "1", "--delta", "1e-4", "--seed", "0")
    assert result.returncode == 1
    assert "Not certified" in result.stdout
    assert "b-min-sep, b = 4, 2 bands" in result.stdout
    assert "delta is estimated at" in result.stdout
    assert "Try a larger noise multiplier" in result.stdout


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
    assert "\x1b" not in result.stderr  # no bar without a terminal; matplotlib may speak of its caches
    assert "mechanisms, ranked by estimates" in result.stdout
    assert "(chosen)" in result.stdout
    assert "less error than DP-SGD" in " ".join(result.stdout.replace("│", " ").split())
    assert "Train with" in result.stdout
    assert all(path.stat().st_size > 1000 for path in files.values())
    assert minsep.verify(minsep.Certificate.load(files["certificate.json"])).holds


def test_the_lines_that_train_say_what_they_need_where_it_is_missing(monkeypatch, capsys):
    output.print_training("import torch\n")
    assert "install" not in capsys.readouterr().out
    monkeypatch.setattr(output, "find_spec", lambda name: None)
    output.print_training("import torch\n")
    assert capsys.readouterr().out.endswith(f"not installed here: {install_command('torch')}\n")


def test_plan_says_all_that_is_wrong_at_once(tmp_path):
    result = run(
        "plan", "--examples", "10", "--batch-size", "20", "--iterations", "0", "--epsilon", "-1", "--delta", "2",
        "--scheme", "shuffle",
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stdout == ""
    names = [line.removeprefix("Error: ").split(" is ")[0] for line in result.stderr.splitlines()]
    assert names == ["--epsilon", "--delta", "--batch-size", "--iterations", "--scheme"]
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
    dp_sgd = next(one for one in found["table"] if one["scheme"] == "poisson")
    assert found["against_dp_sgd"]["its_error"] == dp_sgd["error"]
    assert found["headline"].endswith("at epsilon 4")


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
    process = subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, close_fds=True, env=ENVIRONMENT
    )
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
    status, written = in_a_terminal("calibrate", *SMALL, "--epsilon", "1", "--delta", "1e-2", "--seed", "1")
    assert status == 0
    assert "estimating noise multiplier" in written
    assert "testing noise multiplier" in written
    assert " samples" in written


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


def test_the_version_is_printed():
    assert run("--version").stdout == f"minsep {minsep.__version__}\n"


def test_numbers_may_be_written_as_people_write_them():
    plain, other = (
        run("batches", "--examples", examples, "--batch-size", size, "--iterations", count, "--seed", "1", "--json")
        for examples, size, count in (("60000", "1024", "20"), ("60,000", "1,024", "2e1"))
    )
    assert plain.returncode == other.returncode == 0
    assert plain.stdout == other.stdout
    for bad in ("6,00", "1.5", "many", "1e400"):
        refused = run("strategy", "--iterations", bad, "--bands", "1")
        assert refused.returncode == 2
        assert "is not a whole number" in refused.stderr


def test_options_that_a_scheme_does_not_have_are_refused():
    for scheme in ("poisson", "random-allocation", "balls-in-bins", "unamplified"):
        result = run("delta", *SMALL, "--scheme", scheme, "--noise-multiplier", "1", "--epsilon", "1")
        assert result.returncode == 2
        assert f"--min-sep is 4, but the scheme {scheme} " in result.stderr
    result = run("plan", *TASK, "--scheme", "poisson", "--min-sep", "4")
    assert result.returncode == 2
    assert "min-sep is not among the schemes" in result.stderr


@pytest.mark.parametrize(
    ("scheme", "made"),
    [
        ("min-sep", minsep.MinSep(0.04, 4)),
        ("cold-min-sep", minsep.MinSep(0.04, 4, "cold")),
        ("cyclic-poisson", minsep.CyclicPoisson(0.04, 4)),
        ("poisson", minsep.Poisson(0.04)),
        ("balls-in-bins", minsep.BallsInBins(25)),
        ("random-allocation", minsep.RandomAllocation(25)),
        ("unamplified", minsep.Unamplified(25, 2)),
    ],
)
@pytest.mark.parametrize("suffix", ["npz", "csv", "jsonl", "parquet"])
def test_batches_of_every_scheme_in_the_format_of_the_file(scheme, made, suffix, tmp_path):
    path = tmp_path / f"batches.{suffix}"
    separation = ["--min-sep", "4"] if "sep" in scheme or "cyclic" in scheme else []
    runner = typer.testing.CliRunner()
    arguments = ["--examples", "500", "--batch-size", "20", "--iterations", "30", "--seed", "7", "-o", str(path)]
    result = runner.invoke(app, ["batches", *arguments, "--scheme", scheme, *separation, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["scheme"] == made.name
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=30), made, 1.0)
    expected = [batch.tolist() for batch in mechanism.batches(500, seed=7)]
    assert read_batches(path) == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def read_batches(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".npz":
        saved = np.load(path)
        return [part.tolist() for part in np.split(saved["indices"], saved["offsets"][1:-1])]
    if path.suffix == ".csv":
        rows = [line.split(",") for line in path.read_text().split()[1:]]
    else:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        rows = zip(table["iteration"].to_pylist(), table["index"].to_pylist(), strict=True)
    batches = [[] for _ in range(30)]
    for iteration, index in rows:
        batches[int(iteration)].append(int(index))
    return batches


def test_files_that_cannot_be_written_are_refused_before_any_work(tmp_path, monkeypatch):
    runner = typer.testing.CliRunner()
    monkeypatch.setattr(minsep.planning.planner, "Search", None)  # any work would fail

    def problems(*options):
        result = runner.invoke(app, ["plan", *TASK, *options])
        assert isinstance(result.exception, ValueError)
        return str(result.exception)

    same = str(tmp_path / "one.html")
    assert "report is" in problems("-o", same, "--report", same)
    assert "its own file" in problems("-o", same, "--report", same)
    assert "it is a folder" in problems("-o", str(tmp_path))
    (tmp_path / "loop.json").symlink_to("loop.json")
    assert "a link that leads back to itself" in problems("-o", str(tmp_path / "loop.json"))
    assert "does not exist" in problems("-o", str(tmp_path / "none" / "c.json"))
    assert "cannot be written to" in problems("-o", "/proc/c.json")
    assert "plot is 'x.pdf', but its suffix must be" in problems("--plot", "x.pdf")
    monkeypatch.setattr("minsep.show.report.files.find_spec", lambda name: None)
    assert "Reports and plots need plotly" in problems("--report", same)


@pytest.mark.parametrize("command", ["plan", "certify"])
def test_a_result_is_printed_even_if_it_cannot_be_written(command, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minsep.accounting.certification.certificate.write_whole", fail)
    path = str(tmp_path / "certificate.json")
    arguments = {
        "plan": [*TASK, "--scheme", "poisson", "--seed", "0"],
        "certify": [*SMALL, "--noise-multiplier", "2", "--epsilon", "2", "--delta", "1e-3"],
    }[command]
    result = typer.testing.CliRunner().invoke(app, [command, *arguments, "-o", path])
    assert "could not be written: No space left" in str(result.exception)
    printed = result.stdout[result.stdout.index("{") :]
    assert minsep.Certificate.from_json(printed).passed


def test_a_fallback_is_announced_first_and_named(monkeypatch):
    certify_by = calibration.certify_by

    def rejecting(prover, mechanism, *arguments):
        found = certify_by(prover, mechanism, *arguments)
        if not isinstance(mechanism.scheme, minsep.MinSep):
            return found
        return replace(found, proofs=tuple(Refusal(proof.claim, "no luck") for proof in found.proofs))

    monkeypatch.setattr(calibration, "certify_by", rejecting)
    arguments = [*TASK, "--min-sep", "4", "--seed", "1"]
    runner = typer.testing.CliRunner(env={"COLUMNS": "120"})
    planned = runner.invoke(app, ["plan", *arguments, "--max-bands", "2", "--scheme", "min-sep", "--no-tune"])
    calibrated = runner.invoke(app, ["calibrate", *arguments, "--bands", "2"])
    for result in (planned, calibrated):
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("b-min-sep, b = 4, 2 bands was not certified")
        assert "so this is cyclic Poisson, cycle 4, 2 bands, which has an exact proof." in result.stdout
        (row,) = (line for line in result.stdout.splitlines() if "│ Mechanism" in line)
        assert "cyclic Poisson, cycle 4, 2 bands" in row
    assert "Train with cyclic Poisson, cycle 4, 2 bands" in planned.stdout.replace("\n", " ")


def test_edges_of_a_budget_are_refused_skipped_or_answered():
    refused = run("plan", *TASK[:-1], "1")
    assert refused.returncode == 2
    assert refused.stderr == "Error: --delta is 1.0, but it must be a finite number above 0 and below 0.5.\n"
    small = ["--max-bands", "2", "--no-tune", "--seed", "0"]
    schemes = ["--scheme", "poisson", "--scheme", "cyclic-poisson", "--scheme", "min-sep", "--min-sep", "2"]
    tiny = run("plan", *TASK[:-1], "1e-15", *small, *schemes, "--json")
    assert tiny.returncode == 0, tiny.stderr
    found = json.loads(tiny.stdout)
    assert found["certificate"]["passed"]
    assert found["against_dp_sgd"] is None
    skipped = {one["scheme"] for one in found["table"] if "needs a delta of at least" in one["skipped"]}
    assert skipped == {"poisson", "cyclic-poisson"}
    large = run("plan", *TASK[:-3], "25", "--delta", "1e-5", *small, "--scheme", "min-sep", "--min-sep", "2")
    assert large.returncode == 0, large.stderr
    beyond = run("plan", *TASK[:-3], "100", "--delta", "1e-5", *small, "--scheme", "min-sep", "--min-sep", "2")
    assert beyond.returncode == 2
    assert "loses 0.00035 of epsilon and all of delta to rounding: state model_size" in beyond.stderr
    # An epoch of 100,000 batches, of which the run has 60.
    longer = ["--examples", "5e6", "--batch-size", "50", "--iterations", "60"]
    budget = ["--epsilon", "4", "--delta", "1e-5"]
    bins = run("plan", *longer, *budget, *small, "--scheme", "balls-in-bins")
    assert bins.returncode == 0, bins.stderr
    assert "Train with balls-in-bins, epoch 100000" in bins.stdout
    for cut in ([], ["--max-batch-size", "120"]):
        certified = run(
            "certify", *longer, *budget, *cut, "--bands", "2", "--scheme", "balls-in-bins", "--noise-multiplier", "0.4"
        )
        assert certified.returncode == 0, certified.stderr


def test_outside_of_a_terminal_something_is_said_at_times(monkeypatch, capfd):
    monkeypatch.setattr("minsep.cli.progress._SECONDS_BETWEEN_LINES", 0.05)

    def said(words):
        while f"s] {words}\n" not in capfd.readouterr().err:
            time.sleep(0.01)

    with Bar("verifying") as bar:
        said("verifying")
        bar.show("drawing")
        said("drawing")
    capfd.readouterr()
    time.sleep(0.2)  # some times as long as it would be silent
    assert capfd.readouterr().err == ""


def test_no_writable_home_and_a_read_only_installation_are_no_hindrance(tmp_path):
    package = tmp_path / "minsep"
    source = Path(minsep.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()  # a file, so that nothing can be kept there even by root
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {
        name: value for name, value in ENVIRONMENT.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    } | {
        "HOME": "/proc/nobody",
        "PYTHONPATH": str(tmp_path),
        "TMPDIR": str(temporary),
    }
    command = [sys.executable, "-m", "minsep", "strategy", "--iterations", "30", "--bands", "3"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (cache,) = temporary.glob("minsep-*")
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert list(cache.rglob("*.nbi"))
    # A folder that somebody else could have filled is not used.
    cache.chmod(0o777)
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(list(temporary.glob("minsep-*"))) == 2


def test_a_plan_for_users_bounds_counts_and_recommends(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("example,user\n" + "".join(f"{k},{k // 2}\n{k},{1000 + k // 3}\n" for k in range(600)))
    path = tmp_path / "certificate.json"
    arguments = ["--batch-size", "10", "--iterations", "20", "--epsilon", "4", "--delta", "1e-2", "--scheme", "poisson"]
    planned = run("plan", "--edges", str(edges), "--user-bound", "1,2", *arguments, "--seed", "0", "-o", str(path))
    assert planned.returncode == 0, planned.stderr
    assert "Bounds on the examples of a user" in planned.stdout
    assert "Keep at most 2 examples of a user" in planned.stdout
    assert run("verify", str(path)).returncode == 0
    both = run("plan", "--edges", str(edges), "--examples", "600", *arguments)
    assert both.returncode == 2
    assert "--examples is 600, but the file of edges says how many there are" in both.stderr
    assert "--user-bound is 'two'" in run("plan", "--edges", str(edges), "--user-bound", "two", *arguments).stderr
    without = "plan", "--examples", "1000", *arguments
    assert "but without edges it must be one number." in run(*without, "--user-bound", "1,2").stderr
    edges.write_text("example,user\n0,0\nbroken\n")
    broken = run("plan", "--edges", str(edges), *arguments)
    assert broken.returncode == 2
    assert "Traceback" not in broken.stderr
    assert not (tmp_path / "plan.json").exists()
