"""`minsep compose`, `minsep export`, and the rows that a curve adds to a certificate's table."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import minsep
from tests.cli.command_line import run

SETTING = ["--examples", 60, "--batch-size", 6, "--iterations", 8, "--noise-multiplier", 3, "--seed", 5]
BUDGET = ["--epsilon", 1, "--delta", 0.01]


def exact(noise_multiplier, num_examples=60):
    identity = minsep.BandedToeplitz.identity(iterations=8)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.1), noise_multiplier)
    return minsep.certify(mechanism, epsilon=1.0, delta=1e-3, num_examples=num_examples)


@pytest.fixture(scope="module")
def quiet():
    return exact(3.0)


@pytest.fixture(scope="module")
def loud():
    return exact(2.0)


@pytest.fixture(autouse=True)
def files(folder_of_its_own, quiet, loud):
    quiet.save("quiet.json")
    loud.save("loud.json")
    Path("laplace.json").write_text('{"class_name": "LaplaceDpEvent", "noise_multiplier": 2.0}')


def test_a_file_named_twice_is_two_runs(quiet, loud):
    found = run("compose", "quiet.json", "quiet.json", "loud.json", "--delta", 2e-3, "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout) == json.loads(minsep.compose([quiet, quiet, loud], 2e-3).to_json())
    assert [part["count"] for part in json.loads(found.stdout)["parts"]] == [2, 1]


def test_each_run_can_happen_several_times(quiet, loud):
    found = run("compose", "quiet.json", "loud.json", "--times", 5, "--json")
    assert json.loads(found.stdout) == json.loads(minsep.compose([quiet, loud] * 5).to_json())


def test_the_table_names_files_and_says_what_an_attacker_can_do(quiet, loud):
    found = run("compose", "quiet.json", "loud.json", "--delta", 2e-3)
    together = minsep.compose([quiet, loud], 2e-3)
    assert "quiet.json: DP-SGD, Poisson sampling" in found.stdout
    assert "Sum of the epsilons" in found.stdout
    assert f"{together.epsilon:.6g}" in found.stdout
    for rate in (0.001, 0.01, 0.1):
        shown = re.search(rf"at {100 * rate:g} % false positives, at most +│ +([0-9.]+) %", found.stdout)
        assert 0 <= float(shown[1]) / 100 - together.curve.true_positives(rate) <= 1.1e-4
    assert together.statement in found.stdout


def test_other_releases_are_composed_and_say_what_is_taken_for_granted(quiet):
    from dp_accounting import LaplaceDpEvent

    found = run("compose", "quiet.json", "--event", "laplace.json", "--event", "laplace.json", "--delta", 1e-2)
    assert found.returncode == 0
    expected = minsep.compose([quiet, LaplaceDpEvent(2.0), LaplaceDpEvent(2.0)], 1e-2).epsilon
    assert f"{expected:.6g}" in found.stdout
    assert "Sum of the epsilons" not in found.stdout
    assert "The result takes for granted:" in found.stdout


def test_the_result_is_written(quiet):
    assert run("compose", "quiet.json", "-o", "both.json").returncode == 0
    assert json.loads(Path("both.json").read_text())["runs"] == 1
    refused = run("compose", "quiet.json", "-o", "both.json")
    assert refused.returncode == 2
    assert "replace it with --force" in refused.stderr


def test_a_certificate_that_does_not_hold_is_refused_by_name(quiet):
    content = json.loads(quiet.to_json())
    content["mechanism"]["noise_multiplier"] = 0.1
    Path("forged.json").write_text(json.dumps(content))
    refused = run("compose", "quiet.json", "forged.json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("Error: forged.json: ")
    assert run("compose", "quiet.json", "forged.json", "--no-verify").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "certificates is empty: name the certificates of the runs, or give another release by --event."),
        (["--event", "laplace.json"], "--delta is missing: an event has no certified delta"),
        (["quiet.json", "--times", 0], "--times is 0, but it must be an integer of at least 1."),
        (["quiet.json", "--delta", 1.5], "--delta is 1.5, but it must be"),
        (["none.json"], "certificate is 'none.json', but the file cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence):
    refused = run("compose", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"Error: {sentence}")
    assert refused.stderr.count("\n") == 1


def test_other_numbers_of_examples_are_accepted_by_a_flag():
    exact(3.0, num_examples=61).save("larger.json")
    refused = run("compose", "quiet.json", "larger.json")
    assert refused.returncode == 2
    assert "pass --accept-other-examples if each of them protects the same examples" in refused.stderr
    assert run("compose", "quiet.json", "larger.json", "--accept-other-examples").returncode == 0


def test_a_certificate_with_a_curve_has_more_rows():
    sampled = ["--scheme", "min-sep", "--bands", 2, "--min-sep", 4]
    without = run("certify", *SETTING, *BUDGET, *sampled)
    assert without.returncode == 0, without.stderr
    assert "such runs" not in without.stdout
    found = run("certify", *SETTING, *BUDGET, *sampled, "--curve", "-o", "curve.json")
    certificate = minsep.Certificate.load("curve.json")
    assert certificate.curve_proof is not None
    for row in ("True positives at 1 % false positives", "Gaussian mu", "If one example replaces", "10 such runs"):
        assert row in found.stdout
    assert "the sum is (10, 0.1)" in found.stdout
    assert "; doubled (2, 0.0372)" in found.stdout


def test_an_exact_certificate_has_these_rows_without_asking():
    found = run("calibrate", *SETTING[:6], *BUDGET, "--scheme", "poisson")
    assert "10 such runs" in found.stdout


def test_a_plan_makes_a_curve_if_it_is_asked_to():
    task = [*SETTING[:6], "--seed", 5, *BUDGET, "--scheme", "min-sep", "--max-bands", 2, "--json"]
    assert json.loads(run("plan", *task, "--curve").stdout)["certificate"]["curve_proof"]
    assert "curve_proof" not in json.loads(run("plan", *task).stdout)["certificate"]


def test_a_curve_is_exported(quiet):
    found = run("export", "quiet.json", "--points", 5)
    rows = list(csv.DictReader(io.StringIO(found.stdout)))
    assert [float(row["epsilon"]) for row in rows] == [0.0, 0.5, 1.0, 1.5, 2.0]
    for row in rows:
        for way in ("remove", "add"):
            assert float(row[f"delta_{way}"]) == quiet.curve.delta(float(row["epsilon"]), way)
    assert "privacy_loss_distribution()" in found.stderr
    assert run("export", "quiet.json", "--points", 5, "-o", "curve.json").returncode == 0
    written = json.loads(Path("curve.json").read_text())
    assert written["adjacency"] == "zero-out"
    assert np.allclose([row["delta_add"] for row in written["curve"]], [float(row["delta_add"]) for row in rows])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-o", "curve.npz"], "--output is 'curve.npz', but its name must end with .csv or .json."),
        (["--points", 1], "--points is 1, but it must be an integer of at least 2"),
    ],
)
def test_a_curve_that_cannot_be_exported_is_refused(options, sentence):
    refused = run("export", "quiet.json", *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"Error: {sentence}")


SAMPLED = [*SETTING, *BUDGET, "--scheme", "poisson"]


def test_checkpoints_are_certified_beside_the_run():
    found = run("certify", *SAMPLED, "--at", 2, "--at", 4)
    assert found.returncode == 0, found.stderr
    assert sorted(path.name for path in Path.cwd().glob("certificate*")) == [
        "certificate-at-2.json",
        "certificate-at-4.json",
        "certificate.json",
    ]
    whole = minsep.Certificate.load("certificate.json")
    stopped = minsep.Certificate.load("certificate-at-4.json")
    assert stopped.mechanism == whole.mechanism.prefix(4)
    assert (stopped.attempts, whole.attempts) == (7, 7)
    assert f"{stopped.curve.epsilon(0.01):.4g}" in found.stdout
    assert "decided before it began, or by something public" in found.stdout
    again = run("certify", *SAMPLED, "--at", 2, "-o", "certificate.json")
    assert again.returncode == 2
    assert "--at is 2, but its file 'certificate-at-2.json' exists" in again.stderr


def test_checkpoints_as_json():
    found = json.loads(run("certify", *SAMPLED, "--at", 4, "--json").stdout)
    assert found["certificate"]["passed"]
    assert found["checkpoints"]["4"]["passed"]
    assert not list(Path.cwd().glob("certificate*"))


def test_a_checkpoint_after_the_run_is_refused():
    refused = run("certify", *SAMPLED, "--at", 9)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "Error: --at is 9, but the run has only 8 iterations.\n"
