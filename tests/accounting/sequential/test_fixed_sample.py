"""The verifier of the paper: its bound against the exact binomial tail."""

import pytest
from scipy import stats

from minsep.accounting.sequential.fixed_sample import _overall, fixed_sample_verifier


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-3, 0.1, 0.5, 1.0])
def test_bound_covers_the_exact_tail_and_samples_are_the_fewest(delta: float) -> None:
    test = fixed_sample_verifier(delta)
    tail = stats.binom.cdf(int(test.threshold * test.samples), test.samples, test.level)
    assert tail <= test.failure_probability
    assert test.level + test.failure_probability * (1 - test.level) <= delta
    assert test.samples == 1 or _overall(delta, test.threshold, test.samples - 1, 1)[0] > delta


def test_bound_is_no_looser_than_a_chernoff_bound_must_be() -> None:
    test = fixed_sample_verifier(1e-5)
    tail = stats.binom.cdf(int(test.threshold * test.samples), test.samples, test.level)
    assert test.failure_probability < 40 * tail
