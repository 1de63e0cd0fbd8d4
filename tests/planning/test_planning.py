"""The planner: what it tries and skips, that its ranking is right, and that it never does worse than a baseline."""

import math
from dataclasses import replace

import pytest

import minsep
from minsep.accounting import cost_of_cutting, estimated_noise_multiplier, exact_mechanism
from minsep.accounting.estimation import noise_at_target
from minsep.engine import LOCAL
from minsep.planning import Candidate, Plan, Request
from minsep.planning.candidates import candidates
from minsep.planning.search import Search, error_of

REQUEST = Request(2000, 20, 100, 2.0, 1e-3)
CERTIFICATE = minsep.certify(
    minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=100), minsep.Poisson(0.01), 1.0), 2.0, 1e-3
)


@pytest.fixture(scope="module")
def small_plan():
    return minsep.plan(2000, 20, 100, 2.0, 1e-3, max_bands=4, seed=0)


def test_all_named_corners_are_tried_or_skipped_with_a_reason():
    listed = list(candidates(replace(REQUEST, max_bands=256, model_size=10**9, noise_memory=10 << 30)))
    tried = {(one.scheme, one.bands, one.min_sep) for one in listed if not one.skipped}
    skipped = {one.skipped for one in listed if one.skipped}
    assert {("poisson", 1, 1), ("random-allocation", 1, 1)} <= tried
    assert {("cyclic-poisson", 2, 2), ("balls-in-bins", 2, 100), ("min-sep", 2, 2), ("min-sep", 2, 64)} <= tried
    assert "its noise needs 11.2 GiB, more than the 10 GiB allowed" in skipped
    assert "there are 100 iterations" in skipped
    assert all(one.bands <= one.min_sep for one in listed if not one.skipped)


def test_separations_go_from_the_bands_to_the_epoch():
    request = replace(REQUEST, max_bands=16, schemes=["min-sep"])
    listed = list(candidates(request))
    assert [one.min_sep for one in listed if one.bands == 16] == [16, 32, 64, 100]
    assert {one.min_sep for one in candidates(replace(request, min_sep=20))} == {20}


def test_the_first_candidate_is_there_before_other_strategies_are_made(monkeypatch):
    made = []
    real = Candidate.design

    def design(candidate, request):
        made.append(candidate)
        return real(candidate, request)

    class FirstFoundError(Exception):
        pass

    def found(candidate):
        assert candidate.scheme == "poisson"
        raise FirstFoundError

    monkeypatch.setattr(Candidate, "design", design)
    with pytest.raises(FirstFoundError):
        minsep.plan(2000, 20, 100, 2.0, 1e-3, estimate=True, found=found)
    assert [one.scheme for one in made] == ["poisson"]


def test_schemes_that_cannot_be_run_are_named_in_words():
    with pytest.raises(ValueError, match=r"^schemes is cyclic-poisson, but none of them can be run: "):
        minsep.plan(2000, 20, 100, 2.0, 1e-3, user_bound=3, schemes=["cyclic-poisson"])


def test_the_plan_is_certified_and_no_worse_than_any_baseline(small_plan):
    assert small_plan.certificate.passed
    assert small_plan.certificate.mechanism == small_plan.mechanism
    for scheme, bands in [("poisson", 1), ("cyclic-poisson", 2), ("cyclic-poisson", 4)]:
        proven = exact_mechanism(Candidate(scheme, bands, bands).design(REQUEST), 2.0, 1e-3)
        assert small_plan.error <= 1.001 * proven.root_mean_squared_error
    assert minsep.verify(small_plan.certificate).holds


def test_the_table_is_ranked_and_its_errors_are_those_of_its_noise(small_plan):
    errors = [one.error for one in small_plan.table if one.error is not None]
    assert errors == sorted(errors)
    for one in small_plan.table:
        if one.error is not None:
            expected = one.noise_multiplier * math.sqrt(one.strategy(small_plan.request).mean_squared_error)
            assert one.error == pytest.approx(expected)
    assert small_plan.error <= 1.03 * errors[0]
    assert small_plan.gain >= 0
    assert small_plan.baseline.scheme != "min-sep"
    assert "certified" in small_plan.statement


def test_estimates_of_the_search_agree_with_the_noise_that_a_finer_one_finds():
    search = Search(REQUEST, 0, LOCAL, None)
    (found,) = search.estimate_all([Candidate("min-sep", 4, 10)])
    mechanism = found.design(REQUEST).with_noise(found.noise_multiplier)
    # A relative error of 2 % in the noise is at least 10 % in delta, many standard errors of 200,000 tilted samples.
    above = minsep.estimate_delta(mechanism.with_noise_multiplier(1.02 * found.noise_multiplier), 2.0, 200_000)
    below = minsep.estimate_delta(mechanism.with_noise_multiplier(found.noise_multiplier / 1.02), 2.0, 200_000)
    assert above.value < 1e-3 < below.value


