"""What attackers can do, against the best test on a Gaussian mechanism."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import minsep
from minsep.show.statements import estimated_true_positives, most_true_positives

RATES = [0.001, 0.01, 0.1, 0.5]


def once(sigma):
    """One release of a Gaussian mechanism in which everybody takes part."""
    return minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=1), minsep.Unamplified(1, 1), sigma)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_estimates_are_those_of_the_likelihood_ratio_test(sigma):
    exact = norm.cdf(norm.ppf(RATES) + 1 / sigma)
    found = estimated_true_positives(once(sigma), RATES, epsilon=4.0)
    assert np.all(np.array(found) >= exact - 1e-9)
    assert found == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_no_test_on_a_gaussian_mechanism_does_better_than_the_bound(epsilon):
    mechanism = once(1.5)
    delta = minsep.estimate_delta(mechanism, epsilon).value
    for rate in np.linspace(0, 1, 101):
        assert norm.cdf(norm.ppf(rate) + 1 / 1.5) <= most_true_positives(rate, epsilon, delta) + 1e-9


@given(st.floats(0, 1), st.floats(0, 20), st.floats(0, 1))
def test_the_bound_is_attained_by_a_randomised_response(share, epsilon, delta):
    """With probability delta the response tells all; otherwise it is yes with odds e^epsilon for a member."""
    yes_if_out, yes_if_in = (1 - delta) / (1 + np.exp(epsilon)), delta + (1 - delta) / (1 + np.exp(-epsilon))
    # Tests that answer yes when told so, then also when named so, then also by chance: corners of the region.
    corners = [(0.0, delta), (yes_if_out, yes_if_in), (1 - delta, 1.0)]
    for (low, fewest), (high, most) in pairwise(corners):
        rate, positives = low + share * (high - low), fewest + share * (most - fewest)
        assert most_true_positives(rate, epsilon, delta) == pytest.approx(positives, abs=1e-9)


def test_rates_outside_their_range_are_refused():
    with pytest.raises(ValueError, match="false_positives is 1.5"):
        most_true_positives(1.5, 1.0, 1e-5)
