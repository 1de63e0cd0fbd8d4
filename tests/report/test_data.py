from dataclasses import replace

import numpy as np
import pytest

import minsep
from minsep.paper import Comparison
from minsep.planning import Candidate, Plan, Request
from minsep.show.plots import Star
from minsep.show.report import data, figures
from tests.report.conftest import plan_of


def test_the_curve_is_that_of_the_chosen_mechanism_and_passes_under_the_certified_point(plan: Plan) -> None:
    curve = data.curve(plan)
    assert curve.epsilons[0] == pytest.approx(0.5)
    assert curve.epsilons[-1] == pytest.approx(4.0)
    place = int(np.argmin(abs(curve.epsilons - 2.0)))
    assert curve.epsilons[place] == pytest.approx(2.0, rel=1e-12)
    assert curve.deltas[place] + 4 * curve.stderrs[place] < plan.request.delta
    alone = minsep.estimate_delta(plan.mechanism, 2.0, samples=40_000, seed=1)
    error = np.hypot(alone.stderr, curve.stderrs[place])
    # Six standard errors: a false alarm in fewer than one run in 10^8.
    assert abs(alone.value - curve.deltas[place]) < 6 * error
    assert "estimate" in curve.words
    assert "not a guarantee" in curve.words


def test_an_exact_curve_is_called_computed() -> None:
    chosen = Candidate("poisson", 1, 1, noise_multiplier=1.0, error=5.0)
    plan = plan_of(chosen, [], Request(2000, 20, 60, 2.0, 1e-3))
    curve = data.curve(plan)
    assert curve.exact
    assert curve.words.startswith("Computed")
    assert curve.shown.all()
    assert data.gains(plan) == ["It is the best of the baselines: no other candidate has a smaller error."]
    assert plan.against_baseline is None
    assert plan.headline == "DP-SGD is best at epsilon 2"
    for _, _, summary, _ in data.proof_rows(plan.certificate):
        assert summary.startswith("computed from the privacy loss distribution")


def test_estimates_that_drown_in_their_error_are_not_drawn() -> None:
    ones = np.ones(4)
    deltas, stderrs = np.array([1e-2, 1e-3, 1e-4, 0.0]), np.array([1e-4, 1e-4, 1e-4, 0.0])
    curve = data.Curve(ones, deltas, stderrs, deltas, deltas, "plain", 10, False)
    assert curve.shown.tolist() == [True, True, False, False]


def test_series_have_the_best_separation_for_each_number_of_bands(plan: Plan) -> None:
    found = {one.name: one for one in data.series(plan)}
    assert list(found) == ["DP-SGD, Poisson sampling", "cyclic Poisson", "b-min-sep", "b-min-sep, tuned"]
    assert found["b-min-sep"].bands == [2, 4]
    assert found["b-min-sep"].errors == [3.5, 3.2]
    assert found["b-min-sep"].noise_multipliers == [0.57, 0.59]
    assert found["b-min-sep, tuned"].errors == [3.0]


def test_errors_far_above_the_best_of_every_scheme_are_outside_of_the_plot(plan: Plan) -> None:
    low, high = data.range_of_errors(plan)
    assert low < min(3.0, plan.error) < max(4.5, plan.error) < high
    assert data.errors_outside(plan) == []
    worse = Candidate("min-sep", 1, 8, noise_multiplier=3.0, error=75.0)
    crowded = replace(plan, table=(*plan.table, worse))
    assert data.range_of_errors(crowded) == (low, high)
    assert data.errors_outside(crowded) == [75.0]
    assert figures.by_bands(crowded, "error").y.limits == (low, high)
    assert "(1 above the plot)" in figures.by_bands(crowded, "error").title


def test_the_plan_lies_on_its_own_curve_and_its_certified_noise_beside_it(plan: Plan) -> None:
    better = Candidate("min-sep", 4, 16, 0.5, noise_multiplier=0.8, error=2.99)
    found = {one.name: one for one in data.series(replace(plan, table=(better, *plan.table)))}
    assert found["b-min-sep, tuned"].noise_multipliers == [plan.chosen.noise_multiplier]
    star = figures.by_bands(plan, "noise_multiplier").layers[-1]
    assert isinstance(star, Star)
    assert (star.name, star.y) == ("the plan, certified", plan.mechanism.noise_multiplier)


