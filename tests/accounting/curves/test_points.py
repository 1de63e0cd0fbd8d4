"""The pair of proven points, against random discrete pairs and high precision."""

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minsep.accounting.curves import PointCurve
from minsep.accounting.directions import DIRECTIONS

EPSILONS = np.concatenate([np.linspace(-6, 6, 121), [-40.0, 40.0]])


def hockey_stick(p, q, epsilon):
    """H(P, Q) of two discrete distributions, from the definition."""
    return float(np.maximum(np.asarray(p) - np.exp(epsilon) * np.asarray(q), 0).sum())


def delta(pair, epsilon, direction):
    p, q = pair if direction == "remove" else reversed(pair)
    return hockey_stick(p, q, epsilon)


def pair_of(curve):
    """The probabilities of the atoms under P and Q, with those of both infinite losses."""
    p = [atom.under_p for atom in curve.atoms] + [curve.infinite("remove"), 0.0]
    q = [atom.under_q for atom in curve.atoms] + [0.0, curve.infinite("add")]
    return np.array(p), np.array(q)


@st.composite
def pairs(draw, size=5):
    """Two distributions on a few outcomes, some of which only one of them has."""
    weights = st.lists(st.sampled_from([0, 0, 1, 2, 5, 40, 1000]), min_size=size, max_size=size).filter(any)
    p, q = (np.array(draw(weights), dtype=float) for _ in range(2))
    return p / p.sum(), q / q.sum()


epsilons = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), epsilons, epsilons)
def test_points_of_a_pair_dominate_it_in_both_directions(pair, removes, adds):
    curve = PointCurve(
        tuple((epsilon, delta(pair, epsilon, "remove") * (1 + 1e-12) + 1e-15) for epsilon in removes),
        tuple((epsilon, delta(pair, epsilon, "add") * (1 + 1e-12) + 1e-15) for epsilon in adds),
    )
    for direction in DIRECTIONS:
        found = curve.delta(EPSILONS, direction)
        truth = np.array([delta(pair, epsilon, direction) for epsilon in EPSILONS])
        assert (found >= truth * (1 - 1e-12) - 1e-15).all()
        # At the points themselves it is no worse than what was proven there.
        for epsilon, proven in curve.remove if direction == "remove" else curve.add:
            assert curve.delta(epsilon, direction) <= proven * (1 + 1e-9) + 1e-12


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), epsilons, epsilons)
def test_the_atoms_are_a_pair_with_exactly_the_curve(pair, removes, adds):
    curve = PointCurve(
        tuple((epsilon, delta(pair, epsilon, "remove") + 1e-15) for epsilon in removes),
        tuple((epsilon, delta(pair, epsilon, "add") + 1e-15) for epsilon in adds),
    )
    dominating = pair_of(curve)
    for masses in dominating:
        assert (masses >= 0).all()
        assert masses.sum() == pytest.approx(1, abs=1e-12)
    for direction in DIRECTIONS:
        truth = [delta(dominating, epsilon, direction) for epsilon in EPSILONS]
        assert curve.delta(EPSILONS, direction) == pytest.approx(truth, rel=1e-9, abs=1e-12)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), epsilons, epsilons)
def test_remove_and_add_mirror_each_other(pair, removes, adds):
    points = [
        tuple((epsilon, delta(pair, epsilon, direction) + 1e-15) for epsilon in found)
        for direction, found in zip(DIRECTIONS, (removes, adds), strict=True)
    ]
    curve, mirrored = PointCurve(*points), PointCurve(*reversed(points))
    assert curve.delta(EPSILONS, "remove") == pytest.approx(mirrored.delta(EPSILONS, "add"), rel=1e-9, abs=1e-12)
    assert curve.infinite("remove") == pytest.approx(mirrored.infinite("add"), rel=1e-9, abs=1e-12)
    # H_alpha(P, Q) = 1 - alpha + alpha H_(1/alpha)(Q, P)
    sizes = np.exp(EPSILONS)
    other = 1 - sizes + sizes * curve.delta(-EPSILONS, "add")
    near = np.abs(EPSILONS) < 10
    assert curve.delta(EPSILONS, "remove")[near] == pytest.approx(other[near], rel=1e-9, abs=1e-9)


def test_the_hull_of_all_points_of_a_pair_is_the_pair():
    p, q = np.array([0.5, 0.3, 0.15, 0.05, 0.0]), np.array([0.02, 0.2, 0.3, 0.38, 0.1])
    losses = np.log(p[:4] / q[:4])
    curve = PointCurve(tuple((float(loss), hockey_stick(p, q, loss)) for loss in losses), ())
    assert len(curve.atoms) == 4
    assert [atom.loss for atom in curve.atoms] == pytest.approx(sorted(losses))
    assert [atom.under_p for atom in curve.atoms] == pytest.approx(sorted(p[:4]))
    assert curve.infinite("add") == pytest.approx(0.1)
    assert curve.infinite("remove") == pytest.approx(0.0, abs=1e-12)


steps = st.lists(st.tuples(st.floats(1e-7, 0.5), st.floats(1.0, 60.0)), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_the_curve_is_nowhere_below_the_exact_hull_however_steep(shape, places):
    """Deltas that fall by up to 26 digits within an epsilon of 1e-7: sums of floating-point numbers must not cancel."""
    points, epsilon, height = [], 0.1, 0.5
    for step, fall in shape:
        points.append((epsilon, height))
        epsilon, height = epsilon + step, height * float(np.exp(-fall))
    curve = PointCurve(tuple(points), ((0.3, 1e-9),))
    ends = [each for each, _ in points]
    tried = [*ends, *np.interp(places, np.linspace(0, 1, len(ends)), ends), *(-np.array(places))]
    with mpmath.workdps(60):
        for epsilon in tried:
            alpha = mpmath.exp(mpmath.mpf(float(epsilon)))
            truth = exact_height(curve.hull, alpha)
            found = mpmath.mpf(float(curve.delta(epsilon, "remove")))
            assert found >= truth
            assert found <= truth * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("1e-6")


def exact_height(hull, alpha):
    """The height of the hull at a size, with many digits."""
    vertices = [(mpmath.mpf(x.numerator) / x.denominator, mpmath.mpf(y.numerator) / y.denominator) for x, y in hull]
    for (left, high), (right, low) in pairwise(vertices):
        if alpha <= right:
            return high + (low - high) * (alpha - left) / (right - left)
    return vertices[-1][1]


def test_points_that_say_nothing_prove_nothing():
    for points in ((), ((1.0, 1.0),)):
        curve = PointCurve(points, ())
        assert curve.hull[0] == (Fraction(0), Fraction(1))
        assert curve.delta(3.0, "remove") == pytest.approx(1.0)
        assert curve.delta(3.0, "add") == pytest.approx(1.0)
