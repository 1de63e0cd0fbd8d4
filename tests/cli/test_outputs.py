"""What commands write: nothing that was certified is lost, and no file is replaced unasked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import minsep
from tests.cli.command_line import run

ROOT = Path(__file__).parents[2]
TASK = ["--examples", 60, "--batch-size", 6, "--iterations", 8, "--epsilon", 1, "--delta", 0.01, "--scheme", "poisson"]
SETTING = ["--examples", 60, "--batch-size", 6, "--iterations", 8, "--scheme", "poisson"]
COMMANDS = {
    "plan": ["plan", *TASK, "--max-bands", 1],
    "calibrate": ["calibrate", *TASK],
    "certify": ["certify", *TASK, "--noise-multiplier", 3],
}


def saved():
    return sorted(path.name for path in Path.cwd().iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_certificate_that_passed_is_kept_and_an_earlier_one_stays(command):
    first = run(*COMMANDS[command])
    assert first.returncode == 0, first.stderr
    assert "certificate.json" in first.stdout
    assert saved() == ["certificate.json"]
    before = Path("certificate.json").read_bytes()
    second = run(*COMMANDS[command])
    assert "certificate.json exists already, so this certificate was written to certificate-2.json." in second.stdout
    assert run(*COMMANDS[command]).returncode == 0
    assert saved() == ["certificate-2.json", "certificate-3.json", "certificate.json"]
    assert Path("certificate.json").read_bytes() == before
    assert minsep.Certificate.load("certificate-2.json").passed
    if command != "certify":
        assert '"certificate-2.json", model' in second.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_printed_for_programs_is_not_kept_as_well(command):
    assert run(*COMMANDS[command], "--json").returncode == 0
    assert saved() == []


def test_what_did_not_pass_and_estimates_are_not_kept():
    assert run("certify", *TASK, "--noise-multiplier", 0.1).returncode == 1
    assert run(*COMMANDS["plan"], "--estimate").returncode == 0
    assert saved() == []


def test_a_folder_where_nothing_can_be_kept_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.chdir("/proc")
    refused = run(*COMMANDS["calibrate"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("Error: --output is 'certificate.json', but the folder '/proc' cannot be written")


@pytest.mark.parametrize(
    ("arguments", "flag", "name"),
    [
        (COMMANDS["plan"], "--output", "old.json"),
        (COMMANDS["plan"], "--report", "old.html"),
        (COMMANDS["plan"], "--plot", "old.svg"),
        (COMMANDS["calibrate"], "--output", "old.json"),
        (COMMANDS["certify"], "--output", "old.json"),
        (["batches", *SETTING], "--output", "old.npz"),
        (["bound", "edges.csv", "--user-bound", 1], "--output", "old.csv"),
        (["statement", "good.json"], "--output", "old.md"),
        (["compare", "--iterations", 8, "--epsilon", 4, "--epoch", 8, "--max-bands", 2], "--plot", "old.svg"),
        (["audit", "good.json", "--runs", 1, "--canaries", 1], "--plot", "old.svg"),
    ],
)
def test_a_file_that_exists_is_replaced_only_by_force(arguments, flag, name):
    Path("edges.csv").write_text("example,user\n1,1\n2,1\n")
    if "good.json" in arguments:
        assert run(*COMMANDS["calibrate"], "-o", "good.json").returncode == 0
    Path(name).write_text("old")
    refused = run(*arguments, flag, name)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"Error: {flag} is '{name}', but that file exists: choose another name, or replace it with --force.\n"
    )
    assert Path(name).read_text() == "old"
    assert run(*arguments, flag, name, "--force").returncode in (0, 1)
    assert Path(name).read_bytes() != b"old"


def test_a_journal_that_exists_goes_on():
    for _ in range(2):
        assert run(*COMMANDS["calibrate"], "--journal", "run.journal").returncode == 0


def test_a_large_delta_is_a_line_on_standard_error():
    large = [0.02 if word == 0.01 else word for word in TASK]
    for command in (["plan", *large, "--max-bands", 1], ["calibrate", *large]):
        found = run(*command, "--json")
        assert found.returncode == 0
        assert found.stderr == (
            "Warning: --delta is 0.02, but with 60 examples it should be well below 1/60 (0.017): at this delta it "
            "would count as private to publish one of the examples at random.\n"
        )
    estimated = run("epsilon", *SETTING, "--delta", 0.02, "--noise-multiplier", 3)
    assert estimated.stderr.startswith("Warning: --delta is 0.02")
    refused = run("calibrate", *TASK[:-4], "--delta", 0.5)
    assert refused.stderr == "Error: --delta is 0.5, but it must be a finite number above 0 and below 0.5.\n"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_plan_keeps_what_it_made_before(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / ".venv" / "path").write_text(f"{tmp_path.resolve()}\n")
    (tmp_path / ".venv" / "light").touch()
    program = programs / "minsep"
    program.write_text('#!/bin/sh\nfor word; do case "$word" in *.json|*.html) echo made >> "$word";; esac; done\n')
    program.chmod(0o755)
    for _ in range(3):
        subprocess.run(["make", "plan"], cwd=tmp_path, check=True, env=os.environ | {"MAKEFLAGS": ""})
    made = sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".json", ".html"))
    assert made == sorted(f"{name}{number}" for name, number in [
        ("certificate", ".json"), ("certificate-2", ".json"), ("certificate-3", ".json"),
        ("plan", ".html"), ("plan-2", ".html"), ("plan-3", ".html"),
    ])  # fmt: skip
    assert all((tmp_path / name).read_text() == "made\n" for name in made)
