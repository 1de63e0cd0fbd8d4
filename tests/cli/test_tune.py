"""`minsep tune`, and the budgets of tunings in `plan`, `calibrate`, `verify`, `compose` and `ledger`."""

import json
from pathlib import Path

import pytest

import minsep
from tests.cli.command_line import run

SETTING = ["--examples", 60, "--batch-size", 6, "--iterations", 8, "--bands", 1, "--seed", 5]


def exact(noise_multiplier):
    identity = minsep.BandedToeplitz.identity(iterations=8)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.1), noise_multiplier)
    return minsep.certify(mechanism, epsilon=1.0, delta=1e-3, num_examples=60)


@pytest.fixture(scope="module")
def quiet():
    return exact(3.0)


@pytest.fixture(autouse=True)
def files(folder_of_its_own, quiet):
    quiet.save("quiet.json")


def test_a_tuning_has_a_price_and_a_certificate(quiet):
    found = run("tune", "quiet.json", "--trials", 10, "--law", "logarithmic", "-o", "tuning.json")
    whole = minsep.TuningCertificate.of([quiet], trials=10, law="logarithmic")
    assert (found.returncode, found.stderr) == (0, "")
    assert whole.statement in found.stdout
    for word in ("logarithmic", "geometric", "poisson", "binomial", "at most two runs"):
        assert word in found.stdout
    assert minsep.TuningCertificate.load("tuning.json") == whole
    assert run("verify", "tuning.json").returncode == 0
    booked = [
        ["ledger", "budget.json", "--create", "--dataset", "digits", "--epsilon", 1, "--delta", "1e-3"],
        ["ledger", "budget.json", "--add", "tuning.json"],
    ]
    for command in booked:
        assert run(*command).returncode == 0
    assert minsep.Ledger.open("budget.json").entries[0].items == (whole,)
    together = run("compose", "tuning.json", "quiet.json", "--delta", "2e-3", "--json")
    assert json.loads(together.stdout)["runs"] == 2


def test_what_is_wanted_says_how_many_runs():
    found = json.loads(run("tune", "quiet.json", "--best", 0.1, "--probability", 0.6, "--json").stdout)
    assert found["success"] == pytest.approx(0.6)
    assert found["law"] == "geometric"
    assert found["epsilon"] == pytest.approx(min(one["epsilon"] for one in found["laws"]), rel=1e-3)
    named = json.loads(run("tune", "quiet.json", "--best", 0.1, "--law", "poisson", "--json").stdout)
    assert named["runs"] == pytest.approx(6.93, abs=0.01)


def test_a_forged_tuning_does_not_hold():
    run("tune", "quiet.json", "--no-verify", "-o", "tuning.json")
    plain = json.loads(Path("tuning.json").read_text())
    plain["epsilon"] = 0.01
    Path("tuning.json").write_text(json.dumps(plain))
    found = run("verify", "tuning.json")
    assert found.returncode == 1
    assert "the curves prove" in found.stdout


def test_a_calibration_for_several_runs_stays_within_the_budget():
    budget = ["--epsilon", 2, "--delta", "1e-3", "--scheme", "poisson"]
    several = run("calibrate", *SETTING, *budget, "--trials", 10, "-o", "several.json")
    assert several.returncode == 0
    assert "The best of about 10 runs" in several.stdout
    certificate = minsep.Certificate.load("several.json")
    assert 1.94 < minsep.TuningCertificate.of([certificate], trials=10, delta=1e-3).epsilon <= 2.0
    assert certificate.epsilon < 2.0


def test_a_plan_for_several_runs_says_what_each_distribution_costs():
    task = ["--examples", 2000, "--batch-size", 50, "--iterations", 20, "--epsilon", 4, "--delta", "1e-4"]
    found = run("plan", *task, "--scheme", "poisson", "--trials", 5, "--law", "logarithmic", "-o", "plan.json")
    assert found.returncode == 0
    for words in ("one of about 5 runs", "(4, 0.0001)-DP for the best of about 5 runs", "runs, on average"):
        assert words in found.stdout
    whole = minsep.TuningCertificate.of([minsep.Certificate.load("plan.json")], trials=5, law="logarithmic")
    assert 3.8 < whole.epsilon <= 4.0
    again = json.loads(
        run("plan", *task, "--scheme", "poisson", "--trials", 5, "--law", "logarithmic", "--json").stdout
    )
    assert again["tuning"]["epsilon"] == whole.epsilon


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tune"], "certificates is empty"),
        (["tune", "quiet.json", "--trials", 5, "--best", 0.1], "--best is 0.1, but --trials is 5"),
        (["tune", "quiet.json", "--probability", 0.1], "--probability is 0.1, but --best is missing"),
        (["tune", "quiet.json", "--law", "poisson"], "--law is 'poisson', but --trials is missing"),
        (["tune", "quiet.json", "--best", 1.5], "share is 1.5"),
        (["tune", "quiet.json", "--trials", 0.5], "mean is 0.5"),
        (["tune", "quiet.json", "--law", "cauchy", "--trials", 5], "cauchy"),
        (["tune", "quiet.json", "--delta", 2], "--delta is 2"),
        (["tune", "missing.json"], "cannot be read"),
        (["calibrate", *SETTING, "--mu", 1, "--trials", 5], "--mu is a goal for one run"),
        (["calibrate", *SETTING, "--epsilon", 1, "--delta", "1e-3", "--law", "poisson"], "but --trials is missing"),
        (["plan", "--examples", 60, "--batch-size", 6, "--iterations", 8, "--epsilon", 1, "--delta", "1e-3",
          "--trials", 0.5], "--trials is 0.5"),
    ],
)  # fmt: skip
def test_tunings_that_make_no_sense_are_one_sentence(arguments, sentence):
    found = run(*arguments)
    assert found.returncode == 2
    assert sentence in " ".join(found.stderr.split())
