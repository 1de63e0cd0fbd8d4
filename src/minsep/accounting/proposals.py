"""Laws to draw samples from, with their densities and a proven bound on the integrand of delta.

Each proposal P' answers for one direction with draws of (log R, log dP'/dQ), R = P/Q, and with a bound W on

    remove:  X = (R - e^eps)+ / (dP'/dQ),          add:  X = (1 - e^eps R)+ / (dP'/dQ),

whose mean under P' is delta. docs/certified-sampling.md has the proofs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import logsumexp

from minsep.accounting.convexity import Tangent, tangent_at, tangents
from minsep.accounting.copies import StateSpace, count_states, draw_tuples, fill_table, gram_table
from minsep.accounting.filters import Rows
from minsep.accounting.pairs import Direction, MinSepPair, Pair, uniforms
from minsep.randomness import Key, KeyedWords

FloatArray = NDArray[np.float64]

DEFAULT_MEMORY = 1 << 30
_MOST_STRENGTH = 100.0
_SMALL = 1_000.0  # times the level: some ten thousand samples, not worth a longer search
_MOST_WORK = 2.5e7  # entries of a table times moves: about a second
_MOST_COPIES = 12
_LARGEST_SCALE = 6.0


class Proposal(ABC):
    """A law to draw from, for one direction."""

    pair: Pair
    direction: Direction
    copies: int
    scale: float
    method: str

    @property
    @abstractmethod
    def log_constant(self) -> float:
        """Logarithm of M, the normaliser of the density."""

    @property
    @abstractmethod
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together."""

    @abstractmethod
    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""

    @abstractmethod
    def log_bound(self, epsilon: float) -> float:
        """Return the logarithm of a bound on X."""


@dataclass(frozen=True)
class PlainProposal(Proposal):
    """P itself for `remove`, Q itself for `add`: X lies in [0, 1]."""

    pair: Pair
    direction: Direction
    scale: float = 1.0
    method = "plain"

    @property
    def copies(self) -> int:  # type: ignore[override]
        """How often the ratio R stands in the density: once for P, not at all for Q."""
        return 1 if self.direction == "remove" else 0

    @property
    def log_constant(self) -> float:
        """0: the density is R or 1."""
        return 0.0

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together."""
        return self.pair.samples_in_chunk

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        ratios = self.pair.draw_log_ratios(self.direction, key, chunk)
        return ratios, ratios if self.direction == "remove" else np.zeros(ratios.size)

    def log_bound(self, epsilon: float) -> float:
        """Return 0: X is at most 1."""
        return 0.0


@dataclass(frozen=True)
class ShiftedProposal(Proposal):
    """Q moved to where P/Q is small, along a tangent of log P/Q: for `add` alone.

    The density is exp(-a <g, y> - (a s)^2/2), and P/Q is at least e^m e^<g, y>, so X is bounded: see `convexity`.
    """

    pair: MinSepPair
    distance: float
    strength: float
    direction: Direction = "add"
    copies: int = 0
    method = "shifted"

    @property
    def scale(self) -> float:  # type: ignore[override]
        """How far Q is moved against the gradient, in units of the variance."""
        return -self.strength

    @property
    def log_constant(self) -> float:
        """Logarithm of the normalising constant of the density."""
        return (self.strength * self.tangent.deviation) ** 2 / 2

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together."""
        return self.pair.samples_in_chunk

    @cached_property
    def tangent(self) -> Tangent:
        """The tangent that bounds P/Q from below."""
        tangent = tangent_at(self.pair, self.distance)
        assert tangent is not None
        return tangent

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        n, gradient = self.pair.strategy.iterations, self.tangent.gradient
        nothing = np.empty(0, dtype=np.int64)
        rows = self.pair.moved_noise(key.derive(self.direction), chunk, nothing, nothing, np.empty(0))
        both = rows[:, : 2 * n].reshape(rows.shape[0], n, 2)  # two samples a row, in turn
        both -= (self.strength * self.pair.noise_multiplier**2 * gradient)[:, None].astype(rows.dtype)
        along = np.einsum("rik,i->rk", both, gradient).ravel()
        log_ratio = self.pair.log_means(self.pair.scores_of(rows), 1.0, 1.0)
        return log_ratio, -self.strength * along - self.log_constant

    def log_bound(self, epsilon: float) -> float:
        """Return the logarithm of W, the largest possible X."""
        return _log_bound_of_shift(self.tangent, self.strength, epsilon)


