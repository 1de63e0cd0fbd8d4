"""A lower bound on epsilon from right and wrong guesses: docs/audit.md has the proof."""

import math

import numpy as np
from scipy import stats

from minsep.core.arrays import FloatArray

# Shares of the chance of an error: most for the odds, because the rate is known well where delta is small beside it.
_CHANCE_SHARE_OF_ODDS, _CHANCE_SHARE_OF_RATE = 0.9, 0.1
_LEAST_P_VALUE = 1e-300


def least_probability(successes: FloatArray | float, trials: FloatArray | float, chance: float) -> FloatArray:
    """Return the lower confidence limit of Clopper and Pearson for a probability.

    Args:
        successes: Number of successes.
        trials: Number of trials.
        chance: The limit is above the probability with a chance of at most this, for any number of trials.

    >>> float(least_probability(10, 10, 1e-6).round(3)), float(least_probability(0, 10, 1e-6))
    (0.251, 0.0)
    """
    successes, trials = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    limit = stats.beta.ppf(chance, np.maximum(successes, 1e-300), trials - successes + 1)
    return np.where(successes > 0, limit, 0.0)


def epsilon_bound(
    right: FloatArray | float, wrong: FloatArray | float, trials: FloatArray | float, delta: float, chance: float
) -> FloatArray:
    """Return a lower bound on epsilon at a delta.

    A rule names some trials, each of which holds a fair coin of its own, and bets on one side of the coin.

    Args:
        right: Number of named trials with the coin that the rule bets on.
        wrong: Number of named trials with the other coin.
        trials: Number of all trials with the coin that the rule bets on.
        delta: The delta at which epsilon is bounded.
        chance: The highest probability with which the bound is wrong.

    >>> float(epsilon_bound(right=5000, wrong=50, trials=100_000, delta=1e-5, chance=1e-6).round(2))
    3.98
    """
    right, wrong = np.asarray(right, np.float64), np.asarray(wrong, np.float64)
    theta = least_probability(right, right + wrong, _CHANCE_SHARE_OF_ODDS * chance)
    rate = least_probability(right, trials, _CHANCE_SHARE_OF_RATE * chance)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(theta) - np.log1p(-theta) + np.log1p(-delta / rate)
    return np.where((theta > 0) & (rate > delta), np.maximum(np.nan_to_num(bound, nan=0.0), 0.0), 0.0)


def two_sided(lower: float, upper: float) -> float:
    """Return the p-value of a test against both sides.

    Tails that vanish in floating point count as 1e-300: 0 is for what cannot happen.

    Args:
        lower: The tail below what was seen.
        upper: The tail above what was seen.
    """
    return min(1.0, max(2 * min(lower, upper), _LEAST_P_VALUE))


def distance_p_value(distance: float, first: int, second: int) -> float:
    """Return a p-value for the largest distance of two empirical distribution functions.

    Each is within sqrt(log(4/p) / 2n) of the common one, but for a chance of p/2 (Dvoretzky, Kiefer and Wolfowitz, with
    Massart's constant).

    Args:
        distance: The largest distance.
        first: Number of values of the first sample.
        second: Number of values of the second sample.

    >>> distance_p_value(0.5, 100, 10_000) < 1e-10 < distance_p_value(0.05, 100, 10_000)
    True
    """
    if not first or not second:
        return 1.0
    return min(1.0, _LEAST_P_VALUE + 4 * math.exp(-2 * (distance / (first**-0.5 + second**-0.5)) ** 2))
