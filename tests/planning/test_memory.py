"""Plans under a limit of memory for noise: what is tried, what is chosen, and what more memory would buy."""

import json
import math
from dataclasses import replace

import pytest

import minsep
from minsep.accounting import estimated_noise_multiplier
from minsep.core.budget import Budget
from minsep.engine import LOCAL
from minsep.planning import Candidate, Request, make_plan
from minsep.planning.candidates import candidates, setting_of
from minsep.planning.memory import memory_frontier
from minsep.planning.search import Search, error_of
from minsep.strategy import recipes
from tests.cli.command_line import run

# An epoch of 20 batches, five times.
REQUEST = Request(2000, 100, 100, 2.0, 1e-4, model_size=10**6, noise_memory=3 * 10**6, max_bands=4)
SCHEMES = ["poisson", "balls-in-bins"]
DENSE = {"lambda-cgd", "gamma-bifr", "banded-inverse-toeplitz", "buffered-toeplitz"}


@pytest.fixture(scope="module")
def tight():
    return make_plan(replace(REQUEST, schemes=SCHEMES), seed=0, curve=False)


@pytest.fixture(scope="module")
def estimate():
    return make_plan(replace(REQUEST, estimate=True, tune=False, schemes=[*SCHEMES, "cyclic-poisson"]), seed=0)


def test_every_strategy_is_tried_where_the_size_of_the_model_is_known():
    listed = list(candidates(REQUEST))
    dense = [one for one in listed if not one.is_banded]
    assert {one.matrix for one in dense} == DENSE == set(recipes())
    assert {one.scheme for one in dense} == {"balls-in-bins"}
    assert all(one.min_sep == 20 for one in dense)
    assert len({(one.matrix, one.bands) for one in dense}) == len(dense)
    for other in (replace(REQUEST, model_size=None), replace(REQUEST, schemes=["poisson", "min-sep"])):
        assert all(one.is_banded for one in candidates(other))


def test_a_candidate_knows_what_its_strategy_keeps_and_draws():
    for one in candidates(replace(REQUEST, noise_memory=1 << 40)):
        if not one.skipped and one.exists(REQUEST):
            strategy = one.strategy(REQUEST)
            assert (one.noise_bytes, one.drawn_rows) == (strategy.noise_bytes, strategy.drawn_rows)
            if not one.is_banded:
                assert strategy.kind == one.matrix
                again = Candidate.of(one.design(REQUEST).with_noise(2.0), 1.0)
                assert (again.matrix, again.bands, again.name) == (one.matrix, one.bands, one.name)


def test_what_does_not_fit_is_skipped_with_a_reason():
    for one in candidates(REQUEST):
        needed = one.noise_bytes * 10**6
        if not one.skipped:
            assert needed <= REQUEST.noise_memory
        if one.too_large:
            assert needed > REQUEST.noise_memory
            assert "more than the 2.86 MiB allowed" in one.skipped
    with_users = replace(REQUEST, user_bound=2)
    assert all("several examples" in one.skipped for one in candidates(with_users) if not one.is_banded)
    cut = replace(REQUEST, max_batch_size=200)
    assert all("truncated" in one.skipped for one in candidates(cut) if not one.is_banded)


def test_strategies_are_made_for_one_participation_an_epoch():
    setting = setting_of(REQUEST)
    assert (setting.iterations, setting.min_sep, setting.participations) == (100, 20, 5)
    found = recipes()["lambda-cgd"].strategy(2, setting)
    assert found == minsep.LambdaCGD.optimal(iterations=100, min_sep=20, participations=5)
    # More buffers than are of use do not exist.
    buffers = [one for one in candidates(REQUEST) if one.matrix == "buffered-toeplitz" and one.exists(REQUEST)]
    assert [one.bands for one in buffers] == [1, 2][: len(buffers)]


def test_the_best_that_fits_is_chosen_and_certified(tight):
    assert tight.certified
    assert tight.mechanism.strategy.noise_bytes * 10**6 <= REQUEST.noise_memory
    tried = [one for one in tight.table if one.error is not None]
    assert all(one.noise_bytes * 10**6 <= REQUEST.noise_memory for one in tried)
    assert not tight.chosen.is_banded
    assert tight.error < 0.95 * error_of(next(one for one in tried if one.scheme == "poisson"))
    assert error_of(tight.chosen) <= 1.01 * error_of(tried[0])
    assert minsep.verify(tight.certificate).holds
    assert tight.baseline.is_banded
    assert tight.chosen.drawn_rows > 1
    rows = list(tight.mechanism.noise((3,), seed=0))
    assert len(rows) == 100


def test_damping_is_found_by_the_plan(tight):
    dense = [one for one in tight.table if not one.is_banded and one.error is not None]
    plain = {(one.matrix, one.bands): error_of(one) for one in dense if one.shrink == 1.0}
    damped = [one for one in dense if one.shrink != 1.0]
    assert damped
    for one in damped:
        assert 0 < one.shrink < 1
        # Both are estimates, the better ones by other samples.
        assert error_of(one) < 1.02 * plain[one.matrix, one.bands]
        assert f"damped by {one.shrink:.4g} a step" in one.name


