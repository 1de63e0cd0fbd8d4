"""The noise for which the best of several runs stays within a budget."""

import pytest

import minsep
from minsep.accounting import TunedBudget, trials_of
from minsep.core.budget import Budget

POISSON = (minsep.BandedToeplitz.identity(iterations=50), minsep.Poisson(rate=0.05))


@pytest.mark.parametrize("law", ["geometric", "logarithmic", "poisson"])
def test_most_of_the_budget_is_spent_and_no_more(law):
    found = minsep.calibrate(*POISSON, epsilon=2.0, delta=1e-4, trials=10, law=law, seed=1)
    assert (found.epsilon, found.delta) == (2.0, 1e-4)
    cost = found.certificate.curve.tuned(10, law).epsilon(1e-4)
    assert 0.95 * 2.0 <= cost <= 2.0
    assert minsep.verify(found.certificate).holds


def test_samples_prove_it_as_well():
    strategy = minsep.BandedToeplitz.optimal(iterations=40, bands=4)
    found = minsep.calibrate(
        strategy, minsep.MinSep(rate=0.02, min_sep=10), epsilon=3.0, delta=1e-3, trials=5, seed=3, num_examples=500
    )
    certificate = found.certificate
    assert certificate.curve_proof is not None
    assert certificate.attempts % 3 == 0  # three calibrations share the chance of an error
    assert certificate.curve.tuned(5).epsilon(1e-3) <= 3.0
    assert minsep.verify(certificate).holds
    one = minsep.calibrate(strategy, minsep.MinSep(rate=0.02, min_sep=10), epsilon=3.0, delta=1e-3, seed=3)
    assert one.mechanism.noise_multiplier < found.mechanism.noise_multiplier


def test_attempts_go_on_until_one_is_within_the_budget():
    """The search itself, with certificates of a mechanism whose curve is not Gaussian."""
    tuned = TunedBudget(Budget(2.0, 1e-4), trials_of(10))
    asked = []

    def calibrate(budget, attempt):
        asked.append((budget, attempt))
        return minsep.calibrate(*POISSON, epsilon=1.5 * budget.epsilon, delta=budget.delta)

    found = tuned.find(calibrate)
    assert [attempt for _, attempt in asked] == list(range(len(asked)))
    assert len(asked) > 1
    assert tuned.cost(found.certificate) <= 2.0


def test_a_budget_that_is_never_reached_is_refused():
    tuned = TunedBudget(Budget(1.0, 1e-4), trials_of(10))
    loud = minsep.calibrate(*POISSON, epsilon=3.0, delta=1e-4)
    with pytest.raises(ValueError, match="epsilon is 1, but the best of about 10 runs was only certified at"):
        tuned.find(lambda budget, attempt: loud)
