"""`minsep ledger`: what it prints, and how it refuses."""

import json

import pytest

import minsep
from tests.cli.command_line import run
from tests.ledger.small import certificate, create

CREATE = ("--create", "--dataset", "digits", "--epsilon", "4", "--delta", "1e-5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    certificate().save("certificate.json")
    (tmp_path / "event.json").write_text('{"class_name": "LaplaceDpEvent", "noise_multiplier": 20.0}')
    (tmp_path / "history.json").write_text('{"history": [[5, 0.01, 100], [5, 0.02, 100]], "mechanism": "prv"}')
    return tmp_path


def test_a_ledger_is_created_added_to_and_shown(folder):
    created = run("ledger", "budget.json", *CREATE)
    assert created.returncode == 0, created.stderr
    assert "nothing" in created.stdout
    added = run("ledger", "budget.json", "--add", "certificate.json", "--name", "first model")
    assert "Entry 1 was added: first model." in added.stdout
    assert "There is room for one Gaussian mechanism with mu" in added.stdout
    described = run("ledger", "budget.json", "--event", "event.json")
    assert "The entry takes for granted:" in described.stdout
    several = run("ledger", "budget.json", "--event", "history.json")
    assert "DP-SGD, Poisson sampling and 1 more" in several.stdout
    shown = json.loads(run("ledger", "budget.json", "--json").stdout)
    assert [entry["alone"] for entry in shown["entries"]] == [[2.5, 1e-6], None, None]
    assert 1.8 < shown["spent"]["epsilon"] < 4
    assert shown["head"] == shown["entries"][-1]["hash"]


def test_what_would_exceed_the_total_ends_with_1(folder):
    tight = ("--create", "--dataset", "digits", "--epsilon", "1", "--delta", "1e-5")
    both = run("ledger", "budget.json", *tight, "--add", "certificate.json")
    assert both.returncode == 1
    assert "nothing was added" in both.stderr
    assert "budget.json" in both.stderr
    assert minsep.Ledger.open("budget.json").entries == ()


def test_an_adaptive_ledger_is_charged_a_delta(folder):
    assert run("ledger", "budget.json", *CREATE, "--adaptive").returncode == 0
    refused = run("ledger", "budget.json", "--event", "event.json")
    assert refused.returncode == 2
    assert "--delta" in refused.stderr
    added = run("ledger", "budget.json", "--event", "event.json", "--delta", "1e-6")
    assert added.returncode == 0
    assert "What is left is epsilon" in added.stdout


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["none.json"], "there is no such file: create the ledger first"),
        (["certificate.json"], "that is another kind of file"),
        (
            ["other.json", "--create", "--epsilon", "1"],
            "--create needs the dataset and the total: add --dataset, --delta.",
        ),
        (["budget.json", *CREATE], "that ledger exists already"),
        (["budget.json", "--epsilon", "3"], "--epsilon is 3.0, but a ledger is never changed"),
        (["budget.json", "--name", "x"], "--name is 'x', but it describes a new entry"),
        (["budget.json", "--delta", "1e-6"], "--delta is 1e-06, but it describes a new entry"),
        (["budget.json", "--add", "certificate.json", "--event", "event.json"], "omit the other"),
        (["budget.json", "--add", "certificate.json", "--delta", "1e-6"], "only an adaptive ledger charges a delta"),
        (["budget.json", "--add", "none.json"], "the file cannot be read"),
        (["budget.json", "--event", "certificate.json"], "describes no run that minsep can read"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(folder, words, refusal):
    create(folder)
    result = run("ledger", *words)
    assert result.returncode == 2
    assert refusal in result.stderr
    assert result.stderr.count("Error: ") == 1
    assert minsep.Ledger.open("budget.json").entries == ()
