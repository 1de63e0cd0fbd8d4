"""The noise multiplier at which an estimate meets its target: a starting point for a certificate, not a certificate."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.estimation.sampling import Sampling
from minsep.accounting.exact import PldCurve
from minsep.accounting.importance import (
    FEW_TUPLES,
    BoundedLaw,
    Law,
    LeapingLaw,
    PlacedLaw,
    TiltedLaw,
    affordable,
    best_clustered,
    countable,
)
from minsep.accounting.pairs import Pair
from minsep.accounting.reduction import best_reduction, shift_of
from minsep.accounting.schemes import pair_of
from minsep.core.budget import Budget
from minsep.core.identity import to_digits
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Design

ESTIMATED_DIGITS = 5
"""Significant digits of a noise multiplier that is estimated."""
TYPICAL_SLOPE = -8.0
"""How log delta falls with the log of the noise multiplier, where nothing else is known."""
_LONGEST_LOG_STEP = 0.7
_MOST_ROUNDS = 14
_LARGEST_LOG_EXCESS = 30.0
_RELATIVE_ERROR_OF_A_REUSED_LAW = 0.2
_SLOPE_RATIO = 1.02  # of two noise multipliers that give a slope
_STEEPEST_SLOPE = 300.0
_GUESS_LOG_TOLERANCE = 1.0
_GUESS_LAWS = ((2, 1.0), (2, 1.5), (2, 2.5), (3, 1.0), (3, 1.5))  # copies and tilts of laws whose bounds give a guess
_FEWEST_ITERATIONS_OF_CLUSTERS = 10_000  # with fewer, few copies give a bound at once
_LARGE_TABLE = 4e6  # numbers of a table of two copies
_CLUSTERED_LOG_EXCESS = 8.0  # by which the logarithm of the bound of a clustered law typically exceeds that of delta
_CLUSTERED_SLOPE = -40.0  # the steepest that is believed: bounds jump where the number of copies changes
_NEAR_LOG_EXCESS = 0.5  # within which few samples are not enough


def noise_at_target(
    log_excess: Callable[[float], float], guess: float, tolerance: float = 0.05, slope: float = TYPICAL_SLOPE
) -> float:
    """Return the noise multiplier at which a decreasing function, log(delta/target), is 0.

    log delta is nearly linear in the log of the noise multiplier, so secant steps, kept within the bracket, converge
    after a few rounds.

    Args:
        tolerance: How near to 0 the value must be. A last step follows once it is.
        slope: The slope by which the first step goes.

    >>> round(noise_at_target(lambda sigma: -6 * math.log(sigma / 2.5), guess=1.0), 6)
    2.5
    """
    x = math.log(guess)
    too_little, too_much = -math.inf, math.inf
    previous: tuple[float, float] | None = None
    for _ in range(_MOST_ROUNDS):
        value = min(max(log_excess(math.exp(x)), -_LARGEST_LOG_EXCESS), _LARGEST_LOG_EXCESS)
        if value > 0:
            too_little = max(too_little, x)
        else:
            too_much = min(too_much, x)
        if previous is not None and previous[0] != x and abs(value) < _LARGEST_LOG_EXCESS:
            secant = (value - previous[1]) / (x - previous[0])
            slope = secant if -60 < secant < -0.05 else slope
        if abs(value) <= tolerance:
            return math.exp(x - value / slope)
        previous = (x, value)
        step = min(max(-value / slope, -_LONGEST_LOG_STEP), _LONGEST_LOG_STEP)
        width = too_much - too_little
        x += step
        if math.isfinite(width):
            if width < 1e-3:
                break
            x = min(max(x, too_little + 0.1 * width), too_much - 0.1 * width)
    return math.exp(x)


def estimated_noise_multiplier(
    design: Design,
    budget: Budget,
    guess: float,
    samples: int,
    seed: int,
    *,
    slope: float = TYPICAL_SLOPE,
    directions: Sequence[Direction] = DIRECTIONS,
    tolerance: float = 0.05,
    laws: dict[Direction, Law] | None = None,
    compute: Compute = LOCAL,
    report: Callable[[float], None] | None = None,
    others: PldCurve | None = None,
) -> float:
    """Return the noise multiplier, to five digits, at which the estimated delta of a design is that of the budget.

    What a truncation adds is subtracted from delta beforehand.

    Args:
        guess: The first noise multiplier to try.
        samples: The number of samples of each estimate.
        seed: The seed of each estimate.
        slope: About how log delta falls with the logarithm of the noise multiplier.
        laws: Sampling distributions that worked well for similar designs. They are updated.
        report: A function that is called with each noise multiplier that is tried.
        others: The curve of what runs alongside, if anything does.
    """
    estimates = _Estimates(design, budget, seed, directions, {} if laws is None else laws, compute, others)

    def meet(guess: float, directions: Sequence[Direction]) -> float:
        def log_excess(sigma: float) -> float:
            if report is not None:
                report(sigma)
            few = max(samples // 4, 1000)
            excess = estimates.log_excess(sigma, few, directions)
            is_near = abs(excess) < _NEAR_LOG_EXCESS and few < samples
            return estimates.log_excess(sigma, samples, directions) if is_near else excess

        return noise_at_target(log_excess, guess, tolerance, slope)

    # `remove` is nearly always the larger direction, so `add` is looked at once, where that meets the budget.
    met = meet(guess, directions[:1])
    if directions[1:] and estimates.log_excess(met, max(samples // 4, 1000), directions[1:]) > tolerance:
        met = meet(met, directions)
    return to_digits(met, ESTIMATED_DIGITS)


def estimated_slope(
    design: Design,
    budget: Budget,
    noise_multiplier: float,
    samples: int,
    seed: int,
    laws: dict[Direction, Law],
    compute: Compute = LOCAL,
    others: PldCurve | None = None,
) -> float:
    """Return about how log delta falls with the log of the noise multiplier, by the same random numbers on both sides.

    The arguments are those of `estimated_noise_multiplier`.
    """
    estimates = _Estimates(design, budget, seed, ["remove"], laws, compute, others)
    sides = noise_multiplier * (1 / _SLOPE_RATIO), noise_multiplier * _SLOPE_RATIO
    less, more = (estimates.log_excess(sigma, samples) for sigma in sides)
    slope = (more - less) / (2 * math.log(_SLOPE_RATIO))
    return slope if -_STEEPEST_SLOPE < slope < 0 else TYPICAL_SLOPE


@dataclass
class _Estimates:
    """Estimates of delta for one design and several noise multipliers, in units of what the budget allows."""

    design: Design
    budget: Budget
    seed: int
    directions: Sequence[Direction]
    laws: dict[Direction, Law]
    """The sampling laws that worked last."""
    compute: Compute
    others: PldCurve | None

    @cached_property
    def level(self) -> float:
        """The delta of the budget, less what a truncation adds."""
        delta = self.budget.delta
        if self.design.truncation is None or self.others is not None:
            return delta
        cut, epsilon = self.design.with_noise(1.0), self.budget.epsilon
        reductions = (best_reduction(cut, epsilon, 1.0, direction) for direction in self.directions)
        terms = max(reduction.shift.truncation_terms for reduction in reductions)
        return max(delta - terms, delta / 10)

    def log_excess(self, sigma: float, samples: int, directions: Sequence[Direction] | None = None) -> float:
        """Return log(delta/level) at a noise multiplier: of all directions, or of some."""
        # Beside others, no closed form takes the truncation off.
        design = self.design if self.others is not None else replace(self.design, truncation=None)
        mechanism = design.with_noise(sigma)
        # The parameters of a law that worked nearby may work here and save a pilot: its standard error shows it.
        for given in (self.laws, None) if self.laws else (None,):
            sampling = Sampling(
                mechanism, samples, self.seed, "auto", event=self.others, compute=self.compute, laws=given
            )
            found = [
                sampling.deltas(np.array([self.budget.epsilon]), direction)
                for direction in directions or self.directions
            ]
            value, stderr = max((float(means[0]), float(stderrs[0])) for means, stderrs in found)
            # A leaping law is the same again.
            leaping = any(isinstance(law, LeapingLaw) for law in sampling.laws.values())
            if leaping or stderr <= _RELATIVE_ERROR_OF_A_REUSED_LAW * value:
                self.laws.update(sampling.laws)
                break
        return math.log(max(value, 1e-300) / self.level)


def _guess_laws(pair: Pair) -> Iterator[BoundedLaw]:
    for copies, tilt in _GUESS_LAWS:
        if pair.phases is not None and countable(pair.phases, copies, FEW_TUPLES):
            yield PlacedLaw(pair.phases, "remove", copies, tilt)
        if pair.tiltable is not None and affordable(pair.tiltable.single, copies):
            yield TiltedLaw(pair.tiltable.single, "remove", copies, tilt)


def guessed_noise_multiplier(design: Design, budget: Budget, guess: float) -> tuple[float, float]:
    """Return the noise multiplier at which a proven bound on delta is that of the budget, and its slope there.

    In long runs it is where the bound is as far above the budget as it typically is above delta. That is a start, found
    in little time. It is at most `guess`, and that where no bound is known. For users it is that of one of their
    examples.
    """
    whole = replace(design, truncation=None)
    n = design.strategy.iterations
    clustered = n >= _FEWEST_ITERATIONS_OF_CLUSTERS or n * design.scheme.min_sep > _LARGE_TABLE

    def log_excess(sigma: float) -> float:
        pair, share = pair_of(whole.with_noise(sigma), np.float64).shortened()
        shift = shift_of(share, budget.epsilon, "remove")
        if (pair.tiltable is None and pair.phases is None) or pair.upper_bound or shift.vanishes:
            return 0.0
        if clustered and pair.tiltable is not None:
            law = best_clustered(pair.tiltable.single, "remove", shift.epsilon)
            if law is not None:
                typical = law.log_bound(shift.epsilon) - _CLUSTERED_LOG_EXCESS
                return typical + math.log(shift.factor) - math.log(budget.delta)
        bound = min((law.log_bound(shift.epsilon) for law in _guess_laws(pair)), default=math.log(budget.delta))
        return bound + math.log(shift.factor) - math.log(budget.delta)

    found = min(noise_at_target(log_excess, guess, _GUESS_LOG_TOLERANCE), guess)
    slope = (log_excess(found * _SLOPE_RATIO) - log_excess(found)) / math.log(_SLOPE_RATIO)
    steepest = _CLUSTERED_SLOPE if clustered else -math.inf
    return found, min(max(slope, steepest), TYPICAL_SLOPE) if math.isfinite(slope) else TYPICAL_SLOPE
