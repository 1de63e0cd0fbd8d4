"""Whether a loop is the mechanism of its certificate: tests whose chance of a false alarm is known exactly.

A correct loop gives a p-value below p with probability at most p, or never where nothing is random. docs/audit.md has
the distribution of every test.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from minsep.auditing.bound import distance_p_value, two_sided
from minsep.auditing.marginals import participation_rates
from minsep.auditing.tally import Halves, Tally, Weight
from minsep.core.arrays import FloatArray
from minsep.participation import IndependentScheme

_SMALLEST_AMPLITUDE = 1 - 2.0**-13
"""A loop may clip a little below the clip norm, so that rounding cannot exceed it."""
_SHARE_OF_EXTREME_SIZES = 0.1  # in probability: the likeliest sizes of a batch, and the least likely


@dataclass(frozen=True)
class Check:
    """One comparison of a loop with its certificate.

    Attributes:
        name: What is compared.
        finding: What was found.
        p_value: The probability that a correct loop would differ as much.
        meaning: What a failure means.
        level: The check fails if the p-value is below this level, or 0.
    """

    name: str
    finding: str
    p_value: float
    meaning: str
    level: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether there is no alarm."""
        return self.p_value > 0 and self.p_value >= self.level

    @property
    def sentence(self) -> str:
        """The check in a sentence, with what an alarm means."""
        if self.passed:
            return f"{self.name}: {self.finding}."
        chance = "never" if self.p_value == 0 else f"with probability at most {self.p_value:.2g}"
        return f"{self.name}: {self.finding}, which a correct loop shows {chance}. {self.meaning}"


def checks_of(tally: Tally, chance: float) -> list[Check]:
    """Return all checks that apply.

    Each has an equal part of the chance of a false alarm. Which apply may depend on the data, so those that do not
    apply have their part as well.

    Args:
        tally: What the audit keeps of its runs.
        chance: The highest probability with which the checks raise a false alarm.
    """
    found = (check(tally) for check in _CHECKS)
    return [replace(check, level=chance / len(_CHECKS)) for check in found if check is not None]


def _releases(tally: Tally) -> Check:
    changed, total = tally.changed_steps, tally.runs * tally.mechanism.iterations
    return Check(
        "Releases",
        f"{changed:,} of {total:,} steps were released again with other values" if changed else "each step once",
        0.0 if changed else 1.0,
        "A repeated step must release the same values: the mean of two with fresh noise has less noise.",
    )


def _separation(tally: Tally) -> Check | None:
    separation = tally.mechanism.scheme.min_sep
    if separation == 1:
        return None
    closest = tally.closest
    seen = "no example took part twice" if closest is None else f"participations at least {closest} iterations apart"
    wrong = closest is not None and closest < separation
    return Check(
        "Separation",
        f"{seen}, where the certificate says {separation}" if wrong else seen,
        0.0 if wrong else 1.0,
        "The columns of C overlap, so the loop is less private than what was certified.",
    )


def _participation(tally: Tally) -> Check | None:
    rates = _rates(tally)
    if rates is None:
        return None
    counts, total = tally.participations, tally.examples
    worst, p_value = _worst_binomial(counts, total, rates)
    return Check(
        "Participation",
        f"in step {worst + 1}, {counts[worst] / total:.4f} of the examples took part, expected {rates[worst]:.4f}",
        p_value,
        "The batches are not sampled as was certified.",
    )


def _batch_sizes(tally: Tally) -> Check | None:
    rates = _rates(tally)
    if rates is None:
        return None
    _, _, sizes, total = tally.by_batch_size
    runs = sizes.shape[0]
    near, far = np.empty(rates.size, dtype=np.int64), np.empty(rates.size, dtype=np.int64)
    near_chance, far_chance = np.empty(rates.size), np.empty(rates.size)
    for step, rate in enumerate(rates):
        chances = stats.binom.pmf(np.arange(total + 1), total, min(rate, 1.0))
        likely_first = np.argsort(-chances, kind="stable")
        covered = np.cumsum(chances[likely_first])
        inner = likely_first[: int(np.searchsorted(covered, _SHARE_OF_EXTREME_SIZES)) + 1]
        outer = likely_first[int(np.searchsorted(covered, 1 - _SHARE_OF_EXTREME_SIZES)) + 1 :]
        near[step], near_chance[step] = np.isin(sizes[:, step], inner).sum(), chances[inner].sum()
        far[step], far_chance[step] = np.isin(sizes[:, step], outer).sum(), chances[outer].sum()
    (worst_near, p_near), (worst_far, p_far) = (
        _worst_binomial(counts, runs, chances) for counts, chances in ((near, near_chance), (far, far_chance))
    )
    step, words, count, chance = (
        (worst_near, "nearest to the mean", near[worst_near], near_chance[worst_near])
        if p_near <= p_far
        else (worst_far, "farthest from the mean", far[worst_far], far_chance[worst_far])
    )
    return Check(
        "Batch sizes",
        f"in step {step + 1}, {count:,} of {runs:,} batches have sizes {words}, expected {runs * chance:.1f}",
        min(1.0, 2 * min(p_near, p_far)),
        "Examples do not take part independently of each other, as in batches of one size or in blocks.",
    )


