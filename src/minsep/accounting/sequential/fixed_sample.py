"""The verifier of the b-min-sep paper: a fixed number of plain samples, and a Chernoff bound.

The average of s values in [0, 1] whose mean is at least `level` lies at or below `threshold` < `level` with probability
at most exp(-s KL(threshold || level)): the Chernoff-Hoeffding bound, Fact 4.2 of Chua et al., "Balls-and-Bins Sampling
for DP-SGD". As in the paper, the threshold is half of delta, and the number of samples is the smallest that keeps the
total within delta.
"""

import math
from dataclasses import dataclass

from scipy.optimize import minimize_scalar

from minsep.accounting.sequential.verifier import Verifier
from minsep.core import validation as validate

MOST_LEVEL = 0.5
"""Below it the Chernoff bound allows for the generator of the samples: docs/certified-sampling.md, section 5."""


@dataclass(frozen=True)
class FixedSampleVerifier(Verifier):
    """A test that passes if the average of `samples` values is at most `threshold`."""

    samples: int
    threshold: float
    kind = "fixed"


def fixed_sample_verifier(delta: float, attempts: int = 1) -> FixedSampleVerifier:
    """Return the test with threshold delta/2 and the fewest samples whose acceptance, in any attempt, proves delta.

    >>> test = fixed_sample_verifier(1e-5)
    >>> test.threshold
    5e-06
    >>> test.level + test.failure_probability * (1 - test.level) <= 1e-5
    True
    >>> 10e6 < test.samples < 12e6
    True
    """
    delta = validate.real(delta=delta, above=0, at_most=1)
    attempts = validate.integer(attempts=attempts, at_least=1)
    threshold = delta / 2
    enough = 1
    while _overall(delta, threshold, enough, attempts)[0] > delta:
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if _overall(delta, threshold, middle, attempts)[0] <= delta:
            enough = middle
        else:
            too_few = middle
    level = _overall(delta, threshold, enough, attempts)[1]
    chance = false_pass_probability(threshold, level, enough)
    return FixedSampleVerifier(level, attempts * chance, attempts, enough, threshold)


def _overall(delta: float, threshold: float, samples: int, attempts: int) -> tuple[float, float]:
    """Return the smallest delta that a passed test proves, and the level that gives it."""

    def whole(level: float) -> float:
        return level + attempts * false_pass_probability(threshold, level, samples) * (1 - level)

    found = minimize_scalar(whole, bounds=(threshold, delta), method="bounded", options={"xatol": 1e-6 * delta})
    return float(found.fun), float(found.x)


def false_pass_probability(threshold: float, level: float, samples: int) -> float:
    """Return the Chernoff bound on the probability that an average of that many values passes."""
    gap = threshold * math.log(threshold / level) + (1 - threshold) * (math.log1p(-threshold) - math.log1p(-level))
    return math.exp(-samples * gap)