@dataclass(frozen=True)
class TupleLaw:
    """Tuples of participation vectors, each participation weighted: see `copies`.

    `own` weighs squared norms, `shared` inner products of two copies, `log_weight` every participation.
    """

    pair: MinSepPair
    copies: int
    own: float
    shared: float
    log_weight: float = 0.0

    @cached_property
    def log_constant(self) -> float:
        """Logarithm of the total weight of all tuples."""
        return self._start_weights(self._filled(full=False))[1]

    def draw(self, key: Key, chunk: int) -> tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]:
        """Return (sample, time, number of columns) of all participations in a chunk of tuples, summed over copies."""
        count = self.pair.samples_in_chunk
        words = KeyedWords(key.derive("tuples"))
        starts = np.searchsorted(self._cumulative_starts, uniforms(words.take(2 * chunk, count)), side="right")
        starts = np.minimum(starts, self._cumulative_starts.size - 1)
        _, jumps, places = self._starts
        room = 64 + 8 * count * (1 + self.copies)
        while room <= 256 * count * (self.pair.strategy.iterations + 1) * self.copies:
            source = uniforms(words.take(2 * chunk + 1, room))
            samples, times = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
            weights = np.empty(room)
            begin = (self._idle, jumps[starts], places[starts])
            found: int = draw_tuples(self._table, *self._arguments, *begin, source, samples, times, weights)  # type: ignore[call-arg]
            if found >= 0:
                return samples[:found], times[:found], weights[:found]
            room *= 2  # The words begin the same, so the tuples do.
        raise FloatingPointError("A tuple of participations could not be drawn: its table is not finite.")

    @property
    def _space(self) -> StateSpace:
        return _state_space(self.copies, self.pair.min_sep, self.pair.group)

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        pair = self.pair
        log_miss = pair.group * (math.log1p(-pair.prob) if pair.prob < 1 else -math.inf)
        weights = self._space.log_move_weights(pair.log_multiplicities + self.log_weight, log_miss)
        m = self._space.tables
        return (
            _cached_gram(pair), weights, self.own, self.shared,
            m.jumps, m.targets, m.lags, m.multiplicities, m.blocked, m.sizes, m.sums, m.squares,
        )  # fmt: skip

    def _filled(self, *, full: bool) -> FloatArray:
        n = self.pair.strategy.iterations
        rows = n + 1 if full else min(self.pair.min_sep, n) + 1
        table = np.zeros((rows, len(self._space.states)))
        fill_table(table, *self._arguments)
        return table

    @cached_property
    def _table(self) -> FloatArray:
        return self._filled(full=True)

    def _start_weights(self, table: FloatArray) -> tuple[FloatArray, float]:
        """Return the log weight of each start, with all that follows, and of all of them."""
        logs, jumps, places = self._starts
        n = self.pair.strategy.iterations
        reached = np.where(jumps < n, table[np.minimum(jumps, n) % table.shape[0], places], 0.0)
        return logs + reached, float(logsumexp(logs + reached))

    @cached_property
    def _starts(self) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
        if not self.pair.warm:
            return np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        available = 1 / (1 + (self.pair.min_sep - 1) * self.pair.prob)
        return self._space.starts(available, self.pair.prob * available)

    @cached_property
    def _cumulative_starts(self) -> FloatArray:
        weights, total = self._start_weights(self._table)
        return np.cumsum(np.exp(weights - total))

    @cached_property
    def _idle(self) -> FloatArray:
        """Log probability of no participation before each iteration, from the empty state on."""
        weights: FloatArray = self._arguments[1]
        values = self._table[:, 0]
        steps = weights[self.copies, 0] + values[1:] - values[:-1]
        return np.concatenate([[0.0], np.cumsum(np.minimum(steps, 0.0))])


