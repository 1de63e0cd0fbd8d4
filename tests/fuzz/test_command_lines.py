"""Any command line ends with 0, 1 or 2, without a traceback, and leaves whole files or none."""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st

import minsep
from minsep.cli import main
from tests.fuzz.mutations import Case, fuzz, memory_limit
from tests.fuzz.test_certificates import CERTIFICATES
from tests.fuzz.test_edges import CSV, PARQUET

ABSURD = [
    "0", "-1", "-0", "1", "1.5", "nan", "inf", "-inf", "1e308", "1e-308", "5e-324", "1e400", "1e9", "1e12", "1e18",
    "2147483647", "2147483648", "4294967296", "99999999999999999999999", "9" * 5000, "1_000", "1,000", "1,5", "٣", "½",
    "", " ", "abc", "0x10", "None", "--json", "-", "'", "\u202e", "a" * 5000,
]  # fmt: skip
SEED = ["0", "7", str(2**70)]
WORKERS = ["1", "2"]
SETTING = {
    "--examples": ["50", "300", "2,000"],
    "--batch-size": ["1", "3", "2.5"],
    "--iterations": ["1", "8", "20"],
    "--bands": ["1", "2", "4"],
    "--min-sep": [None, None, "2", "5"],
    "--scheme": [None, None, "poisson", "cold-min-sep", "random-allocation", "cyclic-poisson", "balls-in-bins",
                 "unamplified", "magic"],
    "--max-batch-size": [None, None, None, "8", "20"],
}  # fmt: skip
BUDGET = {"--epsilon": ["0.5", "2", "8"], "--delta": ["1e-1", "1e-2", "1e-3"]}
WORK = {"--seed": [None, *SEED], "--workers": [None, *WORKERS]}
NOISE = {"--noise-multiplier": ["0.5", "1", "3"]}
FLAG = [None, True]
OUTPUTS = [
    None,
    None,
    "new.json",
    "folder",
    "missing/new.json",
    "file/new.json",
    "pipe",
    "",
    "n" * 300,
    "é ☃.json",
    "link",
    "good.json",
]
FORCE = {"--force": [None, None, True]}
COMMANDS = {
    "certify": SETTING | BUDGET | NOISE | WORK | FORCE | {"--output": OUTPUTS, "--json": FLAG},
    "calibrate": SETTING | BUDGET | WORK | FORCE | {"--output": OUTPUTS, "--json": FLAG},
    "delta": SETTING | NOISE | WORK | {"--epsilon": BUDGET["--epsilon"], "--json": FLAG},
    "epsilon": SETTING | NOISE | WORK | {"--delta": BUDGET["--delta"], "--json": FLAG},
    "strategy": {"--iterations": ["1", "8", "100"], "--bands": ["1", "4", "8"], "--json": FLAG},
    "verify": {"": ["good.json", "bad.json", "missing.json", "folder", "edges.csv", "/dev/null"], "--reproduce": FLAG,
               "--workers": [None, *WORKERS], "--json": FLAG},
    "batches": {
        **{name: [*values, None] for name, values in SETTING.items() if name != "--examples"},
        "--examples": SETTING["--examples"], "--seed": WORK["--seed"], "--json": FLAG,
        "--certificate": [None, None, "good.json", "bad.json", "missing.json", "folder"],
        "--output": [*OUTPUTS, "new.npz", "new.csv", "new.jsonl", "new.parquet"],
    },
    "bound": {
        "": ["edges.csv", "edges.parquet", "missing.csv", "folder", "good.json", "bad.csv"],
        "--user-bound": ["1", "2", "100"], "--duplicates": FLAG, "--neighbourhood-bound": [None, None, "1", "3"],
        "--order": [None, "ascending", "random", "magic"], "--seed": [None, "0", "7"],
        "--output": [*OUTPUTS, "new.csv", "new.parquet"], "--json": FLAG,
    },
    "compare": {
        "--iterations": ["8"], "--delta": ["1e-1", "1e-2"], "--epsilon": ["1", "4"], "--epoch": ["4", "8"],
        "--max-bands": ["1", "2"], "--verified": FLAG, "--workers": WORKERS, "--json": FLAG,
        "--report": [None, None, "new.html", "folder", "missing/a.html"], "--plot": [None, None, "new.svg", "new.gif"],
    },
    "plan": {
        **{name: SETTING[name] for name in ("--examples", "--batch-size", "--max-batch-size")}, **BUDGET, **WORK,
        **FORCE,
        "--iterations": ["8"], "--max-bands": ["1", "2"], "--min-sep": [None, None, "2"], "--estimate": FLAG,
        "--scheme": [None, "poisson", "min-sep", "magic"], "--edges": [None, None, None, "edges.csv", "bad.csv"],
        "--user-bound": [None, None, "1", "1,2", "a"], "--model-size": [None, "100"], "--momentum": [None, "0.9"],
        "--schedule": [None, "cosine", "magic"], "--horizon": [None, "5"], "--noise-memory": [None, "1", "0.001"],
        "--output": OUTPUTS, "--json": FLAG,
    },
}  # fmt: skip
PATHS = {"", "--certificate", "--edges", "--output", "--report", "--plot"}


