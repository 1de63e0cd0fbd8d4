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
    assert f"The last line has the hash {shown['head']}\n" in several.stdout
    first, second, third = (entry["alone"] for entry in shown["entries"])
    assert first == [2.5, 1e-6]
    assert 0 < second[0] < third[0] < 4
    assert second[1] == third[1] == 1e-5
    assert 0 < shown["left"]["any_run"]["epsilon"] < 4
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


def test_what_has_an_entry_is_added_again_only_on_request(folder):
    create(folder)
    words = ("ledger", "budget.json", "--add", "certificate.json", "--name", "first model")
    assert run(*words).returncode == 0
    refused = run(*words)
    assert refused.returncode == 2
    assert "Entry 1 of the ledger (first model, " in refused.stderr
    assert "is the same: if it is run once more, add --again." in refused.stderr
    assert run(*words, "--again").returncode == 0
    assert len(minsep.Ledger.open("budget.json").entries) == 2


def test_a_forged_certificate_is_added_only_without_verifying(folder):
    create(folder)
    forged = json.loads(certificate().to_json())
    forged["mechanism"]["noise_multiplier"] *= 1.1
    (folder / "forged.json").write_text(json.dumps(forged))
    refused = run("ledger", "budget.json", "--add", "forged.json")
    assert refused.returncode == 2
    assert "does not hold" in refused.stderr
    assert run("ledger", "budget.json", "--add", "forged.json", "--no-verify").returncode == 0


def test_a_hash_that_was_kept_shows_whether_lines_were_lost(folder):
    create(folder)
    head = json.loads(run("ledger", "budget.json", "--event", "event.json", "--json").stdout)["head"]
    assert run("ledger", "budget.json", "--add", "certificate.json").returncode == 0
    kept = run("ledger", "budget.json", "--head", head)
    assert "The ledger has the line with this hash: entry 1, LaplaceDpEvent" in kept.stdout
    first, *_ = (folder / "budget.json").read_bytes().splitlines(keepends=True)
    (folder / "budget.json").write_bytes(first)  # rolled back
    for words in ([], ["--add", "certificate.json"]):
        lost = run("ledger", "budget.json", "--head", head, *words)
        assert lost.returncode == 2
        assert f"it does not contain the line with the hash {head}: an entry is missing" in lost.stderr
    assert (folder / "budget.json").read_bytes() == first


def test_what_cannot_be_added_creates_no_ledger(folder):
    refused = run("ledger", "new.json", *CREATE, "--add", "none.json")
    assert refused.returncode == 2
    assert not (folder / "new.json").exists()


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
        (["budget.json", "--again"], "--again is True, but it describes a new entry"),
        (["budget.json", "--no-verify"], "--no-verify is True, but it describes a new entry"),
        (["budget.json", "--head", "52ea9a5f"], "--head is '52ea9a5f', but it must be the 64 hexadecimal digits"),
        (["other.json", *CREATE, "--head", "0" * 64], "a new ledger has no lines yet: omit it."),
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