@dataclass(frozen=True)
class TiltedProposal(Proposal):
    """The Renyi-tilted law dP'/dQ = F_t^k / M with F_t = E_x exp(t l_x): k copies, scale t.

    `scale` is at least 1 for `remove` and negative for `add`; the order is k |t|.
    """

    pair: MinSepPair
    direction: Direction
    copies: int
    scale: float
    method = "tilted"

    def __post_init__(self) -> None:
        if self.pair.upper_bound:
            raise ValueError(
                f"bands is {self.pair.strategy.bands}, but a tilted proposal needs at most min_sep = "
                f"{self.pair.min_sep}."
            )
        if (self.direction == "remove" and self.scale < 1) or (self.direction == "add" and self.scale >= 0):
            raise ValueError(f"scale is {self.scale}, but it must be at least 1 for `remove` and below 0 for `add`.")

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together."""
        return self.pair.samples_in_chunk

    @cached_property
    def law(self) -> TupleLaw:
        """Law of the tuples whose columns, t times, are the means of the proposal's normals."""
        t, variance = self.scale, self.pair.noise_multiplier**2
        return TupleLaw(self.pair, self.copies, (t * t - t) / (2 * variance), t * t / variance)

    @property
    def log_constant(self) -> float:
        """Logarithm of M: the total weight of all tuples."""
        return self.law.log_constant

    def log_bound(self, epsilon: float) -> float:
        """Return log M + the largest log of (R - e^eps) R^-a, or of (1 - e^eps R) R^a, a the order."""
        a = self.copies * abs(self.scale)
        if self.direction == "remove":
            return self.log_constant - (a - 1) * epsilon + _x_log_x(a - 1) - _x_log_x(a)
        return self.log_constant - a * epsilon + _x_log_x(a) - _x_log_x(a + 1)

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        scores = self.draw_scores(key, chunk)
        log_ratio = self.pair.log_means(scores, 1.0, 1.0)
        return log_ratio, self.log_density(scores, log_ratio)

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        samples, times, weights = self.law.draw(key, chunk)
        return self.pair.scores_of(self.pair.moved_noise(key, chunk, samples, times, self.scale * weights))

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores and log R."""
        log_mean = log_ratio if self.scale == 1.0 else self.pair.log_means(scores, self.scale, self.scale)
        return self.copies * log_mean - self.log_constant


@dataclass(frozen=True)
class EstimationProposal:
    """One copy with two free knobs, for estimates: y = t C x + z with every participation weighted by theta.

    A share of the samples is drawn from P (`remove`) or Q (`add`) instead, so that a badly chosen pair of knobs shows
    in the error and does not mislead. There is no bound on X, and none is needed.
    """

    pair: MinSepPair
    direction: Direction
    scale: float
    weight: float
    defensive: float = 0.1

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together."""
        return self.pair.samples_in_chunk

    @cached_property
    def law(self) -> TupleLaw:
        """Law of the participation vector with every participation weighted."""
        return TupleLaw(self.pair, 1, 0.0, 0.0, math.log(self.weight))

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        scores = self.draw_scores(key, chunk)
        log_ratio = self.pair.log_means(scores, 1.0, 1.0)
        return log_ratio, self.log_density(scores, log_ratio)

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores and log R."""
        tilt = self.pair.log_means(scores, self.scale, self.scale**2, self.weight) - self.law.log_constant
        plain = log_ratio if self.direction == "remove" else np.zeros(log_ratio.size)
        return np.logaddexp(math.log(self.defensive) + plain, math.log1p(-self.defensive) + tilt)

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        count = self.samples_in_chunk
        plain = uniforms(KeyedWords(key.derive("defensive")).take(chunk, count)) < self.defensive
        samples, times, weights = self.law.draw(key, chunk)
        tilted = ~plain[samples]
        samples, times, weights = samples[tilted], times[tilted], self.scale * weights[tilted]
        if self.direction == "remove":
            others, other_times, other_weights = self.pair.participations(key, chunk)
            kept = plain[others]
            samples, times = np.append(samples, others[kept]), np.append(times, other_times[kept])
            weights = np.append(weights, other_weights[kept])
        return self.pair.scores_of(self.pair.moved_noise(key, chunk, samples, times, weights))


@dataclass(frozen=True)
class MixedProposal:
    """Several proposals in turn, chunk by chunk: for estimates at epsilons that are far apart.

    The density is that of the mixture with equal shares, so the number of chunks must be a multiple of `len(parts)`.
    """

    parts: tuple[EstimationProposal | TiltedProposal, ...]

    @property
    def direction(self) -> Direction:
        """Direction of all parts."""
        return self.parts[0].direction

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together."""
        return self.parts[0].samples_in_chunk

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        scores = self.parts[chunk % len(self.parts)].draw_scores(key, chunk)
        log_ratio = self.parts[0].pair.log_means(scores, 1.0, 1.0)
        densities = [part.log_density(scores, log_ratio) for part in self.parts]
        return log_ratio, logsumexp(densities, axis=0) - math.log(len(densities))