def _batches_of_runs(tally: Tally) -> Check | None:
    rates, total = _rates(tally), tally.examples_of_pairs
    if rates is None or not total:
        return None
    worst, p_value = _worst_binomial(tally.taken_in_both, total, rates**2)
    return Check(
        "Batches of runs",
        f"in step {worst + 1}, {tally.taken_in_both[worst] / total:.4f} of the examples took part in one run and the "
        f"next, expected {rates[worst] ** 2:.4f}",
        p_value,
        "Runs share batches, as with a fixed seed: whoever knows them has no uncertainty about who took part.",
    )


def _rates(tally: Tally) -> FloatArray | None:
    """Return how often examples take part in each step, if they do so independently of each other."""
    scheme = tally.mechanism.scheme
    if tally.mechanism.truncation is not None or not isinstance(scheme, IndependentScheme):
        return None
    return participation_rates(scheme.law, tally.mechanism.iterations)


def _worst_binomial(counts: NDArray[np.int64], total: int, chances: FloatArray) -> tuple[int, float]:
    """Return the step whose count is least likely, and the p-value of all steps together."""
    chances = np.clip(chances, 0.0, 1.0)
    lower = np.asarray(stats.binom.cdf(counts, total, chances))
    upper = np.asarray(stats.binom.sf(counts - 1, total, chances))
    values = [two_sided(float(below), float(above)) for below, above in zip(lower, upper, strict=True)]
    worst = int(np.argmin(values))
    return worst, min(1.0, len(values) * values[worst])


def _noise_size(tally: Tally) -> Check:
    count = tally.absent * tally.mechanism.iterations
    return _size_check(
        "Noise size",
        "the noise has",
        float(tally.squares_absent.sum()),
        count,
        "Less noise than certified is a breach.",
    )


def _noise_with_canaries(tally: Tally) -> Check:
    # Whatever the weights of canaries are, which is another check, they change a direction for each size: leave it out.
    moving = [weight for weight in (*tally.weights.values(), tally.weight_alone) if weight.moved]
    along = sum((weight.overlap - weight.moved) ** 2 / weight.moved for weight in moving)
    return _size_check(
        "Noise beside canaries",
        "what is left after the recorded canaries has",
        float(tally.squares_present.sum()) - along,
        tally.present * tally.mechanism.iterations - len(moving),
        "What was released is not the sum of the recorded examples plus noise: other examples, weights or noise.",
    )


def _noise_by_step(tally: Tally) -> Check:
    n = tally.mechanism.iterations
    values = [_chi_square(float(square), tally.absent) for square in tally.squares_absent]
    worst = int(np.argmin(values))
    size = (tally.squares_absent[worst] / max(tally.absent, 1)) ** 0.5
    return Check(
        "Noise of each step",
        f"step {worst + 1} has {size:.4f} of the certified standard deviation",
        min(1.0, n * min(values)),
        "The noise is not C^-1 Z from the first step to the last, as after a restart of its stream.",
    )


def _noise_correlation(tally: Tally) -> Check | None:
    if not tally.lags:
        return None
    values = [_halves(halves) for halves in tally.lags]
    worst = int(np.argmin(values))
    return Check(
        "Noise correlation",
        f"after multiplication by C, noise {worst + 1} iterations apart has correlation "
        f"{_correlation(tally.lags[worst]):+.4f}",
        min(1.0, len(values) * min(values)),
        "The noise is not correlated across iterations as C says.",
    )


def _noise_of_coordinates(tally: Tally) -> Check | None:
    if not tally.shared_count:
        return None
    return _size_check(
        "Noise of coordinates",
        "the sum of the noise of all coordinates has",
        tally.shared_square,
        tally.shared_count,
        "Coordinates share noise, so it can be subtracted.",
    )


def _noise_of_each_coordinate(tally: Tally) -> Check:
    squares, counts = tally.coordinate_squares, tally.coordinate_counts
    law = stats.chi2(np.maximum(counts, 1))
    tails = np.where(counts > 0, np.minimum(law.cdf(squares), law.sf(squares)), 0.5)
    worst = int(np.argmin(tails))
    size = (squares[worst] / max(counts[worst], 1)) ** 0.5
    return Check(
        "Noise of each coordinate",
        f"coordinate {worst + 1} has {size:.4f} of the certified standard deviation",
        min(1.0, tails.size * _chi_square(float(squares[worst]), int(counts[worst]))),
        "Parameters do not all have the noise of the certificate, as if a layer had been left out.",
    )


def _noise_of_runs(tally: Tally) -> Check | None:
    if not tally.between_runs.count:
        return None
    return Check(
        "Noise of runs",
        f"noise of one run and the next has correlation {_correlation(tally.between_runs):+.4f}",
        _halves(tally.between_runs),
        "Runs share noise, as with a fixed seed: the difference of two runs has none.",
    )


