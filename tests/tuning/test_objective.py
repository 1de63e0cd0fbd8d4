"""Objectives of Optuna without its storage."""

import math

import numpy as np
import pytest
from optuna import TrialPruned
from optuna.trial import FixedTrial

import minsep
from minsep.tuning import SecretTrial, tune_objective

MECHANISM = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=50), minsep.Poisson(rate=0.05), 3.0)
CERTIFICATE = minsep.certify(MECHANISM, 3.0, 1e-4)
MANY = minsep.accounting.NegativeBinomial(100.0, 100.0)


def objective(trial):
    rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
    layers = trial.suggest_int("layers", 2, 8, step=2)
    name = trial.suggest_categorical("optimizer", ["sgd", "adam"])
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.25)
    trial.report(rate, 1)
    if trial.should_prune():
        raise TrialPruned
    trial.set_user_attr("model", (rate, layers, name, dropout))
    return math.log(rate / 0.1) ** 2 + layers + (name == "sgd") + dropout


def test_the_best_settings_are_those_of_optuna():
    """Some run has two layers, but for a chance of 2.1e-10."""
    best = tune_objective(objective, CERTIFICATE, trials=MANY)
    fixed = FixedTrial(best.settings)
    score = objective(fixed)
    assert fixed.user_attrs == best.result
    assert best.settings["layers"] == 2
    assert score < 8
    worst = tune_objective(objective, CERTIFICATE, direction="maximize", trials=MANY)
    assert objective(FixedTrial(worst.settings)) > score


def test_settings_are_drawn_as_optuna_draws_them():
    """Means of 4,000 draws, each a false alarm of at most 1e-7 by the inequality of Hoeffding."""
    trials = [SecretTrial() for _ in range(4000)]
    room = math.sqrt(math.log(2 / 1e-7) / (2 * len(trials)))
    logarithms = [math.log10(trial.suggest_float("rate", 1e-3, 1.0, log=True)) for trial in trials]
    assert abs(np.mean(logarithms) + 1.5) <= 3 * room
    assert abs(np.mean([trial.suggest_float("part", 1.0, 2.0) for trial in trials]) - 1.5) <= room
    layers = [trial.suggest_int("layers", 2, 9, step=2) for trial in trials]
    assert set(layers) == {2, 4, 6, 8}
    assert abs(np.mean([each == 8 for each in layers]) - 0.25) <= room
    widths = [trial.suggest_int("width", 1, 100, log=True) for trial in trials]
    assert {min(widths), max(widths)} <= set(range(1, 101))
    assert abs(np.mean([each <= 10 for each in widths]) - math.log(10.5) / math.log(100)) <= room
    assert abs(np.mean([trial.suggest_categorical("which", "ab") == "a" for trial in trials]) - 0.5) <= room


def test_a_setting_keeps_its_value():
    trial = SecretTrial()
    assert trial.suggest_float("rate", 0.0, 1.0) == trial.suggest_float("rate", 0.0, 1.0)
    assert trial.number == 0


def test_runs_that_raise_are_the_worst():
    def failing(trial):
        if trial.suggest_categorical("which", ["good", "bad"]) == "bad":
            raise TrialPruned
        return 1.0

    assert tune_objective(failing, CERTIFICATE, trials=MANY).settings == {"which": "good"}


def test_bad_arguments_are_one_sentence():
    with pytest.raises(ValueError, match="direction is 'up', but it must be"):
        tune_objective(objective, CERTIFICATE, direction="up")
    with pytest.raises(ValueError, match="The bounds of 'rate' are 0 and 1"):
        SecretTrial().suggest_float("rate", 0, 1, log=True)
    with pytest.raises(ValueError, match="choices of 'which' is empty"):
        SecretTrial().suggest_categorical("which", [])
