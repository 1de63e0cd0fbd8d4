"""Why every example draws numbers of its own."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import minsep


def test_a_public_sequence_drawn_in_order_costs_more_than_is_accounted_for():
    """Two examples, one step: quadrature of the hockey-stick divergence, with and without shifted augmentation."""
    prob, sigma, epsilon = 0.3, 0.8, 4.0
    grid = np.linspace(-12, 12, 200_001)

    def density(law):
        return sum(weight * norm.pdf(grid, mean, sigma) for mean, weight in law.items())

    def divergence(p, q):
        return float(np.trapezoid(np.maximum(density(p) - math.exp(epsilon) * density(q), 0), grid))

    both, one, none = prob * prob, prob * (1 - prob), (1 - prob) ** 2
    # The example moves the sum by 1; the other one, augmented, by its sign: -1, or +1 when it comes second.
    without = {0.0: 1 - prob, -1.0: prob}
    apart = {0.0: none + both, 1.0: one, -1.0: one}  # the other example stays at -1
    shifted = {0.0: none, 1.0: one, -1.0: one, 2.0: both}  # it becomes +1 when the example is there
    accounted = divergence({0.0: 1 - prob, 1.0: prob}, {0.0: 1.0})
    identity = minsep.BandedToeplitz.identity(iterations=1)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=prob), noise_multiplier=sigma)
    assert minsep.estimate_delta(mechanism, epsilon).remove == pytest.approx(accounted, rel=0.01)
    assert divergence(apart, without) <= accounted
    assert divergence(shifted, without) == pytest.approx(8.2e-3, rel=0.01)
    assert divergence(shifted, without) > 500 * accounted
