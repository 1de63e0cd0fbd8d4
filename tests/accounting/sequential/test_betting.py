import math

import numpy as np
import pytest
from scipy import stats

from minsep.accounting.sequential import Wealth

FALSE_ALARM = 1e-7


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1, 1.5])
def test_a_value_that_cannot_be_rejects_for_good(bad):
    wealth = Wealth.start(0.01, 1.0).after(np.zeros(5000))
    assert wealth.log_wealth > 20
    broken = wealth.after(np.array([bad])).after(np.zeros(5000))
    assert broken.log_wealth == -math.inf
    assert broken.broken


def test_wealth_is_a_supermartingale_at_the_level():
    """2,000 tests of values whose mean is the level: at most q of them ever reach 1/q."""
    q, level, tests = 0.05, 0.02, 2000
    generator = np.random.default_rng(0)
    accepted = 0
    for _ in range(tests):
        wealth, reached = Wealth.start(level, 1.0), False
        for _ in range(10):
            values = (generator.random(100) < 2 * level) * generator.random(100)
            wealth = wealth.after(values)
            reached |= wealth.log_wealth >= -math.log(q)
        accepted += reached
    assert stats.binomtest(accepted, tests, q, alternative="greater").pvalue > FALSE_ALARM