def test_noise_that_a_dense_candidate_needs_is_that_of_its_accounting():
    search = Search(REQUEST, 0, LOCAL, None)
    (found,) = search.estimate_all([Candidate("balls-in-bins", 2, 20, matrix="lambda-cgd")])
    design = found.design(REQUEST)
    assert isinstance(design.strategy, minsep.LambdaCGD)
    needed = estimated_noise_multiplier(design, Budget(2.0, 1e-4), 2.0, 20_000, 1)
    assert found.noise_multiplier == pytest.approx(needed, rel=0.05)


@pytest.mark.parametrize("name", ["tight", "estimate"])
def test_no_point_of_the_frontier_is_beaten(name, request):
    plan = request.getfixturevalue(name)
    points = memory_frontier(plan)
    everything = [one for one in (*plan.table, *plan.beyond) if one.error is not None]
    assert any(not point.fits for point in points)
    assert all(point.fits == (point.noise_bytes <= REQUEST.noise_memory) for point in points)
    assert [point.noise_bytes for point in points] == sorted(point.noise_bytes for point in points)
    assert plan.chosen.name in {point.candidate.name for point in points}
    for one in everything:
        assert any(
            point.noise_bytes <= one.noise_bytes * 10**6
            and point.drawn_rows <= one.drawn_rows
            and error_of(point.candidate) <= 1.011 * error_of(one)
            for point in points
        )
    for one in points:
        better = [
            other
            for other in points
            if other is not one
            and other.noise_bytes <= one.noise_bytes
            and other.drawn_rows <= one.drawn_rows
            and error_of(other.candidate) <= error_of(one.candidate)
        ]
        assert not better or one.candidate == plan.chosen


def test_what_is_beyond_the_memory_is_not_chosen_nor_told(monkeypatch):
    told = []
    plan = minsep.plan(
        2000, 100, 100, 2.0, 1e-4, max_bands=2, model_size=10**6, noise_memory=1, estimate=True, tune=False,
        found=told.append, seed=0, schemes=SCHEMES,
    )  # fmt: skip
    assert plan.beyond
    assert plan.mechanism.strategy.noise_bytes == 0
    assert all(one.noise_bytes == 0 for one in told)
    assert all(one.noise_bytes * 10**6 > 1 for one in plan.beyond)
    assert min(map(error_of, plan.beyond)) > 0


def test_plans_without_a_model_have_no_frontier():
    plan = minsep.plan(2000, 100, 100, 2.0, 1e-4, max_bands=2, estimate=True, schemes=["cyclic-poisson"], tune=False)
    assert memory_frontier(plan) == []
    assert plan.beyond == ()


def test_too_small_a_memory_is_refused_with_the_smallest_that_works():
    def planned(memory):
        return minsep.plan(
            2000, 100, 100, 2.0, 1e-3, max_bands=4, schemes=["min-sep"], model_size=10**6, noise_memory=memory,
            estimate=True, tune=False,
        )  # fmt: skip

    words = (
        r"noise_memory is 3,999,999 bytes, but it must be at least 4,000,000 \(0.00373 GiB\): the noise of b-min-sep, "
    )
    with pytest.raises(ValueError, match=words + "b = 2, 2 bands needs that for a model of 1,000,000 parameters"):
        planned(3_999_999)
    assert planned(4_000_000).chosen.bands == 2


OPTIONS = [
    *("--examples", 2000, "--batch-size", 100, "--iterations", 100),
    *("--epsilon", 2, "--delta", 1e-4, "--max-bands", 4),
]


def test_the_command_line_shows_error_against_memory():
    memory = ["--model-size", "1e6", "--noise-memory", "0.001", "--estimate", "--no-tune", "--scheme", "balls-in-bins"]
    result = run("plan", *OPTIONS, *memory)
    assert result.returncode == 0
    words = " ".join(result.stdout.split())
    assert "Error against memory for noise: 1,000,000 parameters, at most 1.02 MiB; by estimates" in words
    assert "(too much)" in words
    data = json.loads(run("plan", *OPTIONS, *memory, "--json").stdout)
    found = data["noise_memory"]
    assert found["model_size"] == 10**6
    assert found["allowed"] == int(0.001 * 2**30)
    assert {True, False} == {point["fits"] for point in found["frontier"]}
    assert min(point["noise_bytes"] for point in found["frontier"]) == 0
    assert all(math.isfinite(point["error"]) for point in found["frontier"])
    assert {one["matrix"] for one in data["table"]} == {"banded-toeplitz", *DENSE}


def test_the_command_line_says_nothing_of_memory_without_a_model():
    result = run("plan", *OPTIONS, "--scheme", "poisson", "--estimate", "--json")
    assert "noise_memory" not in json.loads(result.stdout)


def test_the_command_line_refuses_too_small_a_memory():
    result = run("plan", *OPTIONS, "--scheme", "min-sep", "--model-size", "1e9", "--noise-memory", "1", "--estimate")
    assert result.returncode == 2
    assert "--noise-memory is 1,073,741,824 bytes, but it must be at least 4,000,000,000" in result.stderr
