"""`minsep audit` on the command line."""

import json

import pytest
import typer.testing

import minsep
from minsep.cli.app import app

SMALL = ["--runs", "8", "--canaries", "512", "--seed", "1", "--no-verify"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    strategy = minsep.BandedToeplitz.optimal(iterations=16, bands=2)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=1.0)
    path = tmp_path_factory.mktemp("audit") / "certificate.json"
    minsep.certify(mechanism, epsilon=4.0, delta=1e-2, seed=0).save(path)
    return path


def run(*arguments):
    return typer.testing.CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_a_correct_loop_exits_0_with_both_bounds_and_a_picture(path, tmp_path):
    picture = tmp_path / "audit.svg"
    result = run(path, "--loop", "minsep.auditing:plain_loop", *SMALL, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert "Certified, at most" in result.stdout
    assert "No alarm" in result.stdout
    assert b"<svg" in picture.read_bytes()


def test_a_fault_exits_1_and_says_what_it_means(path):
    result = run(path, "--loop", "tests.auditing.faults:less_noise", *SMALL)
    assert result.exit_code == 1
    assert "Less noise than certified is a breach." in result.stdout
    as_json = run(path, "--loop", "tests.auditing.faults:less_noise", *SMALL, "--json")
    content = json.loads(as_json.stdout)
    assert as_json.exit_code == 1
    assert content["passed"] is False
    assert content["epsilon"] == 4.0


def test_bad_input_is_refused(path, tmp_path):
    for arguments, sentence in (
        ([path, "--loop", "nothing"], "loop is 'nothing'"),
        ([path, "--canaries", "0"], "canaries is 0"),
        ([path, "--plot", tmp_path / "audit.gif"], "its suffix must be .png or .svg"),
        ([tmp_path / "none.json"], "the file cannot be read"),
    ):
        result = run(*arguments)
        assert isinstance(result.exception, ValueError)
        assert sentence in str(result.exception)


def test_a_loop_that_cannot_run_is_refused_before_the_certificate_is_read(tmp_path):
    result = run(tmp_path / "none.json", "--loop", "nowhere:loop")
    assert "loop is 'nowhere:loop', but it cannot be imported" in str(result.exception)


def test_progress_is_words_with_the_number_of_the_run(path):
    """Besides three runs with all canaries there is one that is nearly empty."""
    events = []
    minsep.audit(path, "torch", runs=3, canaries=64, seed=1, progress=events.append)
    assert [str(event) for event in events] == [
        "verifying the certificate",
        *(f"auditing run {number} of 4" for number in (1, 2, 3, 4)),
        "bounding the epsilon of Gaussian noise",
    ]
    assert [(event.done, event.total) for event in events[1:-1]] == [(0, 4), (1, 4), (2, 4), (3, 4)]
