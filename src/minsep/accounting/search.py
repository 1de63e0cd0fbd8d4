"""The noise multiplier at which an estimate meets its target: where to look for a certificate, and no certificate."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from minsep.accounting.estimates import Drawn, Sampling
from minsep.accounting.pairs import DIRECTIONS, Direction
from minsep.accounting.reduction import reduced
from minsep.mechanism import Mechanism

_TYPICAL_SLOPE = -8.0
_LONGEST_STEP = 0.7
_MOST_ROUNDS = 14
_LIMIT = 30.0
_GOOD = 0.1  # relative standard error
_NEAR = 0.5  # where few samples do not do


def noise_at_target(log_excess: Callable[[float], float], guess: float, tolerance: float = 0.05) -> float:
    """Return the noise multiplier at which a falling function, log(delta/target), is 0.

    log delta is nearly linear in the log of the noise multiplier, so steps along the secant, kept within what has been
    bracketed, end after a few rounds; the last one corrects what is within `tolerance`.

    >>> round(noise_at_target(lambda sigma: -6 * math.log(sigma / 2.5), guess=1.0), 6)
    2.5
    """
    x, slope = math.log(guess), _TYPICAL_SLOPE
    too_little, too_much = -math.inf, math.inf
    previous: tuple[float, float] | None = None
    for _ in range(_MOST_ROUNDS):
        value = min(max(log_excess(math.exp(x)), -_LIMIT), _LIMIT)
        if value > 0:
            too_little = max(too_little, x)
        else:
            too_much = min(too_much, x)
        if previous is not None and previous[0] != x and abs(value) < _LIMIT:
            secant = (value - previous[1]) / (x - previous[0])
            slope = secant if -60 < secant < -0.05 else slope
        if abs(value) <= tolerance:
            return math.exp(x - value / slope)
        previous = (x, value)
        step = min(max(-value / slope, -_LONGEST_STEP), _LONGEST_STEP)
        width = too_much - too_little
        x += step
        if math.isfinite(width):
            if width < 1e-3:
                break
            x = min(max(x, too_little + 0.1 * width), too_much - 0.1 * width)
    return math.exp(x)


def estimated_noise_multiplier(
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    guess: float,
    samples: int,
    seed: int,
    *,
    directions: Sequence[Direction] = DIRECTIONS,
    tolerance: float = 0.05,
    proposals: dict[Direction, Drawn] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    report: Callable[[float], None] | None = None,
) -> float:
    """Return the noise multiplier at which the estimated delta of a mechanism is the target.

    - What a truncation adds is taken off delta beforehand.
    - `proposals` holds what to draw from, as it did well for a mechanism like this one, and is kept up to date.
    - `report` is told each noise multiplier that is tried.
    """
    level = delta
    if mechanism.truncation is not None:
        terms = max(reduced(mechanism, epsilon, 1.0, direction)[1].extra for direction in directions)
        level = max(delta - terms, delta / 10)
    whole = replace(mechanism, truncation=None)

    def estimate(sigma: float, count: int) -> float:
        asked = whole.with_noise_multiplier(sigma)
        # The knobs of a proposal that did well nearby may do well here, and spare a pilot: its error says so.
        for given in (known, None) if known else (None,):
            sampling = Sampling(asked, count, seed, "auto", None, workers, executor, given)
            found = [sampling.deltas(np.array([epsilon]), direction) for direction in directions]
            value, stderr = max((float(means[0]), float(stderrs[0])) for means, stderrs in found)
            if stderr <= _GOOD * value:
                known.update(sampling.proposals)
                break
        return math.log(max(value, 1e-300) / level)

    def log_excess(sigma: float) -> float:
        if report is not None:
            report(sigma)
        few = max(samples // 8, 1000)
        excess = estimate(sigma, few)
        return estimate(sigma, samples) if abs(excess) < _NEAR and few < samples else excess

    known = {} if proposals is None else proposals
    return noise_at_target(log_excess, guess, tolerance)