def test_what_was_skipped_keeps_its_reason(plan: Plan) -> None:
    assert [one.skipped for one in data.skipped(plan)] == ["more bands than the separation, 4"]
    assert len(data.tried(plan)) == 7


def test_the_gain_is_over_the_best_baseline_with_certified_noise(plan: Plan) -> None:
    assert plan.against_baseline is not None
    assert plan.against_baseline.saved == pytest.approx(1 - plan.error / 3.6)
    sentences = data.gains(plan)
    assert f"cyclic Poisson, cycle 2, 2 bands ({plan.error:.4g} instead of 3.6)" in sentences[0]
    assert "certified" in sentences[0]
    assert f"{100 * (1 - 3.0 / 3.2):.1f} %" in sentences[1]
    alone = replace(plan, table=tuple(one for one in plan.table if one.scheme == "min-sep"))
    assert alone.against_baseline is None
    assert alone.against_dp_sgd is None
    assert "no baseline" in data.gains(alone)[0]


def test_batches_are_those_of_a_simulated_run_that_no_seed_of_the_plan_gives(plan: Plan) -> None:
    found = data.batch_sizes(plan)
    assert found.sizes.size == 60
    assert found.expected == pytest.approx(20)
    assert found.cut is None
    own = [batch.size for batch in plan.mechanism.batches(2000, seed=plan.seed)]
    assert found.sizes.tolist() != own
    # The sum of all sizes has a standard deviation below that of Poisson's, sqrt(1200) = 35.
    assert abs(found.sizes.sum() - 1200) < 6 * 35
    assert "simulated run, not yours" in found.words


def test_cut_batches_leave_out_the_padding() -> None:
    chosen = Candidate("min-sep", 2, 8, noise_multiplier=2.0, error=5.0)
    plan = plan_of(chosen, [], Request(2000, 20, 60, 2.0, 1e-3, max_batch_size=22))
    found = data.batch_sizes(plan)
    assert found.cut == 22
    assert found.sizes.max() == 22
    assert found.sizes.min() < 20
    assert "truncated to 22" in found.words


def test_a_dataset_too_large_for_a_report_is_not_simulated(plan: Plan) -> None:
    large = replace(plan, request=replace(plan.request, num_examples=10**9))
    found = data.batch_sizes(large)
    assert found.sizes.size == 0
    assert found.words.startswith("Not simulated")


def test_long_runs_are_thinned() -> None:
    found = data.BatchSizes(np.arange(9_999), 20_000, 5.0, None)
    assert found.every == 5
    assert "first 9,999 iterations" in found.words
    assert "One in 5 is shown." in found.words


def test_coefficients_are_beside_those_of_the_paper_if_tuned(plan: Plan) -> None:
    found = data.coefficients(plan)
    assert found.paper is not None
    assert found.chosen.tolist() == plan.mechanism.strategy.dense()[: found.chosen.size, 0].tolist()
    assert np.linalg.norm(found.chosen) == pytest.approx(1)
    assert found.chosen[1] / found.chosen[0] == pytest.approx(0.7 * found.paper[1] / found.paper[0])


def test_proofs_are_those_of_the_certificate_in_its_own_words(plan: Plan) -> None:
    for row, proof in zip(data.proof_rows(plan.certificate), plan.certificate.proofs, strict=True):
        direction, _, summary, outcome = row
        assert (direction, summary, outcome == "passed") == (proof.direction, proof.summary(), proof.passed)


def test_ratios_and_the_colours_they_span(comparison: Comparison) -> None:
    others = ("cyclic-poisson", "balls-in-bins")
    values = data.ratios(comparison, "cyclic-poisson")
    assert values.shape == (3, 2)
    assert values[0].tolist() == pytest.approx([0.25, (1.1 / 2) ** 2])
    assert data.widest(comparison, others) == pytest.approx(2.0)
    assert "smaller error in 6 of 6" in data.verdict(comparison, "cyclic-poisson")
    assert "smaller error in 0 of 6" in data.verdict(comparison, "balls-in-bins")
