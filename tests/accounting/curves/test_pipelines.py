"""The mathematics of a certificate of a pipeline (docs/curves.md, section 6), by enumeration of random pairs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.accounting.curves.test_points import hockey_stick, pairs

EPSILONS = (-1.0, 0.0, 0.4, 1.5, 4.0)


@st.composite
def runs(draw, size=5):
    """P and Q of a run, each of which has every outcome, as normal noise has."""
    weights = st.lists(st.floats(0.01, 10.0), min_size=size, max_size=size)
    p, q = (np.array(draw(weights)) for _ in range(2))
    return p / p.sum(), q / q.sum()


def payoff(others, direction):
    """f and the infinite mass of the other mechanisms."""
    a, b = others if direction == "remove" else reversed(others)
    infinite = float(a[b == 0].sum())
    return (lambda epsilon: hockey_stick(a, b, epsilon) - infinite), infinite


def greatest(others, direction, order):
    """g: the supremum of f e^(order epsilon), piece by piece in e^epsilon, as section 6 says."""
    a, b = others if direction == "remove" else reversed(others)
    both = (a > 0) & (b > 0)
    ends = np.unique(np.append(a[both] / b[both], 0.0))
    best = 0.0
    for low, high in pairwise(ends.tolist()):
        above = both & (a / np.where(b > 0, b, 1) >= high * (1 - 1e-12))
        constant, slope = float(a[above].sum()), float(b[above].sum())
        top = min(max(order * constant / ((1 + order) * slope), low), high)
        best = max(best, (constant - slope * top) * top**order)
    return best


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs(), pairs(4), st.floats(1.0, 5.0), st.floats(0, 0.3))
def test_the_identity_and_the_bound_hold_for_random_pairs(run, others, order, h):
    p, q = run
    ratio = p / q
    for direction in ("remove", "add"):
        f, infinite = payoff(others, direction)
        power = order - 1 if direction == "remove" else order
        g = greatest(others, direction, power)
        density = ratio**order if direction == "remove" else ratio**-order  # of P' against Q, times M
        constant = float(q @ density)
        for epsilon in EPSILONS:
            a, b = others
            one, two = (np.outer(p, a), np.outer(q, b)) if direction == "remove" else (np.outer(q, b), np.outer(p, a))
            truth = hockey_stick(one, two, epsilon)
            if direction == "remove":
                front, inner = ratio, [f(epsilon - math.log(each)) for each in ratio]
            else:
                front, inner = 1.0, [f(epsilon + math.log(each)) for each in ratio]
            x = front * np.array(inner) * constant / density
            assert infinite + float((q * density / constant) @ x) == pytest.approx(truth, rel=1e-9, abs=1e-12)
            bound = constant * math.exp(-power * epsilon) * g
            assert (x <= bound * (1 + 1e-9) + 1e-12).all()
            # A computed ratio that is wrong by up to h in its logarithm: rounded up it is covered.
            for error in (-h, h):
                wrong = ratio * math.exp(error)
                if direction == "remove":
                    up = wrong * math.exp(h) * np.array([f(epsilon - math.log(each) - h) for each in wrong])
                else:
                    up = np.array([f(epsilon + math.log(each) - h) for each in wrong])
                up = up * constant / density
                shifted = constant * math.exp(-power * (epsilon - 2 * h)) * g
                assert (up >= x * (1 - 1e-9) - 1e-12).all()
                assert (up <= math.exp(2 * h) * shifted * (1 + 1e-9) + 1e-12).all()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs(), runs(), pairs(3), st.floats(0.01, 0.6), runs())
def test_truncation_beside_other_mechanisms(outside, inside, others, share, moved):
    """Off an event A nothing is truncated, and there P/Q grows with the outcome; on A both laws may be anything."""
    q = outside[1]
    not_a, on_a = (increasing(each, q) for each in (outside[0], inside[0]))
    p = share * on_a + (1 - share) * not_a
    p_r = share * moved[0] + (1 - share) * not_a
    q_r = share * moved[1] + (1 - share) * q
    a, b = others
    for epsilon in EPSILONS:
        remove = hockey_stick(np.outer(p_r, a), np.outer(q_r, b), epsilon)
        bound = hockey_stick(np.outer(p, a), np.outer(q, b), epsilon + math.log1p(-share))
        assert remove <= share + bound + 1e-12
        add = hockey_stick(np.outer(q_r, b), np.outer(p_r, a), epsilon)
        ratio = (p / q)[:, None]
        inner = np.maximum((1 - share) * b - math.exp(epsilon) * (ratio - share) * a, 0).sum(axis=1)
        assert add <= share + float(q @ inner) + 1e-12


def increasing(weights, q):
    """A law whose ratio to q grows with the outcome, from 1 or less."""
    ratios = np.cumsum(weights)
    return q * ratios / (q @ ratios)