def test_a_winner_that_certifies_badly_gives_way_to_a_proven_baseline(monkeypatch):
    real = minsep.planning.search.calibrate

    def noisy(design, **options):
        found = real(design, **options)
        if isinstance(design.scheme, minsep.MinSep):
            return minsep.Calibration(found.mechanism.with_noise_multiplier(50.0), found.certificate, 2.0, 1e-3, ())
        return found

    monkeypatch.setattr("minsep.planning.search.calibrate", noisy)
    schemes = ["poisson", "cyclic-poisson", "min-sep"]
    best = minsep.plan(2000, 20, 100, 2.0, 1e-3, max_bands=2, schemes=schemes, tune=False, seed=0)
    assert best.chosen.scheme == "cyclic-poisson"
    assert best.certificate.proofs[0].method == "pld"


def test_tuning_lowers_the_error_where_it_is_known_to():
    """n = 300, 16 bands, epsilon 1: less correlation than the optimum without amplification is better."""
    task = Request(6000, 20, 300, 1.0, 1e-5)
    search = Search(task, 0, LOCAL, None)
    (paper,) = search.estimate_all([Candidate("min-sep", 16, 16)])
    tuned = search.tune([paper])
    assert min(one.error for one in tuned) < 0.99 * paper.error


def test_shrinking_keeps_the_norm_and_the_diagonal_dominant():
    strategy = minsep.BandedToeplitz.optimal(iterations=50, bands=6)
    shrunk = strategy.shrunk(0.4)
    assert shrunk.column_norms.max() == pytest.approx(1.0)
    ratio = shrunk.coefficients / strategy.coefficients
    assert ratio[1:] / ratio[0] == pytest.approx([0.4] * 5, abs=1e-5)
    assert strategy.shrunk(1.0) == strategy
    with pytest.raises(ValueError, match="factor is 0, but it must be"):
        strategy.shrunk(0)


def test_all_problems_are_said_at_once():
    with pytest.raises(ValueError, match="num_examples is 0") as error:
        minsep.plan(0, -1, 0, float("nan"), 2, max_bands=0, schemes=["min-sep", "shuffle"], model_size=0)
    sentences = str(error.value).splitlines()
    names = ("num_examples", "batch_size", "iterations", "epsilon", "delta", "model_size", "max_bands", "schemes")
    assert [sentence.split(" is ")[0] for sentence in sentences] == list(names)
    with pytest.raises(ValueError, match="min_sep is 101, but it must be an integer of at least 1 and at most 100"):
        minsep.plan(2000, 20, 100, 2.0, 1e-3, min_sep=101)
    with pytest.raises(ValueError, match="max_batch_size is 10, but it must be an integer of at least 20"):
        minsep.plan(2000, 20, 100, 2.0, 1e-3, max_batch_size=10)


def test_a_truncated_task_is_planned():
    best = minsep.plan(
        2000,
        20,
        100,
        4.0,
        1e-3,
        max_bands=2,
        schemes=["cyclic-poisson", "min-sep"],
        max_batch_size=50,
        tune=False,
        seed=0,
    )
    assert best.mechanism.truncation == minsep.Truncation(50, 2000)
    assert best.certificate.passed


def test_progress_names_every_stage():
    stages = []
    minsep.plan(
        2000,
        20,
        60,
        2.0,
        1e-3,
        max_bands=2,
        min_sep=4,
        schemes=["min-sep"],
        seed=0,
        progress=lambda p: stages.append(p.stage),
    )
    assert list(dict.fromkeys(stages)) == ["estimating", "tuning", "certifying"]


@pytest.mark.parametrize("truth", [0.01, 0.3, 1.0, 40.0])
def test_the_search_for_the_noise_converges(truth):
    asked = []

    def log_excess(sigma):
        asked.append(sigma)
        return -5 * math.log(sigma / truth) - 2 * math.log(sigma / truth) ** 3

    assert noise_at_target(log_excess, 1.0, 0.01) == pytest.approx(truth, rel=0.003)
    assert len(asked) <= 14


def test_an_estimate_survives_a_bad_guess():
    design = minsep.Design(minsep.BandedToeplitz.identity(iterations=200), minsep.MinSep(0.02, 5))
    near = estimated_noise_multiplier(design, minsep.Budget(2.0, 1e-4), 0.7, 8000, 0)
    far = estimated_noise_multiplier(design, minsep.Budget(2.0, 1e-4), 7.0, 8000, 1)
    assert near == pytest.approx(far, rel=0.02)


