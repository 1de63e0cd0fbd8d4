"""The best of a random number of trials: against enumeration of all orders of scores, and against an attack."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minsep.accounting.curves import (
    BinomialTrials,
    Curve,
    NegativeBinomial,
    PointCurve,
    PoissonTrials,
    trials_of,
    tuned_points,
)
from minsep.accounting.curves.tuned import _is_above, _Lines
from minsep.accounting.exact import GaussianCurve

LAWS = [
    NegativeBinomial(1.0, 1.0),
    NegativeBinomial(2.0, 1.0),
    NegativeBinomial(10.0, 0.0),
    NegativeBinomial(5.0, 0.5),
    NegativeBinomial(30.0, 2.0),
    PoissonTrials(3.0),
    BinomialTrials(4.0, 8),
    BinomialTrials(4.0, 4),
    NegativeBinomial(50.0, 200.0),
]
weights = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=4).filter(lambda parts: sum(parts) > 0.1)


def normalised(parts):
    return np.array(parts) / math.fsum(parts)


def exact_curve_of(p, q):
    """Return the curve of a discrete pair from all its points."""

    def deltas(first, second):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratios = np.log(first / second)
        epsilons = sorted({0.0, 30.0, *(abs(float(loss)) for loss in ratios if abs(loss) < 30)})
        return tuple(
            (epsilon, float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())) for epsilon in epsilons
        )

    return PointCurve(deltas(p, q), deltas(q, p))


def generating(law, z):
    """Return phi(z) in closed form."""
    match law:
        case PoissonTrials():
            return math.exp(law.mean * (z - 1))
        case BinomialTrials():
            return (1 - law.chance + law.chance * z) ** law.most
    gamma, eta = law.gamma, law.eta
    if gamma == 1:
        return z
    if eta == 0:
        return math.log1p(-(1 - gamma) * z) / math.log(gamma)
    return ((1 - (1 - gamma) * z) ** -eta - 1) / (gamma**-eta - 1)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.kind} {law.mean:g}")
def test_probabilities_have_their_generating_function(law):
    chances = np.diff([law.none, *(law.at_most(count) for count in range(1, 60))])
    series = law.none + float((chances * 0.5 ** np.arange(1, 60)).sum())
    assert series == pytest.approx(generating(law, 0.5), abs=1e-12)


@pytest.mark.parametrize("law", [*LAWS, NegativeBinomial(1e6, 0.0), NegativeBinomial(1e5, 1.0), PoissonTrials(1e4)])
def test_success_is_a_probability(law):
    for share in (1e-6, 1e-3, 0.1, 0.9):
        assert law.success(share) == pytest.approx(1 - generating(law, 1 - share), rel=1e-6, abs=1e-12)
        assert 0 < law.success(share) <= 1


class AlmostOne:
    """A generator whose numbers are the largest below 1."""

    def random(self):
        return 1 - 2.0**-53


@pytest.mark.parametrize("law", [NegativeBinomial(10.0, 1.0), NegativeBinomial(2.0, 0.5), NegativeBinomial(30.0, 2.0)])
def test_a_draw_ends_when_rounding_leaves_a_rest(law):
    assert 10 * law.mean < law.draw(AlmostOne()) < 1000 * law.mean


def test_the_first_probability_may_be_too_small_for_a_number():
    law = NegativeBinomial(1e4, 300.0)  # a deviation of about 600
    drawn = [law.draw(np.random.default_rng(seed)) for seed in range(20)]
    assert all(5000 < count < 15_000 for count in drawn)
    assert law.at_most(15_000) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("excess", [1e-15, 1e-12, 1e-7])
@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_hardly_more_than_one_trial(eta, excess):
    law = NegativeBinomial(1 + excess, eta)
    curve = PointCurve(((1.0, 1e-3),), ((1.0, 1e-3),))
    assert float(tuned_points(curve, law).delta(1.0, "remove")) == pytest.approx(1e-3, rel=1e-4)


def outcomes(law, masses, order):
    """Return the probability of each outcome of a tuning, the last of which is that there was no trial."""
    found = np.zeros(masses.size + 1)
    below = 0.0
    for place in order:  # from the worst score to the best
        found[place] = generating(law, min(below + masses[place], 1.0)) - generating(law, below)
        below += masses[place]
    found[-1] = law.none
    return found


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.kind} {law.mean:g}")
@settings(max_examples=15, deadline=None)
@given(weights, weights)
def test_no_order_of_scores_tells_more_than_the_bound(law, p, q):
    size = min(len(p), len(q))
    p, q = normalised([value + 1e-3 for value in p[:size]]), normalised([*q[: size - 1], 0.2])
    bound = tuned_points(exact_curve_of(p, q), law)
    for order in itertools.permutations(range(size)):
        with_one, without = outcomes(law, p, order), outcomes(law, q, order)
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
            for direction, first, second in (("remove", with_one, without), ("add", without, with_one)):
                delta = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
                assert delta <= float(bound.delta(epsilon, direction)) + 1e-9


EPSILONS = (0.0, 0.3, 1.0, 2.5)


def few_deltas_of(p, q):
    """Return what an exact curve of a discrete pair is at a few epsilons, in both directions."""
    return np.array(
        [[np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for epsilon in EPSILONS] for a, b in ((p, q), (q, p))]
    )


@pytest.mark.parametrize(
    "law", [LAWS[1], LAWS[2], PoissonTrials(3.0), BinomialTrials(4.0, 8)], ids=lambda law: law.kind
)
@settings(max_examples=10, deadline=None)
@given(weights, weights, weights, weights, st.floats(0.1, 0.9))
def test_configurations_with_curves_of_their_own_have_the_mean_curve(law, p, q, other_p, other_q, share):
    parts = [(normalised([*p[:2], 1e-2]), normalised([*q[:2], 0.2])) for p, q in ((p, q), (other_p, other_q))]
    few = share * few_deltas_of(*parts[0]) + (1 - share) * few_deltas_of(*parts[1])
    remove, add = (tuple(zip(EPSILONS, row.tolist(), strict=True)) for row in few)
    bound = tuned_points(PointCurve(remove, add), law)
    (p, q), (other_p, other_q) = parts
    p, q = np.concatenate([share * p, (1 - share) * other_p]), np.concatenate([share * q, (1 - share) * other_q])
    for order in itertools.islice(itertools.permutations(range(p.size)), 0, None, 7):
        with_one, without = outcomes(law, p, order), outcomes(law, q, order)
        for epsilon in (0.0, 0.5, 1.0, 3.0):
            for direction, first, second in (("remove", with_one, without), ("add", without, with_one)):
                delta = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
                assert delta <= float(bound.delta(epsilon, direction)) + 1e-9


def test_the_mean_of_tuned_curves_is_no_bound():
    # Half of the trials tell everything and have the best scores; the other half tells nothing.
    law = NegativeBinomial(10.0, 1.0)
    everything, nothing, both = (PointCurve(((0.0, level),), ((0.0, level),)) for level in (1.0, 0.0, 0.5))
    told = law.success(0.5)
    assert told == pytest.approx(10 / 11)
    of_each = [float(tuned_points(curve, law).delta(1.0, "remove")) for curve in (everything, nothing)]
    assert sum(of_each) / 2 < told <= float(tuned_points(both, law).delta(1.0, "remove"))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.kind} {law.mean:g}")
def test_weights_are_the_derivative_of_the_generating_function(law):
    for better in (0.05, 0.3, 0.7):
        step = 1e-5
        slope = (generating(law, 1 - better + step) - generating(law, 1 - better - step)) / (2 * step)
        assert float(law.weight(np.array([better]))[0]) == pytest.approx(slope, rel=1e-5)
    assert float(law.weight(np.zeros(1))[0]) == pytest.approx(law.mean, rel=1e-9)
    assert generating(law, 1.0) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.kind} {law.mean:g}")
def test_numbers_of_trials_have_their_distribution(law):
    generator = np.random.default_rng(5)
    drawn = np.array([law.draw(generator) for _ in range(20_000)])
    # Hoeffding's inequality at each of six places: a false alarm of less than 6e-7 in all.
    room = math.sqrt(math.log(2 / 1e-7) / (2 * drawn.size))
    for count in (0, 1, 2, 4, 9, 20):
        known = law.at_most(count) if count or isinstance(law, PoissonTrials | BinomialTrials) else 0.0
        assert abs(float((drawn <= count).mean()) - known) <= room


def test_one_trial_tells_what_it_tells():
    curve = PointCurve(((0.5, 0.01), (1.0, 1e-3)), ((0.5, 0.02), (1.0, 1e-3)))
    tuned = tuned_points(curve, NegativeBinomial(1.0))
    for epsilon in (0.0, 0.5, 0.8, 1.0):
        for direction in ("remove", "add"):
            one = float(curve.delta(epsilon, direction))
            assert one <= float(tuned.delta(epsilon, direction)) <= 1.03 * one + 1e-4


@pytest.mark.parametrize(
    ("law", "trials", "attack", "bound"),
    [("logarithmic", 2, 4.44, 4.46), ("logarithmic", 10, 5.46, 5.50), ("logarithmic", 100, 6.66, 6.70),
     ("geometric", 10, 5.77, 5.81), ("poisson", 10, 7.30, 7.40)],
)  # fmt: skip
def test_a_gaussian_curve_costs_hardly_more_than_an_attack_shows(law, trials, attack, bound):
    curve = Curve(GaussianCurve(0.91)).tuned(trials, law)
    assert attack < curve.epsilon(1e-5) < bound
    assert attack_on_a_gaussian(0.91, trials_of(trials, law)) == pytest.approx(curve.epsilon(1e-5), rel=0.015)


@pytest.mark.parametrize("law", [BinomialTrials(4.0, 4), PoissonTrials(1000.0), NegativeBinomial(1e4, 200.0)])
def test_weights_may_be_zero(law):
    points = ((0.0, 0.3), (1.0, 1e-2), (3.0, 1e-6))
    tuned = tuned_points(PointCurve(points, points), law)
    deltas = tuned.delta([0.0, 1.0, 5.0, 20.0, 500.0], "remove")
    assert np.isfinite(deltas).all()
    assert (np.diff(deltas) <= 0).all()
    assert deltas[-1] >= law.mean * 1e-6  # what is left however large epsilon is


def test_what_is_left_is_the_mean_times_an_infinite_loss():
    points = ((0.5, 0.2), (2.0, 1e-4), (4.0, 1e-7))
    one = PointCurve(points, points)
    for law in (NegativeBinomial(10.0, 1.0), PoissonTrials(3.0)):
        assert float(tuned_points(one, law).delta(30.0, "add")) == pytest.approx(law.mean * 1e-7, rel=1e-5)


def test_lines_that_rounding_cannot_tell_apart_are_kept():
    # The second point lies below the chord by less than floating-point products show.
    step = 2.0**-30
    assert not _is_above((1.0, 1.0), (1 + step, 1 + step * (1 - 2.0**-22)), (1 + 2 * step, 1 + 2 * step))
    assert not _is_above((1.0, 1e-200), (1 + step, 1e-200), (1 + 2 * step, 1e-200 * (1 + 2.0**-52)))
    assert _is_above((1.0, 1.0), (2.0, 2.0), (3.0, 3.0))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.kind} {law.mean:g}")
def test_the_envelope_is_no_lower_than_any_line(law):
    atoms = GaussianCurve(1.0)
    epsilons = np.linspace(0.0, 6.0, 60)
    points = tuple(zip(epsilons.tolist(), atoms.delta(epsilons, "remove").tolist(), strict=True))
    curve = PointCurve(points, points)
    first, second = np.array([(atom.under_p, atom.under_q) for atom in curve.atoms]).T
    lines = _Lines.of(law, first, second, curve.infinite("add"))
    places = np.geomspace(1e-6, 1e6, 400)
    for share in np.linspace(0.0, 1.0, 301)[1:-1]:
        # A likelihood ratio test and its randomisation: a probability under P, and the largest one under Q.
        p = np.concatenate([[0.0], np.cumsum(first), [1.0]])
        q = np.concatenate([[curve.infinite("add")], curve.infinite("add") + np.cumsum(second), [1.0]]).clip(0, 1)
        most = np.interp(share, p, q)
        line = law.weight(np.array([share])) * places - law.weight(np.array([most]))
        assert (lines.highest(places) >= line - 1e-13 * law.mean * places).all()


def attack_on_a_gaussian(mu, law):
    """Return the epsilon at 1e-5 that an explicit order of scores shows: unlikely runs first, then likely ones."""
    normal = np.linspace(-9, 9, 20_001)
    width = normal[1] - normal[0]
    without = np.exp(-(normal**2) / 2) / math.sqrt(2 * math.pi) * width
    with_one = np.exp(-((normal - mu) ** 2) / 2) / math.sqrt(2 * math.pi) * width
    best = 0.0
    for cut in np.linspace(-3.0, 2.0, 51):
        # The best scores are those of outcomes below the cut, which are likelier without; then they grow again.
        low_ones = np.nonzero(normal < cut)[0]
        order = np.concatenate([low_ones, np.nonzero(normal >= cut)[0][::-1]])
        above_p = np.cumsum(with_one[order]) - with_one[order]
        above_q = np.cumsum(without[order]) - without[order]
        p = with_one[order] * law.weight(np.clip(above_p, 0, 1))
        q = without[order] * law.weight(np.clip(above_q, 0, 1))
        low, high_epsilon = 0.0, 40.0
        while high_epsilon - low > 1e-3:
            middle = (low + high_epsilon) / 2
            delta = float(np.maximum(p - math.exp(middle) * q, 0.0).sum())
            low, high_epsilon = (middle, high_epsilon) if delta > 1e-5 else (low, middle)
        best = max(best, low)
    return best


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: trials_of(0.5), "mean is 0.5, but it must be a finite number of at least 1"),
        (lambda: trials_of(10, "uniform"), "law is 'uniform'"),
        (lambda: BinomialTrials(10.0, 5), "most is 5, but it must be an integer of at least 10"),
        (lambda: NegativeBinomial(10.0, -1.0), "eta is -1.0"),
    ],
)
def test_other_numbers_of_trials_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