def best_proposal(
    pair: Pair, direction: Direction, epsilon: float, memory: int = DEFAULT_MEMORY, enough: float = 0.0
) -> Proposal:
    """Return the proposal of least bound: tilted with the best (k, t) that fits into memory, or plain.

    A bound of `enough` ends the search. The choice depends on no sample, so it costs nothing in the guarantee.
    """
    best: Proposal = PlainProposal(pair, direction)
    if not isinstance(pair, MinSepPair) or pair.upper_bound:
        return best
    least = 0.0
    if direction == "add":
        best = min([best, *shifted_proposals(pair, epsilon)], key=lambda one: one.log_bound(epsilon))
        least = best.log_bound(epsilon)
        if math.exp(least) <= _SMALL * enough:
            return best
    previous = math.inf
    lowest = 1.0 if direction == "remove" else 0.05
    scales = lowest, _LARGEST_SCALE
    for copies in range(1, _MOST_COPIES + 1):
        if not affordable(pair, copies, memory):
            break
        candidate = _best_scale(pair, direction, copies, epsilon, *scales)
        # With more copies the best scale is smaller, and not by much.
        scales = max(0.6 * abs(candidate.scale), lowest), max(1.1 * abs(candidate.scale), 1.5 * lowest)
        bound = candidate.log_bound(epsilon)
        if bound >= previous and copies > 2:
            break
        previous = bound
        if bound < least:
            best, least = candidate, bound
        if math.exp(least) <= enough:
            break
    return best


def shifted_proposals(pair: MinSepPair, epsilon: float) -> Iterator[ShiftedProposal]:
    """Yield a shifted proposal for every tangent, with the strength of least bound."""
    for tangent in tangents(pair):

        def log_bound(strength: float, tangent: Tangent = tangent) -> float:
            return _log_bound_of_shift(tangent, strength, epsilon)

        found = optimize.minimize_scalar(log_bound, bounds=(0.01, _MOST_STRENGTH), method="bounded")
        yield ShiftedProposal(pair, tangent.distance, round(float(found.x), 4))


def affordable(pair: MinSepPair, copies: int, memory: int = DEFAULT_MEMORY) -> bool:
    """Return whether the tables for so many copies fit into memory and patience."""
    n = pair.strategy.iterations
    states = count_states(copies, pair.min_sep, pair.group)
    moves = math.comb(copies + pair.group, copies)
    return 8 * (n + 1) * states <= memory and n * states * moves <= _MOST_WORK * (1 if copies > 2 else 100)


def _best_scale(
    pair: MinSepPair, direction: Direction, copies: int, epsilon: float, lowest: float, highest: float
) -> TiltedProposal:
    sign = 1.0 if direction == "remove" else -1.0

    def bound(scale: float) -> float:
        if copies * scale <= 1 and direction == "remove":
            return 0.0
        value = TiltedProposal(pair, direction, copies, sign * scale).log_bound(epsilon)
        return value if math.isfinite(value) else 1e300

    # The bound is flat around its minimum: a coarse search does.
    tolerance = 0.04 * (highest - lowest) if highest < _LARGEST_SCALE else 0.02
    found = optimize.minimize_scalar(bound, bounds=(lowest, highest), method="bounded", options={"xatol": tolerance})
    scale = float(found.x)
    if direction == "remove" and copies > 1 and lowest == 1.0 and bound(1.0) <= float(found.fun):
        scale = 1.0
    return TiltedProposal(pair, direction, copies, sign * round(scale, 4))


def _log_bound_of_shift(tangent: Tangent, strength: float, epsilon: float) -> float:
    grown = (strength * tangent.deviation) ** 2 / 2
    return grown - strength * (tangent.constant + epsilon) + _x_log_x(strength) - _x_log_x(1 + strength)


def _x_log_x(x: float) -> float:
    return x * math.log(x) if x > 0 else 0.0


@lru_cache(maxsize=16)
def _state_space(copies: int, min_sep: int, group: int) -> StateSpace:
    """Return the states of so many copies, made once for all scales and noise multipliers."""
    return StateSpace(copies, min_sep, group)


_grams: dict[str, FloatArray] = {}


def _cached_gram(pair: MinSepPair) -> FloatArray:
    """Return the table of inner products of a strategy; the one used last is kept."""
    name = pair.strategy.fingerprint
    if name not in _grams:
        _grams.clear()
        _grams[name] = gram_table(pair.strategy)
    return _grams[name]
