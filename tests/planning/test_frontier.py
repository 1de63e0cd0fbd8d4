"""How large batches should be for a number of epochs."""

import json

import pytest

import minsep
from minsep.planning.frontier import iterations_of, usual_batch_sizes
from tests.cli.command_line import run

TASK = {"epsilon": 4.0, "delta": 1e-4, "max_bands": 4, "seed": 1}


@pytest.fixture(scope="module")
def found():
    return minsep.plan_epochs(2000, 4, batch_sizes=[20, 60, 200, 600], estimate=True, **TASK)


def test_all_batch_sizes_compute_as_many_gradients(found):
    for point in found.points:
        assert point.batch_size * point.iterations == pytest.approx(8000, rel=0.03)
        assert found.noise_to_signal(point) == pytest.approx(point.error / 8000)


def test_the_chosen_size_is_the_smallest_that_is_nearly_the_best(found):
    lowest = min(point.error for point in found.points)
    smaller = [point for point in found.points if point.batch_size < found.chosen.batch_size]
    assert found.chosen.error <= 1.1 * lowest
    assert all(point.error > 1.1 * lowest for point in smaller)
    assert found.plan.request.iterations == found.chosen.iterations


def test_estimates_are_those_of_a_plan(found):
    """A plan tries more mechanisms, so its error is lower, or the same up to the error of quick estimates."""
    for point in found.points[1:3]:
        alone = minsep.plan(2000, point.batch_size, point.iterations, estimate=True, tune=False, **TASK)
        dp_sgd = next(one for one in alone.table if one.scheme == "poisson" and one.bands == 1)
        assert alone.error <= 1.06 * point.error
        assert point.dp_sgd.error == pytest.approx(dp_sgd.error, rel=0.01)
        assert point.error <= point.dp_sgd.error * 1.02


def test_the_words_say_where_correlated_noise_matters(found):
    first = found.points[0]
    assert f"{100 * first.saved:.0f} % of DP-SGD's error at 20" in found.statement
    assert "If each uses its best batch size" in found.statement
    only = minsep.plan_epochs(2000, 4, batch_sizes=[60], estimate=True, schemes=["poisson"], **TASK)
    assert "does not matter" in only.statement


def test_the_chosen_size_is_certified():
    made = minsep.plan_epochs(2000, 2, batch_sizes=[100, 400], tune=False, **TASK)
    assert made.plan.certified
    assert made.plan.certificate.num_examples == 2000


def test_sizes_are_a_300th_to_a_7th():
    sizes = usual_batch_sizes(60_000)
    assert len(sizes) == 8
    assert (sizes[0], sizes[-1]) == (200, 8571)
    assert usual_batch_sizes(5) == (1,)
    assert iterations_of(0.5, 100, 50) == 1


COMMAND = ["plan", "--examples", 2000, "--epsilon", 4, "--delta", "1e-4", "--max-bands", 4, "--seed", 1, "--estimate"]


def test_the_command_prints_the_frontier():
    asked = [*COMMAND, "--epochs", 4, "--batch-sizes", "60,200"]
    text, data = run(*asked), json.loads(run(*asked, "--json").stdout)
    assert text.returncode == 0
    assert "Batch sizes for 4 epochs, by quick estimates" in text.stdout
    assert data["frontier_statement"] in text.stdout
    assert [one["batch_size"] for one in data["frontier"]] == [60, 200]
    assert data["epochs"] == 4


def test_epochs_and_a_batch_size_are_a_plan():
    by_epochs = json.loads(run(*COMMAND, "--epochs", 4, "--batch-size", 100, "--json").stdout)
    by_iterations = json.loads(run(*COMMAND, "--iterations", 80, "--batch-size", 100, "--json").stdout)
    assert by_epochs["chosen"] == by_iterations["chosen"]
    assert "frontier" not in by_epochs


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--batch-size is missing: give --batch-size and --iterations, or --epochs"),
        (["--batch-size", 10], "--iterations is missing"),
        (["--epochs", 4, "--iterations", 10], "--epochs is 4, but --iterations is 10: omit one"),
        (["--epochs", 4, "--batch-size", 10, "--batch-sizes", "10,20"], "but --batch-size is 10: omit one"),
        (["--batch-size", 10, "--iterations", 5, "--batch-sizes", "10"], "but --epochs is missing"),
        (["--epochs", 4, "--batch-sizes", "ten"], "but it must be numbers such as"),
        (["--epochs", -1], "--epochs is -1"),
        (["--epochs", 4, "--batch-sizes", "10,5000"], "--batch-sizes is 5000"),
    ],
)
def test_numbers_that_make_no_sense_are_one_sentence(arguments, sentence):
    refused = run(*COMMAND, *arguments)
    assert refused.returncode == 2
    assert sentence in " ".join(refused.stderr.split())
