"""Runs that were reported, by name."""

import json

import pytest

from minsep.planning import PRESETS, Request, preset_of
from tests.cli.command_line import run


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.filterwarnings("ignore::minsep.core.budget.LargeDeltaWarning")
def test_every_preset_is_a_request(name):
    one = preset_of(name)
    request = Request(**one.values)
    assert request.num_examples == one.values["num_examples"]
    assert one.what
    assert one.source


def test_a_plan_starts_from_a_preset_and_replaces_some_numbers():
    asked = ["plan", "--preset", "gemma-lora", "--iterations", 40, "--max-bands", 2, "--estimate", "--json"]
    given = ["--examples", 3000, "--batch-size", 16, "--iterations", 40, "--epsilon", 4, "--delta", "2e-5"]
    plain = ["plan", *given, "--max-bands", 2, "--estimate", "--json"]
    first, second = (json.loads(run(*command).stdout) for command in (asked, plain))
    assert first["chosen"] == second["chosen"]


def test_epochs_take_the_place_of_its_batch_size():
    asked = ["plan", "--preset", "gemma-lora", "--epochs", 1, "--batch-sizes", "100", "--max-bands", 2, "--estimate"]
    found = json.loads(run(*asked, "--json").stdout)
    assert [one["iterations"] for one in found["frontier"]] == [30]
    assert "gemma-lora: adapters of Gemma 3" in run(*asked).stdout


def test_an_unknown_preset_is_one_sentence():
    found = run("plan", "--preset", "gemma")
    assert found.returncode == 2
    assert found.stderr.startswith("Error: --preset is 'gemma', but it must be one of 'vaultgemma'")
