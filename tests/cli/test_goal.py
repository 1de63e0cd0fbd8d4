"""Budgets in attackers' terms on the command line."""

import json
from pathlib import Path

import pytest

from minsep.accounting import Certificate
from tests.cli.command_line import run

TASK = ["--examples", 2000, "--batch-size", 100, "--iterations", 60, "--max-bands", 4, "--no-tune", "--seed", 0]


@pytest.mark.parametrize(
    ("goal", "row"),
    [
        (["--max-true-positives", 0.1, "--false-positives", 0.02], "True positives at 2 % false positives"),
        (["--advantage", 0.2], "Advantage of an attacker"),
        (["--mu", 0.8, "--delta", 4e-4], "Gaussian parameter mu"),
    ],
)
def test_a_plan_meets_a_goal_in_other_terms(goal, row):
    found = run("plan", *TASK, *goal)
    assert found.returncode == 0
    assert row in found.stdout
    certificate = Certificate.load("certificate.json")
    curve = certificate.curve
    if "--mu" in goal:
        assert 0.7 < curve.mu <= 0.8
    elif "--advantage" in goal:
        assert 0.15 < curve.advantage <= 0.2
    else:
        assert 0.09 < curve.true_positives(0.02) <= 0.1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--mu", 1, "--epsilon", 3], "--epsilon is 3.0, but --mu is the budget: omit one."),
        (["--mu", 1, "--advantage", 0.1], "--mu is 1.0, but --advantage is the budget already: omit one."),
        (["--false-positives", 0.1, "--epsilon", 1, "--delta", 1e-5],
         "--false-positives is 0.1, but --max-true-positives is missing: give it."),
        (["--epsilon", 1], "--delta is missing: give it, or one of --max-true-positives, --advantage and --mu."),
        (["--max-true-positives", 0.005], "true_positives is 0.005, but it must be a finite number above 0.01"),
    ],
)  # fmt: skip
def test_goals_that_make_no_sense_are_one_sentence(options, sentence):
    found = run("plan", *TASK, *options)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith(f"Error: {sentence}")


def test_noise_is_calibrated_for_a_bound_on_attackers_and_for_what_runs_alongside():
    Path("histogram.json").write_text('{"class_name": "GaussianDpEvent", "noise_multiplier": 5.0}')
    setting = ["--examples", 2000, "--batch-size", 100, "--iterations", 60, "--bands", 2, "--seed", 0]
    alone = run("calibrate", *setting, "--max-true-positives", 0.1, "-o", "alone.json")
    together = run(
        "calibrate", *setting, "--max-true-positives", 0.1, "--alongside", "histogram.json", "-o", "both.json"
    )
    assert (alone.returncode, together.returncode) == (0, 0)
    assert "True positives at 1 % false positives" in alone.stdout
    assert "together with DP-SGD, Poisson sampling (1 iteration, noise multiplier 5)" in together.stdout
    sigmas = [Certificate.load(name).mechanism.noise_multiplier for name in ("alone.json", "both.json")]
    assert sigmas[0] < sigmas[1] < 1.3 * sigmas[0]
    assert run("verify", "both.json").returncode == 0


def test_json_is_that_of_the_certificate():
    found = run("plan", *TASK, "--advantage", 0.2, "--json")
    assert json.loads(found.stdout)["certified"]
