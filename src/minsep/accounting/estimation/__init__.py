"""Estimates: delta, epsilon, curves, and the noise that meets a target. They are not guarantees."""

from minsep.accounting.estimation.estimates import (
    Estimate,
    PrivacyCurve,
    estimate_delta,
    estimate_epsilon,
    privacy_curve,
)
from minsep.accounting.estimation.lower_limit import epsilon_at_least
from minsep.accounting.estimation.noise_search import (
    ESTIMATED_DIGITS,
    TYPICAL_SLOPE,
    estimated_noise_multiplier,
    estimated_slope,
    guessed_noise_multiplier,
    noise_at_target,
)

__all__ = [
    "ESTIMATED_DIGITS",
    "TYPICAL_SLOPE",
    "Estimate",
    "PrivacyCurve",
    "epsilon_at_least",
    "estimate_delta",
    "estimate_epsilon",
    "estimated_noise_multiplier",
    "estimated_slope",
    "guessed_noise_multiplier",
    "noise_at_target",
    "privacy_curve",
]
