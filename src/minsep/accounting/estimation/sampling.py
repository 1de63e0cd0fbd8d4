"""Monte Carlo estimates: the choice of a sampling law by a pilot, and the sums over samples."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from minsep.accounting.directions import Direction, add_is_zero
from minsep.accounting.estimation.moments import integrand_moments
from minsep.accounting.exact import PldCurve
from minsep.accounting.importance import Law, MixedLaw, PlainLaw, TiltedLaw, WeightedLaw, affordable, shared
from minsep.accounting.pairs import TiltablePair
from minsep.accounting.reduction import shift_of, shortened
from minsep.accounting.schemes import pair_of, unsupported
from minsep.arrays import FloatArray
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism
from minsep.randomness import Key

Method = Literal["auto", "exact", "plain", "tilted"]

_LONGEST_TILTED = 1024  # separation, of a run that is shorter and composed with another event
_PILOT_SAMPLES = 2048
_PILOT_ROWS = 32  # of two samples each, from every candidate
_NEAR = 0.5
_MOST_PARTS = 4
_SCALES = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0)
_WEIGHTS = (1.0, 4.0, 16.0, 64.0)
_PAIR_SCALES = (1.0, 1.15, 1.4)
_MOST_GRIDS = 40
_MOST_EPSILON = 1e4
_GRID = 2049
_COMPOSED_GRID = 257
_FEWEST_IN_TAIL = 10


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
    ) -> None:
        # Single precision changes a log ratio by about 1e-5: negligible next to the error of an estimate.
        pair = pair_of(mechanism, np.float32)
        # In composition with another event, the two parts of a mixture cannot be separated.
        self.pair, self._share = shortened(pair) if event is None else (pair, 1.0)
        self.samples = samples
        # For a truncated mechanism, the adversary sees more than what is released.
        self.upper_bound = self.pair.upper_bound or self.pair.stronger_adversary
        tilts = (
            isinstance(self.pair, TiltablePair)
            and not self.pair.upper_bound
            and self.pair.single.min_sep <= max(self.pair.strategy.iterations, _LONGEST_TILTED)
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

    def deltas(self, epsilons: FloatArray, direction: Direction) -> tuple[FloatArray, FloatArray]:
        """Return estimates and standard errors at increasing epsilons."""
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
        self.laws[direction] = law
        samples = self.samples
        if isinstance(law, MixedLaw):
            # Whole rounds of the parts, so that each gets its share.
            size = law.samples_in_chunk * len(law.parts)
            samples = -(-samples // size) * size
        moments = self._moments(law, epsilons, samples)
        means = moments[0] / samples
        variances = np.maximum(moments[1] / samples - means**2, 0.0)
        # An estimate without any positive value must not look certain; a plain one cannot resolve less than 1/samples.
        floor = 1 / self.samples if isinstance(law, PlainLaw) or not means.any() else 0.0
        stderrs = np.sqrt(variances / samples + floor**2)
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
        coarse: tuple[float, float] | None = None
        for _ in range(_MOST_GRIDS):
            grid = np.linspace(low, high, _GRID if self._event is None else _COMPOSED_GRID)
            deltas, stderrs = self.deltas(grid, direction)
            if coarse is not None:
                # The finer grid has its own samples; if they disagree about the bracket, the coarse one is used.
                return _crossing(grid, deltas, stderrs, delta) if deltas[0] > delta >= deltas[-1] else coarse
            if deltas[0] <= delta and low == 0:
                fall = deltas[0] - deltas[1]
                return 0.0, float(stderrs[0] * (grid[1] - grid[0]) / fall) if fall > 0 else 0.0
            if deltas[0] > delta >= deltas[-1]:
                coarse = _crossing(grid, deltas, stderrs, delta)
                if self._event is None:
                    return coarse
                place = int(np.argmax(deltas <= delta))
                low, high = float(grid[max(place - 3, 0)]), float(grid[min(place + 2, grid.size - 1)])
            else:
                low, high = (0.0, low) if deltas[0] <= delta else (high, 2 * high)
        raise FloatingPointError(f"No epsilon was found for delta {delta:g}: the estimates do not converge.")

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
            moments = self._moments(self._law(direction, shift.epsilon), np.array([shift.epsilon]), few)
            if shift.factor * moments[0, 0] / few <= delta or high > _MOST_EPSILON:
                return high
            high *= 1.5

    def _law_for(self, direction: Direction, epsilons: FloatArray) -> Law:
        """Return one sampling law for all these epsilons."""
        given = self.laws.get(direction) if self._given else None
        if isinstance(given, WeightedLaw | TiltedLaw) and isinstance(self.pair, TiltablePair):
            return replace(given, pair=self.pair)
        low, high = float(epsilons.min()), float(epsilons.max())
        if self.method == "plain" or high - low <= _NEAR:
            return self._law(direction, high)
        count = min(2 + round((high - low) / 2), _MOST_PARTS)
        parts = [self._law(direction, epsilon) for epsilon in np.linspace(low, high, count)]
        distinct = tuple(dict.fromkeys(part for part in parts if isinstance(part, WeightedLaw | TiltedLaw)))
        return MixedLaw(distinct) if len(distinct) > 1 else parts[-1]

    def _law(self, direction: Direction, epsilon: float) -> Law:
        """Return the sampling law: for tilted sampling, with the parameters that did best in a separate pilot."""
        plain = PlainLaw(self.pair, direction)
        if self.method == "plain":
            return plain
        assert isinstance(self.pair, TiltablePair)
        sign = 1.0 if direction == "remove" else -1.0
        candidates: list[WeightedLaw | TiltedLaw] = [
            WeightedLaw(self.pair, direction, sign * scale, weight) for scale in _SCALES for weight in _WEIGHTS
        ]
        if affordable(self.pair.single, 2):
            candidates += [TiltedLaw(self.pair, direction, 2, sign * scale) for scale in _PAIR_SCALES]
        work = partial(_pilot_chunk, candidates, epsilon, self._key.derive("pilot"))
        chunks = self._compute.run(work, len(candidates))
        integrands, densities = (np.concatenate(parts, axis=-1) for parts in zip(*chunks, strict=True))
        hits = np.isfinite(integrands)
        if not hits.any():
            return plain
        # Every candidate is judged by the samples of all candidates, so a region that it neglects counts against it.
        pooled = logsumexp(densities[:, hits], axis=0) - math.log(len(candidates))
        second_moments = logsumexp(2 * integrands[hits] - densities[:, hits] - pooled, axis=1)
        return candidates[int(np.argmin(second_moments))]

    def _moments(self, law: Law, epsilons: FloatArray, samples: int) -> FloatArray:
        chunks = -(-samples // law.samples_in_chunk)
        work = partial(_chunk_moments, law, self._key, epsilons, self._event, samples)
        total = np.zeros((2, epsilons.size))
        for moments in self._compute.run(work, chunks):
            total += moments
        return total


def _pilot_chunk(
    candidates: list[WeightedLaw | TiltedLaw], epsilon: float, key: Key, chunk: int
) -> tuple[FloatArray, FloatArray]:
    """Draw from one candidate; return the log integrand against Q, and the log densities of all candidates."""
    drawn = candidates[chunk]
    scores = drawn.draw_scores(key, chunk)[:_PILOT_ROWS]
    log_ratio = drawn.pair.log_ratios_of_scores(scores)
    densities = np.stack([candidate.log_density(scores, log_ratio) for candidate in candidates])
    losses = log_ratio if drawn.direction == "remove" else -log_ratio
    with np.errstate(divide="ignore"):
        integrands = np.log(-np.expm1(np.minimum(epsilon - losses, 0.0)))
    return integrands + (log_ratio if drawn.direction == "remove" else 0.0), densities


def _chunk_moments(
    law: Law, key: Key, epsilons: FloatArray, event: PldCurve | None, samples: int, chunk: int
) -> FloatArray:
    law = shared(law)
    direction = law.direction
    log_ratio, log_density = law.draw(key, chunk)
    if not (np.isfinite(log_ratio).all() and np.isfinite(log_density).all()):
        raise FloatingPointError(f"A log likelihood ratio of chunk {chunk} is not finite: no estimate can be given.")
    wanted = samples - chunk * log_ratio.size
    log_ratio, log_density = log_ratio[:wanted], log_density[:wanted]
    losses, log_weights = (log_ratio, log_ratio - log_density) if direction == "remove" else (-log_ratio, -log_density)
    if event is None:
        return integrand_moments(losses, log_weights, epsilons)
    # In composition, delta is the mean of the other event's delta at epsilon minus the loss of this mechanism.
    values = np.exp(log_weights)[:, None] * event.delta(epsilons - losses[:, None], direction)
    return np.stack([values.sum(axis=0), (values**2).sum(axis=0)])


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
