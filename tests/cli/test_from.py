"""`minsep certify --from`: what somebody ran with another library."""

import json
from pathlib import Path

import pytest

import minsep
from tests.cli.command_line import run
from tests.reading.records import ALL, EVENT, HERE, JAX, OPACUS, OPACUS_IN_PARTS, write

BUDGET = ["--epsilon", 4, "--delta", 1e-5]


def certify(content, *options):
    path = write(Path("record.json"), content)
    return run("certify", "--from", path, *(BUDGET if "--epsilon" not in options else ()), *options)


@pytest.mark.parametrize("name", ["opacus", "jax", "jax truncated", "jax with one band", "event"])
def test_one_mechanism_is_certified_as_usual(name):
    found = certify(ALL[name], "--epsilon", 8, "--delta", 1e-3)
    assert (found.returncode, found.stderr) == (0, "")
    assert "Certified (8, 0.001)-DP" in found.stdout
    assert "record.json was read as" in found.stdout
    assert "- The noise is exactly as described." in found.stdout
    certificate = minsep.Certificate.load("certificate.json")
    assert certificate.passed
    assert run("verify", "certificate.json").returncode == 0


def test_json_is_the_certificate_alone():
    found = certify(OPACUS, "--json")
    assert minsep.Certificate.from_json(found.stdout).passed
    assert "batches of a shuffling loader (poisson_sampling=False) are not covered" in found.stderr


def test_a_mechanism_that_is_not_private_enough_is_refused():
    found = certify(OPACUS, "--epsilon", 0.1, "--delta", 1e-5)
    assert found.returncode == 1
    assert not Path("certificate.json").exists()
    assert "delta is estimated at" in found.stdout


def test_a_proof_that_may_err_says_what_it_means_for_a_run_that_is_done():
    # The exact curve does not carry so small a delta.
    found = certify(JAX, "--epsilon", 20, "--delta", 5e-14, "--model-size", 10, "--seed", 0)
    assert found.returncode == 0
    assert "If the run is already done, there is a chance of 5e-16 that the certificate is wrong" in found.stdout


def test_several_runs_are_composed():
    found = certify(OPACUS_IN_PARTS)
    assert (found.returncode, found.stderr) == (0, "")
    assert "Within the budget │      yes" in found.stdout
    assert not Path("certificate.json").exists()
    assert certify(OPACUS_IN_PARTS, "--epsilon", 0.1, "--delta", 1e-5).returncode == 1


def test_parts_of_one_run_are_as_private_as_the_run():
    whole = {"history": [[1.5, 0.02, 100]], "mechanism": "prv"}
    parts = {"history": [[1.5, 0.02, 60], [1.5, 0.02, 40]], "mechanism": "prv"}
    found = json.loads(certify(parts, "--json").stdout)["epsilon"]
    path = write(Path("whole.json"), whole)
    assert run("certify", "--from", path, "--epsilon", found * 1.01, "--delta", 1e-5).returncode == 0
    assert run("certify", "--from", path, "--epsilon", found * 0.99, "--delta", 1e-5).returncode == 1


def test_an_event_is_accounted_for_and_written():
    found = certify([HERE, "LaplaceDpEvent", 2.0], "-o", "laplace.json")
    assert found.returncode == 0
    assert "The run is (0.49998, 1e-05)-DP" in found.stdout
    assert json.loads(Path("laplace.json").read_text())["delta"] == 1e-5


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (OPACUS, ["--bands", 2, "--examples", 60], "--from is 'record.json', which describes the whole run: omit "
         "--examples, --bands."),
        (OPACUS_IN_PARTS, ["--journal", "a.journal"], "--journal is a.journal, but --from holds what is computed "
         "without samples: omit it."),
        (EVENT | {"count": 0}, [], "record.json was read as an event of dp_accounting: in a SelfComposedDpEvent count "
         "is 0, but it must be an integer of at least 1"),
        ({}, [], "record.json describes no run that minsep can read: it holds an empty object. Valid are"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(content, options, sentence):
    found = certify(content, *options)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith(f"Error: {sentence}")
    assert found.stderr.count("\n") == 1


def test_without_a_file_the_mechanism_is_needed():
    found = run("certify", *BUDGET, "--examples", 60, "--batch-size", 6, "--iterations", 8)
    assert (found.returncode, found.stderr) == (
        2,
        "Error: --noise-multiplier is missing: give it, or a file with --from.\n",
    )