def _clipping(tally: Tally) -> Check:
    weights = {f"canaries of {size:g} clip norms move": weight for size, weight in tally.weights.items()}
    weights["canaries above the clip norm move"] = tally.weight_of_clipped
    weights["canaries of nearly empty runs move"] = tally.weight_alone
    values = {words: _weight_p_value(weight) for words, weight in weights.items()}
    worst = min(values, key=lambda words: values[words])
    weight = weights[worst]
    return Check(
        "Clipping",
        f"{worst} the sum by {weight.share * weight.expected:.4f} clip norms, expected {weight.expected:g}",
        min(1.0, len(values) * values[worst]),
        "Gradients are not clipped to the clip norm, or the sum is not divided by the expected batch alone."
        if weight.share > 1
        else "The loop gives examples less weight than the clip norm allows: not a breach, but not what was certified.",
    )


def _weight_p_value(weight: Weight) -> float:
    least = _SMALLEST_AMPLITUDE if weight.expected == 1 else 1.0
    nearest = min(max(weight.share, least), 1.0)
    deviations = abs(weight.overlap - nearest * weight.moved) / max(weight.moved, 1e-300) ** 0.5
    return two_sided(float(stats.norm.sf(deviations)), 1.0)


def _divisor(tally: Tally) -> Check | None:
    if tally.mechanism.truncation is not None:
        return None
    energies, counts, sizes, _ = tally.by_batch_size
    large = sizes > np.median(sizes)
    degrees = int(counts[~large].sum()), int(counts[large].sum())
    if not all(degrees):
        return None
    small, big = (float(energies[group].sum()) for group in (~large, large))
    return Check(
        "Divisor",
        f"noise beside large batches has {((big / degrees[1]) / (small / degrees[0])) ** 0.5:.4f} of the size of noise "
        "beside small ones",
        _variance_ratio(small, degrees[0], big, degrees[1]),
        "What is released shows the size of the batch: the divisor must be public, and not be taken from the data.",
    )


def _ratios_present(tally: Tally) -> Check | None:
    rates = _rates(tally)
    if rates is None:
        return None
    # A loop that clips a little below the clip norm moves a canary by this many deviations less, at most.
    moved = (1 - _SMALLEST_AMPLITUDE) * rates.sum() * tally.examples_each
    slack = moved / tally.mechanism.noise_multiplier / math.sqrt(2 * math.pi)
    return _law_check("with", tally.log_ratios[0], tally.statistic.present, slack)


def _ratios_absent(tally: Tally) -> Check:
    return _law_check("without", tally.log_ratios[1], tally.statistic.absent)


def _law_check(side: str, seen: FloatArray, expected: FloatArray, slack: float = 0.0) -> Check:
    distance = distribution_distance(seen, expected)
    return Check(
        f"Likelihood ratios {side} the canary",
        f"their distribution is within {distance:.4f} of that of the mechanism",
        distance_p_value(max(distance - slack, 0.0), seen.size, expected.size),
        "What an adversary sees of an example is not what was certified.",
    )


def distribution_distance(first: FloatArray, second: FloatArray) -> float:
    """Return the largest distance of the empirical distribution functions of two samples.

    >>> distribution_distance(np.array([0.0, 1.0]), np.array([0.5, 2.0]))
    0.5
    """
    if not first.size or not second.size:
        return 0.0
    places = np.concatenate([first, second])
    shares = (np.searchsorted(np.sort(sample), places, side="right") / sample.size for sample in (first, second))
    one, other = shares
    return float(np.abs(one - other).max())


def _size_check(name: str, words: str, square: float, count: int, meaning: str) -> Check:
    size = (square / count) ** 0.5 if count else 1.0
    more = "More noise than certified is no breach, but it is not what was certified."
    return Check(
        name,
        f"{words} {size:.4f} of the certified standard deviation",
        _chi_square(square, count),
        more if name == "Noise size" and size > 1 else meaning,
    )


def _chi_square(square: float, count: int) -> float:
    if not count:
        return 1.0
    return two_sided(float(stats.chi2.cdf(square, count)), float(stats.chi2.sf(square, count)))


def _halves(halves: Halves) -> float:
    return _variance_ratio(halves.sums, halves.count, halves.differences, halves.count)


def _correlation(halves: Halves) -> float:
    total = halves.sums + halves.differences
    return (halves.sums - halves.differences) / total if total else 0.0


def _variance_ratio(first: float, first_count: int, second: float, second_count: int) -> float:
    """Return the p-value of the F test that two sums of squares have one variance."""
    if not first_count or not second_count:
        return 1.0
    if first == second == 0.0:
        return 0.0  # there is no noise
    # The share of the first sum has a beta law, which is defined for a sum of 0 as well.
    law = stats.beta(first_count / 2, second_count / 2)
    share = first / (first + second)
    return two_sided(float(law.cdf(share)), float(law.sf(share)))


_CHECKS: tuple[Callable[[Tally], Check | None], ...] = (
    _releases,
    _separation,
    _participation,
    _batch_sizes,
    _batches_of_runs,
    _clipping,
    _divisor,
    _noise_size,
    _noise_by_step,
    _noise_correlation,
    _noise_of_coordinates,
    _noise_of_each_coordinate,
    _noise_of_runs,
    _noise_with_canaries,
    _ratios_absent,
    _ratios_present,
)
