import math

import numpy as np
import pytest
from scipy import stats

import minsep
from minsep.accounting.reduction.truncation_bounds import participation_rates, truncation_bounds
from tests.oracles.participation import participation_law

FALSE_ALARM = 1e-7


def test_truncation_in_closed_form_has_the_published_terms():
    scheme = minsep.MinSep(1793 / 14_745_600, 256)
    shifts = truncation_bounds(scheme, 7200, minsep.Truncation(2048, 14_745_600), "remove", 10.0, 0.405)
    assert shifts[1].truncation_terms == pytest.approx(1.836e-9, rel=1e-3)
    assert shifts[2].truncation_terms == pytest.approx(1.795e-9, rel=1e-3)
    (free,) = truncation_bounds(scheme, 7200, minsep.Truncation(2048, 14_745_600), "add", 10.0, 0.405)
    assert free.vanishes
    assert free.truncation_terms == pytest.approx(1.794e-9, rel=1e-3)


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_truncation_in_closed_form_is_above_the_recursions(start):
    """The closed form bounds what the paper's recursions give, both directions."""
    scheme = minsep.MinSep(rate=0.05, min_sep=4, start=start)
    truncation = minsep.Truncation(batch_size=9, num_examples=80)
    strategy = minsep.BandedToeplitz.optimal(iterations=12, bands=3)
    cut = minsep.Mechanism(strategy, scheme, 1.0, truncation)
    whole = minsep.Mechanism(strategy, scheme, 1.0)
    estimate = minsep.estimate_delta(cut, 1.0, samples=100_000, method="plain")
    never = participation_law(scheme, 12)[(0,) * 12]
    for direction in ("remove", "add"):
        bounds = []
        for shift in truncation_bounds(scheme, 12, truncation, direction, 1.0, never):
            without = 0.0 if shift.vanishes else getattr(minsep.estimate_delta(whole, shift.epsilon), direction)
            bounds.append(shift.factor * without + shift.truncation_terms)
        slack = stats.norm.isf(FALSE_ALARM) * math.sqrt(getattr(estimate, direction) / 100_000 + 1e-9)
        assert not bounds or getattr(estimate, direction) <= min(bounds) * 1.05 + slack


@pytest.mark.parametrize("min_sep", [1, 3, 5])
def test_participation_rates_of_a_cold_start(min_sep):
    scheme = minsep.MinSep(rate=0.15, min_sep=min_sep, start="cold")
    law = participation_law(scheme, 9)
    expected = np.array(list(law.values())) @ np.array(list(law))
    np.testing.assert_allclose(participation_rates(scheme, 9), expected, rtol=1e-12)
