"""Monte Carlo estimates: sums over samples of a law that a pilot chose, and whether they can be trusted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from minsep.accounting.directions import Direction, add_is_zero
from minsep.accounting.estimation.moments import integrand_moments
from minsep.accounting.estimation.pilot import Pilot, run_pilot
from minsep.accounting.exact import PldCurve
from minsep.accounting.importance import (
    FEW_TUPLES,
    AdaptedLaw,
    AllocatedLaw,
    Law,
    LeapingLaw,
    MixedLaw,
    PlacedLaw,
    PlainLaw,
    TiltedLaw,
    affordable,
    best_allocated,
    best_clustered,
    best_law,
    best_placed,
    best_tangent,
    leaping_law,
    may_spread,
    shared,
)
from minsep.accounting.reduction import shift_of
from minsep.accounting.schemes import pair_of, unsupported
from minsep.core.arrays import FloatArray
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism
from minsep.randomness import Key

Method = Literal["auto", "exact", "plain", "tilted"]

_LONGEST_TILTED_SEPARATION = 1024  # of a run that is shorter and composed with another event
_PILOT_SAMPLES = 2048
_ONE_LAW_WIDTH = 0.5  # of the epsilons for which one law is enough
_MOST_PARTS = 4
_MOST_GRIDS = 40
_MOST_EPSILON = 1e4
_GRID_POINTS = 2049
_COMPOSED_GRID_POINTS = 257
_FEWEST_IN_TAIL = 10
_REFINED_WIDTH, _MOST_REFINED_GRIDS = 0.1, 4  # relative width of a grid around a crossing, and how many of them
_GOOD_RELATIVE_ERROR = 0.02  # relative standard error of an epsilon that needs no such grid
_FEWEST_EFFECTIVE = 30.0  # below that a standard error means little
_MOST_STANDARD_ERRORS = 6.0  # by which what must be equal may differ
_LEAST_BOUND = 1e-300  # what a bound that underflows is said to be
_BISECTION_WIDTH = 1e-4  # relative width at which a search for an epsilon ends
_CHANCE_OF_TOO_SMALL_A_BOUND = 1e-6  # chance that a bound from plain samples is too small


class Sampling:
    """Monte Carlo estimates of one mechanism, with new samples for each estimate."""

    def __init__(
        self,
        mechanism: Mechanism,
        samples: int,
        seed: int,
        method: Method,
        event: PldCurve | None = None,
        compute: Compute = LOCAL,
        laws: Mapping[Direction, Law] | None = None,
        whole: bool = False,
    ) -> None:
        # Single precision changes a log ratio by about 1e-5: negligible next to the error of an estimate.
        pair = pair_of(mechanism, np.float64 if whole else np.float32)
        # In composition with another event, the two parts of a mixture cannot be separated.
        self.pair, self._share = pair.shortened() if event is None and not whole else (pair, 1.0)
        self.samples = samples
        # For a truncated mechanism, the adversary sees more than what is released.
        self.upper_bound = self.pair.upper_bound or self.pair.stronger_adversary
        tilts = (self.pair.allocation or self.pair.phases) is not None or (
            self.pair.tiltable is not None
            and not self.pair.upper_bound
            and self.pair.tiltable.single.min_sep <= max(self.pair.strategy.iterations, _LONGEST_TILTED_SEPARATION)
        )
        if method == "tilted" and not tilts:
            raise unsupported(mechanism, "tilted")
        self.method = "tilted" if tilts and method != "plain" else "plain"
        self._key = Key.from_seed(seed).derive("estimate")
        self._event = event
        self.laws: dict[Direction, Law] = dict(laws or {})
        """What was drawn from last in each direction; what is given here is used as it is, for this mechanism."""
        self._given = bool(self.laws)
        self._compute = compute
        self._pilots: dict[tuple[Direction, float], Pilot] = {}

    def deltas(self, epsilons: FloatArray, direction: Direction) -> tuple[FloatArray, FloatArray]:
        """Return estimates and standard errors at increasing epsilons; one that cannot be trusted is infinite."""
        shifts = [shift_of(self._share, float(epsilon), direction) for epsilon in epsilons]
        factors = np.array([0.0 if shift.vanishes else shift.factor for shift in shifts])
        means, stderrs = np.zeros(epsilons.size), np.zeros(epsilons.size)
        asked = factors > 0
        if asked.any():
            shifted = np.array([shift.epsilon for shift in shifts])[asked]
            means[asked], stderrs[asked] = self._deltas_of_pair(shifted, direction)
        return factors * means, factors * stderrs

    def _deltas_of_pair(self, epsilons: FloatArray, direction: Direction) -> tuple[FloatArray, FloatArray]:
        free = np.zeros(epsilons.size, dtype=bool)
        if direction == "add" and self._event is None:
            # P/Q is at least the probability of no participation, so from here on the integrand is 0 everywhere.
            never = self.pair.no_participation
            free = np.array([add_is_zero(float(epsilon), never) for epsilon in epsilons])
            if free.all():
                return np.zeros(epsilons.size), np.zeros(epsilons.size)
        if direction == "add" and self.pair.upper_bound:
            raise ValueError(
                f"epsilon is {epsilons[0]:g}, but with more bands than min_sep, `add` is covered only without "
                f"composition and for epsilons of at least {self._free_from():.4g}, where e^-epsilon is at most the "
                "probability of never taking part."
            )
        law = self._law_for(direction, epsilons[~free])
        if not isinstance(law, AllocatedLaw | PlacedLaw):  # which are chosen without a pilot
            self.laws[direction] = law
        samples = self.samples
        if isinstance(law, MixedLaw):
            # Whole rounds of the parts, so that each gets its share.
            size = law.samples_in_chunk * len(law.parts)
            samples = -(-samples // size) * size
        sums = self._sums(law, epsilons, samples)
        means = sums.moments[0] / samples
        variances = np.maximum(sums.moments[1] / samples - means**2, 0.0)
        stderrs = np.where(self._resolved(law, epsilons, sums, samples), np.sqrt(variances / samples), np.inf)
        means[free], stderrs[free] = 0.0, 0.0
        return means, stderrs

    def epsilon(self, delta: float, direction: Direction) -> tuple[float, float]:
        """Return the epsilon at which the estimated delta is this one, at least 0, and its standard error."""
        if self.method == "plain" and delta * self.samples < _FEWEST_IN_TAIL:
            raise ValueError(
                f"delta is {delta:g}, but {self.samples:,} plain samples cannot resolve a delta below "
                f"{_FEWEST_IN_TAIL / self.samples:.2g}: use at least {math.ceil(_FEWEST_IN_TAIL / delta):,} samples."
            )
        if direction == "add" and self._event is None and self.pair.upper_bound:
            return self._free_from(), 0.0
        if self._event is not None and self._event.infinite(direction) >= delta:
            return math.inf, 0.0
        low, high = 0.0, self._guess(delta, direction)
        lowered = False
        for _ in range(_MOST_GRIDS):
            grid = np.linspace(low, high, _GRID_POINTS if self._event is None else _COMPOSED_GRID_POINTS)
            deltas, stderrs = self.deltas(grid, direction)
            if deltas[0] <= delta and low == 0:
                fall = deltas[0] - deltas[1]
                return 0.0, float(stderrs[0] * (grid[1] - grid[0]) / fall) if fall > 0 else 0.0
            if deltas[0] > delta >= deltas[-1]:
                return self._refined(_crossing(grid, deltas, stderrs, delta), delta, direction)
            if deltas[0] > delta and lowered:
                break  # Two grids contradict each other.
            lowered = bool(deltas[0] <= delta)
            low, high = (0.0, low) if lowered else (high, 2 * high)
        return high, math.inf

    def _refined(self, found: tuple[float, float], delta: float, direction: Direction) -> tuple[float, float]:
        """Return a crossing with samples of its own from a law for its epsilon, where a grid left it uncertain."""
        for refined in range(_MOST_REFINED_GRIDS):
            # The first grid of a composition is coarse.
            if (self._event is None or refined) and found[1] < _GOOD_RELATIVE_ERROR * found[0]:
                break
            grid = found[0] * np.linspace(1 - _REFINED_WIDTH, 1 + _REFINED_WIDTH, _COMPOSED_GRID_POINTS)
            deltas, stderrs = self.deltas(grid, direction)
            if deltas[0] > delta >= deltas[-1]:
                found = _crossing(grid, deltas, stderrs, delta)
            elif deltas[0] <= delta:
                found = float(grid[0]), math.inf
            else:
                found = float(grid[-1]), math.inf
        return found

    def _free_from(self) -> float:
        never = 1 - self._share + self._share * self.pair.no_participation
        return -math.log(never) if never > 0 else math.inf

    def _guess(self, delta: float, direction: Direction) -> float:
        """Return an epsilon somewhat above that of a delta, from few samples."""
        if direction == "add" and self._event is None and self._free_from() < math.inf:
            return max(self._free_from(), 1e-3)
        few = _PILOT_SAMPLES
        high = 1.0
        while True:
            shift = shift_of(self._share, high, direction)
            sums = self._sums(self.law(direction, shift.epsilon), np.array([shift.epsilon]), few)
            if shift.factor * sums.moments[0, 0] / few <= delta or high > _MOST_EPSILON:
                return high
            high *= 1.5

    def _law_for(self, direction: Direction, epsilons: FloatArray) -> Law:
        """Return one sampling law for all these epsilons."""
        given = self.laws.get(direction) if self._given else None
        if isinstance(given, LeapingLaw):
            given = None  # another one is found at once
        pair = self.pair.tiltable
        if pair is not None:
            if isinstance(given, AdaptedLaw):
                return replace(given, pair=pair, spread=given.spread if may_spread(pair) else 1.0)
            if isinstance(given, TiltedLaw) and affordable(pair.single, given.copies):
                return replace(given, pair=pair)
        low, high = float(epsilons.min()), float(epsilons.max())
        if self.method == "plain" or high - low <= _ONE_LAW_WIDTH:
            return self.law(direction, (low + high) / 2)
        count = min(2 + round((high - low) / 2), _MOST_PARTS)
        parts = [self.law(direction, epsilon) for epsilon in np.linspace(low, high, count)]
        distinct = tuple(
            dict.fromkeys(
                part
                for part in parts
                if isinstance(part, AdaptedLaw | AllocatedLaw | LeapingLaw | PlacedLaw | TiltedLaw)
            )
        )
        return MixedLaw(distinct) if len(distinct) > 1 else parts[-1]

    def law(self, direction: Direction, epsilon: float) -> Law:
        """Return the sampling law: for tilted sampling, the one that a separate pilot found."""
        allocation, tiltable = self.pair.allocation, self.pair.tiltable
        if allocation is not None and self.method == "tilted" and direction == "remove":
            # The second moment of X is at most delta times the bound, so the least bound makes a good law.
            return best_allocated(allocation, epsilon)
        if self.pair.phases is not None and self.method == "tilted":
            return best_placed(self.pair.phases, direction, epsilon, most=FEW_TUPLES)
        if self.method == "plain" or tiltable is None:
            return PlainLaw(self.pair, direction)
        leaping = leaping_law(self.pair, direction, epsilon)
        if leaping is not None:
            return leaping
        pilot = run_pilot(tiltable, direction, epsilon, self._key.derive("pilot"), self._compute)
        self._pilots[direction, epsilon] = pilot
        return pilot.law

    def _sums(self, law: Law, epsilons: FloatArray, samples: int) -> "_Sums":
        chunks = -(-samples // law.samples_in_chunk)
        work = partial(_chunk_sums, law, self._key, epsilons, self._event, samples)
        start = _Sums(np.zeros((2, epsilons.size)), np.zeros(2))
        name = f"sums for noise multiplier {law.pair.noise_multiplier:.6g}, {law.direction}"
        return self._compute.fold(work, chunks, start, _Sums.plus, name=name)

    def _resolved(self, law: Law, epsilons: FloatArray, sums: "_Sums", samples: int) -> NDArray[np.bool_]:
        """Return where an estimate can be trusted: many samples count, and what must be 1 is 1."""
        first, second = sums.moments
        resolved = np.asarray((first > 0) & (first**2 >= _FEWEST_EFFECTIVE * second))
        if isinstance(law, AllocatedLaw | PlacedLaw):
            # X has a proven bound near delta. dP/dP' has none: with many copies its mean tells nothing.
            return resolved
        mean, square = sums.control / samples
        error = math.sqrt(max(square - mean**2, 0.0) / samples)
        if abs(mean - 1) > _MOST_STANDARD_ERRORS * error + 1e-3:
            return np.zeros(epsilons.size, dtype=bool)
        for place, epsilon in enumerate(epsilons):
            pilot = self._pilots.get((law.direction, float(epsilon)))
            # In composition the pilot has looked at this mechanism alone.
            if self._event is None and pilot is not None and pilot.effective >= _FEWEST_EFFECTIVE:
                error = math.sqrt(max(second[place], 0.0)) / samples
                gap = abs(first[place] / samples - pilot.value)
                resolved[place] &= gap <= _MOST_STANDARD_ERRORS * math.hypot(error, pilot.stderr)
        return resolved

    def bound(self, epsilon: float, direction: Direction) -> float:
        """Return an upper bound on delta where it could not be resolved: proven, or by plain samples with confidence.

        It is 1 where none is known.
        """
        shift = shift_of(self._share, epsilon, direction)
        if self._event is not None:
            return 1.0
        proven = self._proven_bound(shift.epsilon, direction)
        if proven is not None:
            return min(max(shift.factor * proven, _LEAST_BOUND), 1.0)
        sums = self._sums(PlainLaw(self.pair, direction), np.array([shift.epsilon]), self.samples)
        hits = float(sums.moments[0, 0])
        # X lies in [0, 1]: the largest mean for which the sum is not surprisingly small, by Chernoff's inequality.
        log_term = -math.log(_CHANCE_OF_TOO_SMALL_A_BOUND)
        most = hits + log_term + math.sqrt(log_term * (log_term + 2 * hits))
        return min(shift.factor * most / self.samples, 1.0)

    def _proven_bound(self, epsilon: float, direction: Direction) -> float | None:
        """Return a bound on the delta of the pair that needs no samples; None where none is known."""
        pair = self.pair
        if pair.moments is not None and direction == "add":
            return pair.moments.best(epsilon)[0]
        if (pair.allocation or pair.phases or pair.tiltable) is None or pair.upper_bound:
            return None
        log_bound = best_law(pair, direction, epsilon).log_bound(epsilon)
        clustered = best_clustered(pair, direction, epsilon)
        bound = math.exp(log_bound if clustered is None else min(clustered.log_bound(epsilon), log_bound))
        if direction == "add":
            bound = min(bound, best_tangent(pair, epsilon)[0])
        return bound

    def epsilon_bound(self, delta: float, direction: Direction) -> float | None:
        """Return an upper bound on the epsilon of a delta that could not be resolved; None where none is known."""
        moments = self.pair.moments
        if moments is None or direction == "remove" or self._event is not None:
            return None
        low, high = 0.0, 1.0
        while moments.best(high)[0] > delta and high < _MOST_EPSILON:
            low, high = high, 2 * high
        while high - low > _BISECTION_WIDTH * high:
            middle = (low + high) / 2
            low, high = (middle, high) if moments.best(middle)[0] > delta else (low, middle)
        return high if high < _MOST_EPSILON else None


@dataclass(frozen=True)
class _Sums:
    """Sums over samples: of X and X^2 at each epsilon, and of a weight whose mean is 1 and its square."""

    moments: FloatArray
    control: FloatArray

    def plus(self, other: "_Sums") -> "_Sums":
        """Return the sums over the samples of both."""
        return _Sums(self.moments + other.moments, self.control + other.control)


def _chunk_sums(law: Law, key: Key, epsilons: FloatArray, event: PldCurve | None, samples: int, chunk: int) -> _Sums:
    law = shared(law)
    direction = law.direction
    log_ratio, log_density = law.draw(key, chunk)
    if not (np.isfinite(log_ratio).all() and np.isfinite(log_density).all()):
        raise FloatingPointError(f"A log likelihood ratio of chunk {chunk} is not finite: no estimate can be given.")
    wanted = samples - chunk * log_ratio.size
    log_ratio, log_density = log_ratio[:wanted], log_density[:wanted]
    losses, log_weights = (log_ratio, log_ratio - log_density) if direction == "remove" else (-log_ratio, -log_density)
    weights = np.exp(log_weights)
    control = np.array([weights.sum(), (weights**2).sum()])
    if event is None and epsilons.size == 1:
        # Directly: at losses close to epsilon, differences of sums would be rounding.
        values = weights * -np.expm1(np.minimum(epsilons[0] - losses, 0.0))
        return _Sums(np.array([[values.sum()], [values @ values]]), control)
    if event is None:
        return _Sums(integrand_moments(losses, log_weights, epsilons), control)
    # In composition, delta is the mean of the other event's delta at epsilon minus the loss of this mechanism.
    values = weights[:, None] * event.delta(epsilons - losses[:, None], direction)
    return _Sums(np.stack([values.sum(axis=0), (values**2).sum(axis=0)]), control)


def _crossing(grid: FloatArray, deltas: FloatArray, stderrs: FloatArray, delta: float) -> tuple[float, float]:
    """Interpolate the epsilon of a delta, and convert the standard error by the slope."""
    k = int(np.argmax(deltas <= delta))
    above, below = deltas[k - 1], deltas[k]
    if below > 0:
        share = math.log(above / delta) / math.log(above / below)
    else:
        share = (above - delta) / above
    width = grid[k] - grid[k - 1]
    return float(grid[k - 1] + share * width), float(stderrs[k - 1] * width / (above - below))
