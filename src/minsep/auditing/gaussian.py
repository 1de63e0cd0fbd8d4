"""A lower bound on epsilon for loops with Gaussian noise: docs/audit.md names what it assumes, and has the proof."""

from dataclasses import replace

from scipy import stats

from minsep.accounting import epsilon_at_least
from minsep.auditing.tally import Tally
from minsep.mechanism import Mechanism

_PARTS = 3  # of the chance of an error: the size of the noise, the weight of canaries, the epsilon of the two


def gaussian_bound(mechanism: Mechanism, tally: Tally, delta: float, chance: float, seed: int) -> float | None:
    """Return a lower bound on epsilon for a loop whose noise is Gaussian; None where none is known.

    It is the epsilon of the mechanism with the most noise, beside the weight of canaries, that the audit does not rule
    out.

    Args:
        mechanism: The certified mechanism.
        tally: What the audit keeps of its runs.
        delta: The delta at which epsilon is bounded.
        chance: The highest probability with which the bound is wrong, if the loop is as assumed.
        seed: Seed of the samples for the epsilon.
    """
    count, weight = tally.absent * mechanism.iterations, tally.weight_of_clipped
    if not count or not weight.moved or mechanism.truncation is not None:
        return None
    part = chance / _PARTS
    most_noise = float(tally.squares_absent.sum() / stats.chi2.ppf(part, count)) ** 0.5
    least_weight = weight.share - float(stats.norm.isf(part)) * most_noise / weight.moved**0.5
    if most_noise == 0 or least_weight <= 0:
        return None
    noise_multiplier = mechanism.noise_multiplier * most_noise / least_weight
    return epsilon_at_least(replace(mechanism, noise_multiplier=noise_multiplier), delta, part, seed) or None
