"""Tests that the mean of bounded values lies below a level."""

from minsep.accounting.sequential.betting import (
    BettingVerifier,
    Wealth,
    betting_verifier,
    log_wealth_of,
    values_are_valid,
)
from minsep.accounting.sequential.fixed_sample import (
    MOST_LEVEL,
    FixedSampleVerifier,
    false_pass_probability,
    fixed_sample_verifier,
)
from minsep.accounting.sequential.verifier import Verifier

__all__ = [
    "MOST_LEVEL",
    "BettingVerifier",
    "FixedSampleVerifier",
    "Verifier",
    "Wealth",
    "betting_verifier",
    "false_pass_probability",
    "fixed_sample_verifier",
    "log_wealth_of",
    "values_are_valid",
]