@st.composite
def command_lines(draw, commands):
    """Return arguments that are mostly good, with up to two absurd ones."""
    command = draw(st.sampled_from(commands))
    options = COMMANDS[command]
    spoiled = draw(st.sets(st.sampled_from(sorted(options)), max_size=2))
    arguments = [command]
    for name, good in options.items():
        value = draw(st.sampled_from(good))
        if name in spoiled and name not in PATHS:
            value = draw(st.sampled_from([*ABSURD, None]))
        if value is None:
            continue
        if value is True:
            arguments.append(name)
        elif name == "":
            arguments.append(value)
        else:
            arguments += [f"{name}={value}"] if value.startswith("-") else [name, value]
        if name in spoiled and draw(st.booleans()) and value is not True and name:  # twice
            arguments += [name, str(draw(st.sampled_from(good)))]
    if draw(st.integers(0, 19)) == 0:
        arguments.insert(
            draw(st.integers(0, len(arguments))), draw(st.sampled_from(["--no-such", "", "extra", "--help"]))
        )
    return Case(0, arguments, arguments)


@contextlib.contextmanager
def workplace():
    """Enter a folder with good and bad files."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "good.json").write_text(CERTIFICATES[4].to_json())
        (folder / "bad.json").write_text(CERTIFICATES[0].to_json().replace("0", "1"))
        (folder / "edges.csv").write_bytes(CSV[1])
        (folder / "edges.parquet").write_bytes(PARQUET[1])
        (folder / "bad.csv").write_bytes(b"example,user\n1,\n")
        (folder / "file").touch()
        (folder / "folder").mkdir()
        (folder / "link").symlink_to(folder / "new.json")
        os.mkfifo(folder / "pipe")
        os.chdir(folder)
        try:
            yield folder, {path.name for path in folder.iterdir()}
        finally:
            os.chdir(before)


def run(arguments):
    """Run the command line in this process; return its exit code, output and errors."""
    out, err, previous = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["minsep", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        return end.code, out.getvalue(), err.getvalue()
    finally:
        sys.argv = previous
    return 0, out.getvalue(), err.getvalue()


def refuse_constant(name):
    raise AssertionError(name)


def check(arguments):
    with workplace() as (folder, before), memory_limit(3 << 30):
        code, out, err = run(arguments)
        assert code in (0, 1, 2), (code, out, err)
        assert "Traceback" not in out + err
        assert code != 2 or err.strip() or not arguments, "no reason"  # without arguments, help is printed
        assert (folder / "pipe").is_fifo()
        assert (folder / "link").is_symlink()
        kept = (folder / "good.json").read_text() == CERTIFICATES[4].to_json()
        assert kept or "--force" in arguments
        new = {path for path in folder.iterdir() if path.name not in before}
        named = {part for argument in arguments for part in (argument, argument.partition("=")[2], argument[2:])}
        named |= {"new.json"} if "link" in named else set()  # what the link points to
        by_default = {"certificate.json"} if "--json" not in arguments and "--estimate" not in arguments else set()
        assert {path.name for path in new} <= named | by_default, new
        assert not any((folder / "folder").iterdir())
        assert code != 2 or not new, (new, err)
        for path in new:
            assert path.stat().st_size > 0
            if path.suffix == ".json":
                assert minsep.Certificate.load(path).passed == (code == 0)
        if code != 2 and "--json" in arguments and "--help" not in arguments:
            json.loads(out, parse_constant=refuse_constant)


@fuzz(command_lines([name for name in COMMANDS if name not in ("plan", "compare")]), quick=60, slow=1200)
def test_command_lines_end_as_they_should(case):
    check(case.content)


@fuzz(command_lines(["plan", "compare"]), quick=6, slow=150)
def test_plans_and_comparisons_end_as_they_should(case):
    check(case.content)


@fuzz(st.lists(st.sampled_from([*COMMANDS, *ABSURD, "--help", "--version", "--", "-o", "\ud800"]), max_size=5),
      quick=40, slow=400)  # fmt: skip
def test_words_in_any_order_end_as_they_should(case):
    check([word for word in case if "\0" not in word])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("--batch-size=5e-324", "--batch-size is 5e-324, but it must not be that small"),
        ("--examples=1e308", "--examples is 1"),
        ("--max-batch-size=1e308", "--max-batch-size is 1"),
        ("--noise-multiplier=5e-324", "too large or too small to compute with"),
        ("--noise-multiplier=1e308", "too large or too small to compute with"),
    ],
)
def test_extreme_numbers_are_refused(change, message):
    good = ["--examples=50", "--batch-size=1", "--iterations=1", "--noise-multiplier=1", "--epsilon=1", "--delta=1e-2"]
    code, _, err = run(["certify", *good, change])
    assert (code, message in err, err.count("\n")) == (2, True, 1), err


def test_too_little_memory_is_said():
    with memory_limit(1 << 30):
        code, _, err = run(["strategy", "--iterations=2147483647", "--bands=2147483647"])
    assert code == 2
    assert err.startswith("Error: There is not enough memory for these numbers: ")
