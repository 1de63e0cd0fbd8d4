"""What holds for every sampling law with a density."""

import math

import numpy as np
from scipy import stats

from minsep.randomness import Key


def assert_draws_have_the_density(law, seed: int, false_alarm: float) -> None:
    """E[dQ/dP'] and E[dP/dP'] are 1, each within its error, over 40 chunks of samples."""
    draws = [law.draw(Key.from_seed(seed), chunk) for chunk in range(40)]
    ratio, density = (np.concatenate(parts) for parts in zip(*draws, strict=True))
    deviations = stats.norm.isf(false_alarm / 2)
    for log_weight in (-density, ratio - density):
        weights = np.exp(log_weight)
        assert abs(weights.mean() - 1) <= deviations * weights.std() / math.sqrt(weights.size) + 1e-9
