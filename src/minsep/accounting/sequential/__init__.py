"""Tests that the mean of bounded values lies below a level."""

from minsep.accounting.sequential.betting import BettingVerifier, Wealth
from minsep.accounting.sequential.fixed_sample import (
    MOST_LEVEL,
    FixedSampleVerifier,
    false_pass_probability,
    fixed_sample_verifier,
)
from minsep.accounting.sequential.verifier import Verifier
from minsep.core import validation as validate

__all__ = [
    "MOST_LEVEL",
    "BettingVerifier",
    "FixedSampleVerifier",
    "Verifier",
    "Wealth",
    "false_pass_probability",
    "fixed_sample_verifier",
    "verifier_for",
]

KINDS = ("betting", "fixed")


def verifier_for(
    kind: str,
    delta: float,
    attempts: int = 1,
    failure_probability: float | None = None,
    max_samples: int | None = None,
) -> Verifier:
    """Return the test that proves delta if it passes in any of `attempts` attempts.

    >>> verifier = verifier_for("betting", 1e-5)
    >>> abs(verifier.level + verifier.failure_probability * (1 - verifier.level) - 1e-5) < 1e-18
    True
    """
    validate.choice(KINDS, test=kind)
    attempts = validate.integer(attempts=attempts, at_least=1)
    if kind == "fixed":
        for name, value in (("failure_probability", failure_probability), ("max_samples", max_samples)):
            if value is not None:
                raise ValueError(f"{name} is {value!r}, but test='fixed' derives it from delta: omit it.")
        return fixed_sample_verifier(delta, attempts)
    if failure_probability is None:
        failure_probability = delta / 100
    failure_probability = validate.real(failure_probability=failure_probability, above=0)
    if failure_probability >= delta:
        raise ValueError(f"failure_probability is {failure_probability:g}, but it must be below delta = {delta:g}.")
    if max_samples is not None:
        max_samples = validate.integer(max_samples=max_samples, at_least=1)
    level = (delta - failure_probability) / (1 - failure_probability)
    return BettingVerifier(level, failure_probability, attempts, max_samples)
