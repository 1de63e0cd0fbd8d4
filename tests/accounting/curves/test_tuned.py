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
from minsep.accounting.exact import GaussianCurve

LAWS = [
    NegativeBinomial(1.0, 1.0),
    NegativeBinomial(2.0, 1.0),
    NegativeBinomial(10.0, 0.0),
    NegativeBinomial(5.0, 0.5),
    NegativeBinomial(30.0, 2.0),
    PoissonTrials(3.0),
    BinomialTrials(4.0, 8),
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
