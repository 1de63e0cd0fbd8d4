"""The sampling law of an estimate, found by a few rounds of adaptation on samples of their own.

Laws of several kinds are drawn from first. Every sample counts with the density of their mixture, so what one law
neglects another shows. The parameters of an `AdaptedLaw` are then moved to where the integrand is (the cross-entropy
method: the law of its family closest to the ideal one), samples of it join the others, and so on. Where hardly a sample
has a loss above epsilon, the first rounds aim at a smaller one.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import logsumexp

from minsep.accounting.directions import Direction
from minsep.accounting.importance import AdaptedLaw, ScoredLaw, TiltedLaw, affordable, may_spread
from minsep.accounting.pairs import TiltablePair
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.core.plain import from_plain, to_plain
from minsep.engine import Compute
from minsep.randomness import Key

PilotLaw = AdaptedLaw | TiltedLaw

_ROUNDS, _MOST_ROUNDS = 3, 16  # at epsilon itself, and on the way there
_KEPT_LAWS = 3  # adapted laws of earlier rounds
_DRAWN, _FEWEST = 96, 16  # samples of each law
_MOST_VALUES = 1 << 22
_STEPS = 28
_ROUND_EFFECTIVE_SAMPLES = 12.0  # effective samples that a round aims at
_LAST_EFFECTIVE_SAMPLES = 40.0  # effective samples at epsilon itself after which no further round is needed
_HALVINGS = 12
_RELEVANT, _MOST_RELEVANT = 1e-3, 128  # of the largest weight, and how many samples
_STALLED_SHARE, _MOST_STALLED_ROUNDS = 0.9, 3  # of the way to epsilon that is left after a round, and how often
_STARTS = ((1.0, 1.0), (1.5, 4.0), (2.5, 8.0), (4.5, 32.0))
_MOST_COPIES = 3
_LARGE_TABLE = 4e6  # numbers of a table of copies that takes longer than a pilot without it
_COST_OF_COPIES = 4.0  # of a sample, with the tables that it needs
_MOST_WEIGHT, _MOST_SCALE = 1e6, 12.0


@dataclass(frozen=True)
class Pilot:
    """What a pilot found: a law, and its own estimate of delta with a standard error and effective samples."""

    law: ScoredLaw
    value: float
    stderr: float
    effective: float


def run_pilot(pair: TiltablePair, direction: Direction, epsilon: float, key: Key, compute: Compute) -> Pilot:
    """Return a sampling law for one epsilon."""
    make, known = partial(_run, pair, direction, epsilon, key), {TiltablePair: pair, Direction: direction}

    def pack(pilot: Pilot) -> Any:
        return to_plain(pilot, lambda value: None if value is pair else value)

    def unpack(data: Any) -> Pilot:
        return from_plain(Pilot, data, "The pilot", finite=False, known=known)

    name = f"pilot for noise multiplier {pair.noise_multiplier:.6g}, {direction}"
    return compute.remember(make, pack, unpack, name)


def _run(pair: TiltablePair, direction: Direction, epsilon: float, key: Key, compute: Compute) -> Pilot:
    # What is sent would be larger than what is computed.
    pool = _Pool(pair, direction, epsilon, key, compute.local)
    pool.draw(_starts(pair, direction, epsilon))
    there, stalled, aim = 0, 0, pool.aim()
    for _ in range(_MOST_ROUNDS):
        if not pool.shows(aim):
            break
        there += aim == epsilon
        if pool.draw([pool.closest(aim)]) >= _LAST_EFFECTIVE_SAMPLES or there >= _ROUNDS:
            break
        pool.forget()
        last, aim = aim, pool.aim()
        stalled += epsilon - aim > _STALLED_SHARE * (epsilon - last)
        if stalled >= _MOST_STALLED_ROUNDS:
            break
    return pool.outcome()


def _starts(pair: TiltablePair, direction: Direction, epsilon: float) -> list[PilotLaw]:
    """Return laws for little noise and for much, between which the truth lies."""
    sign, squared = _sign(direction), pair.drift.squared
    # If log P/Q were linear in y, this shift would have the mean loss epsilon.
    linear = epsilon / squared + sign * 0.5 if squared > 0 else 0.0
    starts: list[PilotLaw] = [AdaptedLaw(pair, direction, sign * scale, weight) for scale, weight in _STARTS]
    if 0 < linear * math.sqrt(squared) < 50:
        starts += [AdaptedLaw(pair, direction, 0.0, 1.0, sign * share * linear) for share in (0.4, 1.0)]
        starts.append(AdaptedLaw(pair, direction, sign, 1.0, sign * max(linear - 1, 0.0)))
    for copies in range(2, _MOST_COPIES + 1):
        if affordable(pair.single, copies) and pair.single.min_sep * pair.strategy.iterations <= _LARGE_TABLE:
            starts.append(TiltedLaw(pair, direction, copies, sign))
    return starts


@dataclass
class _Pool:
    """Samples of several laws, each with its log ratio and its log density under every law."""

    pair: TiltablePair
    direction: Direction
    epsilon: float
    key: Key
    compute: Compute
    laws: list[PilotLaw] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """How many samples are from each law, one law after the other."""
    scores: Rows = field(init=False)
    log_ratio: FloatArray = field(default_factory=lambda: np.empty(0))
    densities: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """The log density of each law, in a row, for all samples."""
    pooled: FloatArray = field(init=False)
    """The log density of the mixture of all laws, each with its share of the samples."""
    starts: int = 0
    drawn: int = 0

    def draw(self, laws: list[PilotLaw]) -> float:
        """Add samples of these laws; return the number of effective samples at epsilon."""
        values = _MOST_VALUES // self.pair.strategy.iterations
        count = min(_DRAWN * (2 if self.laws else 1), max(values, _FEWEST))
        found = list(self.compute.run(partial(_draw, laws, self.key, self.drawn, count), len(laws)))
        scores, log_ratio = (np.concatenate(parts) for parts in zip(*found, strict=True))
        # Laws that are known need the densities of new samples, and new laws those of all.
        known = list(self.compute.run(partial(_density, self.laws, scores, log_ratio), len(self.laws)))
        if self.laws:
            self.densities = np.concatenate([self.densities, np.stack(known)], axis=1)
            scores, log_ratio = np.concatenate([self.scores, scores]), np.concatenate([self.log_ratio, log_ratio])
        self.scores, self.log_ratio = scores, log_ratio
        new = list(self.compute.run(partial(_density, laws, scores, log_ratio), len(laws)))
        self.densities = np.concatenate([self.densities.reshape(-1, log_ratio.size), np.stack(new)])
        self.starts = self.starts or len(laws)
        self.drawn += len(laws)
        self.laws += laws
        self.counts += [ratio.size for _, ratio in found]
        self._pool()
        return _effective(self._log_weights(self.epsilon))

    def forget(self) -> None:
        """Let go of the samples of an adapted law of early rounds, which aimed too low."""
        if len(self.laws) <= self.starts + _KEPT_LAWS:
            return
        first = sum(self.counts[: self.starts])
        gone = slice(first, first + self.counts[self.starts])
        self.scores = np.delete(self.scores, slice(gone.start // 2, gone.stop // 2), axis=0)
        self.log_ratio = np.delete(self.log_ratio, gone)
        self.densities = np.delete(np.delete(self.densities, gone, axis=1), self.starts, axis=0)
        del self.laws[self.starts], self.counts[self.starts]
        self._pool()

    def _pool(self) -> None:
        shares = np.array(self.counts) / sum(self.counts)
        self.pooled = np.asarray(logsumexp(self.densities, axis=0, b=shares[:, None]))

    def aim(self) -> float:
        """Return the largest epsilon up to that of the task at which enough samples count."""
        # Half of the samples have at least the median loss, so some always count.
        low, high = min(float(np.median(self._losses)), self.epsilon), self.epsilon
        if _effective(self._log_weights(high)) >= _ROUND_EFFECTIVE_SAMPLES:
            return high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = _effective(self._log_weights(middle)) >= _ROUND_EFFECTIVE_SAMPLES
            low, high = (middle, high) if enough else (low, middle)
        return low

    def shows(self, aim: float) -> bool:
        """Whether a sample has a loss above an epsilon."""
        return bool(np.isfinite(self._log_weights(aim)).any())

    def closest(self, aim: float) -> AdaptedLaw:
        """Return the law of the family that is closest to the ideal one at an epsilon, as far as the samples show."""
        log_weights = self._log_weights(aim)
        weights = np.exp(log_weights - log_weights.max())
        most = min(_MOST_RELEVANT, _MOST_VALUES // self.pair.strategy.iterations + _FEWEST)
        relevant = np.argsort(-weights, kind="stable")[:most]
        relevant = relevant[weights[relevant] > _RELEVANT]
        weights = weights[relevant] / weights[relevant].sum()
        both = np.append(relevant, relevant[-1:]) if relevant.size % 2 else relevant
        scores, log_ratio = _selected(self.scores, both), self.log_ratio[both]

        def fit(law: PilotLaw) -> float:
            return float(weights @ law.log_density(scores, log_ratio)[: relevant.size])

        known = [law for law in self.laws if isinstance(law, AdaptedLaw)]
        best = max(known, key=fit)
        sign = _sign(self.direction)
        unit = 0.3 * max(abs(best.shift), 0.3 * self._linear_shift())

        def law_at(point: FloatArray) -> AdaptedLaw:
            scale = sign * min(abs(float(point[0])), _MOST_SCALE)
            weight = min(max(math.exp(min(float(point[1]), 50.0)), 1e-3), _MOST_WEIGHT)
            spread = min(max(math.exp(float(point[3])), 0.3), 2.0) if point.size > 3 else 1.0
            return AdaptedLaw(self.pair, self.direction, scale, weight, sign * abs(float(point[2])) * unit, spread)

        start = np.array([abs(best.scale), math.log(best.weight), abs(best.shift) / unit, math.log(best.spread)])
        steps = np.array([0.4, 0.8, 1.0, 0.05 * sign])
        free = 4 if may_spread(self.pair) else 3
        start, steps = start[:free], steps[:free]
        simplex = start + np.concatenate([np.zeros((1, free)), np.diag(steps)])
        options: Any = {"maxfev": _STEPS, "initial_simplex": simplex, "xatol": 0.02, "fatol": 0.01}

        def misfit(point: FloatArray) -> float:
            return -fit(law_at(point))

        return law_at(optimize.minimize(misfit, start, method="Nelder-Mead", options=options).x)

    def outcome(self) -> Pilot:
        """Return the law of least second moment for its cost, as far as all samples show it."""
        log_integrand = self._log_integrand(self.epsilon)
        log_weights = log_integrand - self.pooled
        if not np.isfinite(log_integrand).any():
            return Pilot(self.laws[-1], 0.0, math.inf, 0.0)
        moments = logsumexp(2 * log_integrand - self.densities - self.pooled, axis=1)
        costs = [math.log(_COST_OF_COPIES) if isinstance(law, TiltedLaw) else 0.0 for law in self.laws]
        weights = np.exp(log_weights)
        stderr = float(weights.std() / math.sqrt(weights.size))
        best = self.laws[int(np.argmin(moments + costs))]
        return Pilot(best, float(weights.mean()), stderr, _effective(log_weights))

    def _linear_shift(self) -> float:
        squared = self.pair.drift.squared
        return max(self.epsilon / squared, 1.0) if squared > 0 else 1.0

    def _log_weights(self, epsilon: float) -> FloatArray:
        return self._log_integrand(epsilon) - self.pooled

    def _log_integrand(self, epsilon: float) -> FloatArray:
        """Return log of (R - e^eps)+ or (1 - e^eps R)+."""
        with np.errstate(divide="ignore"):
            above = np.log(-np.expm1(np.minimum(epsilon - self._losses, 0.0)))
        return above + (self.log_ratio if self.direction == "remove" else 0.0)

    @property
    def _losses(self) -> FloatArray:
        return self.log_ratio if self.direction == "remove" else -self.log_ratio


def _sign(direction: Direction) -> float:
    """Return where a direction moves samples: towards the participations, or away from them."""
    return 1.0 if direction == "remove" else -1.0


def _draw(laws: list[PilotLaw], key: Key, drawn: int, count: int, place: int) -> tuple[Rows, FloatArray]:
    """Return scores and log ratios of samples of one law."""
    law, key = laws[place], key.derive(f"law {drawn + place}")
    chunks = -(-count // law.samples_in_chunk)
    scores = np.concatenate([law.draw_scores(key, chunk).copy() for chunk in range(chunks)])[: (count + 1) // 2]
    return scores, law.pair.log_ratios_of_scores(scores)


def _density(laws: list[PilotLaw], scores: Rows, log_ratio: FloatArray, place: int) -> FloatArray:
    return laws[place].log_density(scores, log_ratio)


def _effective(log_weights: FloatArray) -> float:
    """Return the effective number of samples with these weights."""
    if not np.isfinite(log_weights).any():
        return 0.0
    return math.exp(2 * float(logsumexp(log_weights)) - float(logsumexp(2 * log_weights)))


def _selected(rows: Rows, places: IntegerArray) -> Rows:
    """Return an even number of samples, two in a row again."""
    chosen = np.empty((places.size // 2, rows.shape[1]), dtype=rows.dtype)
    for side in (0, 1):
        samples = places[side::2]
        for part in (0, 1):
            mine = samples % 2 == part
            chosen[mine, side::2] = rows[samples[mine] // 2, part::2]
    return chosen