def test_plans_for_users_show_the_trade():
    graph = minsep.AttributionGraph.from_lists([[k // 2, 1000 + k // 3] for k in range(2000)])
    seen = []
    found = minsep.plan_users(
        graph,
        20,
        20,
        epsilon=4.0,
        delta=1e-2,
        user_bounds=[1, 2],
        max_bands=2,
        min_sep=2,
        schemes=["poisson", "min-sep", "cyclic-poisson"],
        tune=False,
        seed=0,
        progress=seen.append,
    )
    one, two = found.plans
    assert (one.user_bound, two.user_bound) == (1, 2)
    assert (one.examples_kept, two.examples_kept) == (667, 1334)
    assert two.plan.certificate.unit == "user"
    assert all(option.plan.certificate.passed for option in found.plans)
    assert found.recommended.error_per_example == min(one.error_per_example, two.error_per_example)
    assert f"{found.recommended.examples_kept:,} examples" in found.statement
    assert any(event.detail.startswith("user bound 2: ") for event in seen)
    skipped = {candidate.scheme: candidate.skipped for candidate in two.plan.table if candidate.skipped}
    assert skipped == {"cyclic-poisson": "its privacy is not known for users with several examples"}
    with pytest.raises(ValueError, match="user_bounds is .*, but it must be one or more different numbers"):
        minsep.plan_users(graph, 20, 20, 4.0, 1e-2, user_bounds=[2, 2])


def test_blocking_within_a_user_is_tried_where_nothing_is_shared():
    owned = minsep.AttributionGraph.from_lists([[k // 2] for k in range(2000)])
    request = Request(2000, 20, 60, 8.0, 1e-3, user_bound=2, graph=owned, max_bands=4)
    tried = [one for one in candidates(request) if not one.skipped]
    kinds = {one.scheme for one in tried}
    assert kinds == {"poisson", "min-sep", "multi-attribution-min-sep"}
    blocking = next(one for one in tried if one.scheme == "multi-attribution-min-sep")
    scheme = blocking.design(request).scheme
    assert (scheme.shared, scheme.assumptions, scheme.unit) == (False, (), "user")
    assert scheme.expected_batch_size(2000) == pytest.approx(20)
    assert blocking.name == "b-min-sep, blocking within a user, b = 2, 2 bands"
    shared = minsep.AttributionGraph.from_lists([[k // 2, 1000 + k // 2] for k in range(2000)])
    for other in (shared, None):
        request = Request(2000, 20, 60, 8.0, 1e-3, user_bound=2, graph=other, max_bands=4)
        assert "multi-attribution-min-sep" not in {one.scheme for one in candidates(request)}
    found = minsep.plan(
        2000, 20, 60, 8.0, 1e-3, user_bound=2, graph=owned, schemes=["multi-attribution-min-sep"], max_bands=2, seed=0
    )
    assert found.certificate.passed
    assert found.certificate.assumptions == ()
    assert "for users with at most 2 examples each" in found.statement
    assert len(list(found.mechanism.batches(2000, seed=0))) == 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_examples": 5}, "num_examples is 5, but the graph has 4 examples"),
        ({"user_bound": 1}, "user_bound is 1, but user 0 has 2 examples: bound contributions first"),
        ({"graph": [[0]]}, "graph is .*, but it must be an AttributionGraph"),
    ],
)
def test_a_graph_that_does_not_fit_is_refused(arguments, message):
    graph = minsep.AttributionGraph.from_lists([[0], [0], [1], [1]])
    given = {"num_examples": 4, "user_bound": 2, "graph": graph} | arguments
    with pytest.raises(ValueError, match=message):
        minsep.plan(batch_size=2, iterations=4, epsilon=1.0, delta=1e-3, **given)


def test_an_estimate_is_marked_and_has_no_certificate(small_plan):
    found = minsep.plan(2000, 20, 100, 2.0, 1e-3, max_bands=4, estimate=True)
    assert found.estimated
    assert not found.certified
    assert [proof.summary() for proof in found.certificate.proofs] == ["the plan is an estimate"] * 2
    assert not minsep.verify(found.certificate).holds
    assert found.statement.startswith("ESTIMATE, not certified: ")
    assert found.mechanism.noise_multiplier == found.chosen.noise_multiplier
    assert small_plan.certified
    assert found.table == small_plan.table


def test_plans_without_a_seed_name_one_mechanism(small_plan):
    other = minsep.plan(2000, 20, 100, 2.0, 1e-3, max_bands=4)
    assert other.seed != small_plan.seed
    assert other.chosen == small_plan.chosen
    assert other.mechanism == small_plan.mechanism
    assert other.certificate != small_plan.certificate


def test_ties_are_said():
    search = Search(REQUEST, 0, LOCAL, None)
    tried = [
        Candidate("min-sep", 4, 8, 0.5, 1.0, 2.0),
        Candidate("min-sep", 4, 8, 0.35, 1.0, 2.005),
        Candidate("min-sep", 4, 16, 1.0, 1.0, 2.01),
        Candidate("min-sep", 2, 16, 1.0, 1.0, 2.1),
    ]
    assert search.ties(tried[0], tried) == (tried[2],)
    plan = Plan(
        REQUEST, tried[0], tried[0].design(REQUEST).with_noise(1.0), CERTIFICATE, tuple(tried), 0, ties=(tried[2],)
    )
    assert plan.statement.endswith(
        "It is tied with b-min-sep, b = 16, 4 bands within estimation error (1 %), and cheapest to certify."
    )


def test_a_plan_is_compared_like_with_like(small_plan):
    margin = small_plan.against_dp_sgd
    assert (margin.other.scheme, margin.certified, margin.error) == ("poisson", True, small_plan.error)
    assert margin.saved == 1 - small_plan.error / margin.other.error
    assert small_plan.headline == f"{100 * margin.saved:.0f} % less error than DP-SGD at epsilon 2"
    uncertain = Candidate("balls-in-bins", 2, 50, noise_multiplier=1.0, error=0.1)
    beside = replace(small_plan, table=(uncertain, *small_plan.table)).against_baseline
    assert (beside.certified, beside.error) == (False, small_plan.chosen.error)
    assert beside.words.endswith("by estimates)")


def of_table(chosen, *others):
    mechanism = chosen.design(REQUEST).with_noise(chosen.noise_multiplier)
    return Plan(REQUEST, chosen, mechanism, CERTIFICATE, tuple(sorted([chosen, *others], key=error_of)), 0)


def test_a_plan_says_why_a_lower_estimate_was_not_chosen_and_when_correlation_does_not_help():
    chosen = Candidate("min-sep", 4, 8, 0.5, 1.0, 2.0)
    assert of_table(chosen).reason == ""
    tied = of_table(chosen, Candidate("min-sep", 4, 16, 1.0, 1.0, 1.99))
    assert tied.reason == (
        "b-min-sep, b = 16, 4 bands has 0.5 % less error by estimates: tied within 1 %, and the chosen mechanism is "
        "cheapest to certify."
    )
    assert "needs more noise" in of_table(chosen, Candidate("min-sep", 4, 16, 1.0, 1.0, 1.8)).reason
    dp_sgd = Candidate("poisson", 1, 1, 1.0, 1.0, 2.0, exact=True)
    best = of_table(dp_sgd, Candidate("min-sep", 4, 8, 1.0, 1.0, 2.5))
    assert best.headline == "DP-SGD is best at epsilon 2"
    assert best.reason.startswith("Correlated noise does not help here")
    assert best.against_baseline is None
    as_good = replace(dp_sgd, error=1.005 * of_table(chosen).error)
    assert of_table(chosen, as_good).headline == "no better than DP-SGD at epsilon 2"


def test_a_cut_that_costs_too_much_is_said_with_the_size_that_would_do():
    schemes = ["cyclic-poisson", "balls-in-bins", "min-sep"]
    found = minsep.plan(
        1000, 50, 40, 4.0, 1e-3, max_batch_size=60, max_bands=4, min_sep=8, schemes=schemes, tune=False, seed=0
    )
    cut = [one for one in found.table if one.cut]
    assert {one.scheme for one in cut} == {"min-sep", "balls-in-bins"}
    assert cut[0].skipped == "cutting batches at 60 adds up to 1 to delta, which is 0.001"
    assert found.chosen.scheme == "cyclic-poisson"
    wider = found.wider
    assert wider.estimated
    assert wider.error < found.error
    assert wider.mechanism.truncation.batch_size == wider.request.max_batch_size == 86
    assert f"With batches cut at 86, {wider.chosen.name} should have an error of about" in found.statement
    with pytest.raises(ValueError, match="max_batch_size is 60, but cutting batches at 60 adds .* at least 82"):
        minsep.plan(1000, 50, 40, 4.0, 1e-3, max_batch_size=60, max_bands=4, min_sep=8, schemes=["min-sep"])
    costs = {
        size: max(cost_of_cutting(one.design(replace(wider.request, max_batch_size=size)), 4.0) for one in cut)
        for size in (85, 86)
    }
    assert costs[86] <= 5e-5 < costs[85]
