"""The tilted law of many copies with scale 1, from bounds on what tuples weigh, for long runs and small delta.

The tables of `TupleLaw` grow with the number of copies so fast that only two or three copies of a vector with a long
separation fit. Here a tuple x is drawn by a weight that is at least w(x), its weight in Lemma 1, and has tables of the
size of the run. A sample counts by the share that w(x) has in it. So X is unbiased, and bounded as with the tilted law.
docs/certified-sampling.md, section 10, has the proof.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import BoundedLaw
from minsep.accounting.importance.cluster_tables import (
    Model,
    Windows,
    draw_clusters,
    fill_totals,
    fill_windows,
)
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.importance.tuple_tables import DONE, NO_ROOM, Participations
from minsep.accounting.pairs import MinSepPair, Pair
from minsep.accounting.pairs.rounding import distance_of_draws, rounding_of
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.randomness import Key, KeyedWords

MOST_COPIES = 24
"""Most copies of a clustered law."""
_MOST_TABLE = 8 << 30  # bytes
_MOST_WAIT = 300.0  # of -k b log(1 - p), by which weights may be larger than chances
_UNIT = 2.0**-53


@dataclass(frozen=True)
class ClusteredLaw(BoundedLaw):
    """Tuples of k copies, drawn by weights that are at least those of the tilted law with scale 1, for `remove`."""

    pair: MinSepPair
    direction: Direction
    copies: int
    payoff: Payoff = field(default=ALONE, kw_only=True)
    kind = "clustered"

    def __post_init__(self) -> None:
        if not may_cluster(self.pair, self.direction, self.copies):
            raise ValueError(f"copies is {self.copies}, but this pair has no clustered law of so many copies.")

    @property
    def power(self) -> int:
        """k: the number of copies."""
        return self.copies

    @property
    def scale(self) -> float:
        """1: each copy moves samples as P moves them."""
        return 1.0

    @cached_property
    def log_constant(self) -> float:
        """Logarithm of the weight of all tuples."""
        total = float(self._filled[0][0])
        if not 0 < total < math.inf:
            return math.inf
        return math.log(total) + self.copies * self._log_start

    def log_bound(self, epsilon: float) -> float:
        """Return log M + the largest log of (R - e^eps) R^-k."""
        k = float(self.copies)
        return self.log_constant - (k - 1) * epsilon + self.payoff.log_peak(k - 1)

    @property
    def rounding(self) -> float:
        """h: a bound on the errors of logarithms, that of the share of a tuple included."""
        n, b, k = self.pair.strategy.iterations, self.pair.strategy.bands, self.copies
        steps = n * (100 + 40 * k**2) + (n // b + 2) * (k + b) * k * (10 + k**2 * float(self._model.beta))
        return self.grid + rounding_of(self.pair, self.copies, self.scale) + 2 * _UNIT * steps

    @property
    def distance(self) -> float:
        """Probability that a drawn sample is not close to one of its exact law; windows are drawn as well."""
        n, b, k = self.pair.strategy.iterations, self.pair.strategy.bands, self.copies
        windows, waited = n // b + 2, -float(self._idle[-1])
        draws = windows * (n + 40 * k + b * (k + 8)) + 64 * n * (1 + waited)
        return min(distance_of_draws(self.pair, self.grid, 1, 1.0) + draws * 2.0**-52, 1.0)

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and the logarithm of what a sample is divided by; -inf and 0 for a tuple that cannot be."""
        key = key.derive(self.direction)
        places, shares = self.draw_tuples(key, chunk)
        scores = self.pair.filter.scores(self.pair.moved_noise(key, chunk, *places))
        log_ratio = self.pair.log_ratios_of_scores(scores)
        known = np.isfinite(shares)
        log_density = self.copies * log_ratio - self.log_constant - np.where(known, shares, 0.0)
        return np.where(known, log_ratio, -np.inf), np.where(known, log_density, 0.0)

    def draw_tuples(self, key: Key, chunk: int) -> tuple[Participations, FloatArray]:
        """Return all participations in a chunk of tuples, and the logarithm of the share of each tuple's weight."""
        count, n = self.samples_in_chunk, self.pair.strategy.iterations
        words = KeyedWords(key.derive("clusters"))
        totals, begun = self._filled
        shares, progress = np.empty(count), np.zeros(3, dtype=np.int64)
        room = 2 * count * (64 + self.pair.strategy.bands + 4 * self.copies)
        found = Participations.empty(room)
        while room <= 512 * count * (n + 64) * (self.copies + 1):
            first_word = int(progress[1]) & ~1
            source = words.take(chunk, room, first_word)
            outcome = draw_clusters(
                totals, begun, self._idle, self._windows, self._model, source, first_word, progress, found, shares
            )
            if outcome == DONE:
                return found.first(int(progress[2])), shares
            room *= 2
            if outcome == NO_ROOM:
                found = found.doubled()
        raise FloatingPointError("A tuple of participations could not be drawn: its table is not finite.")

    @classmethod
    def read(
        cls, description: Description, pair: Pair, direction: Direction, payoff: Payoff = ALONE
    ) -> "ClusteredLaw | None":
        """Return the law of a pair and direction that gave a description; None unless there is exactly such a law."""
        match description:
            case {"kind": cls.kind, "copies": int() as copies, **rest} if not rest:
                if isinstance(pair, MinSepPair) and may_cluster(pair, direction, copies):
                    return cls(pair, direction, copies, payoff=payoff)
        return None

    @classmethod
    def in_words(cls, description: Description) -> str:
        """Return what is drawn, in words."""
        match description:
            case {"copies": copies}:
                return f"a clustered law ({copies} copies)"
        return super().in_words(description)

    def describe(self) -> Description:
        """Return the law as plain data."""
        return {"kind": self.kind, "copies": self.copies}

    @cached_property
    def _model(self) -> Model:
        pair, column = self.pair, self.pair.strategy.banded_column
        assert column is not None
        bands = column.size
        rho = np.array([column[: bands - lag] @ column[lag:] for lag in range(bands)])
        highest = np.zeros(max(pair.min_sep, 2 * bands) + 1)
        highest[:bands] = np.maximum.accumulate(rho[::-1])[::-1]
        log_starts = np.zeros(pair.min_sep)
        if pair.warm:
            log_starts = np.log(self._starts) - math.log(self._starts[-1])
        return Model(
            np.ascontiguousarray(column),
            rho,
            highest,
            pair.noise_multiplier**-2,
            pair.min_sep,
            pair.strategy.iterations,
            pair.log_miss,
            log_starts,
        )

    @property
    def _starts(self) -> FloatArray:
        """For each first participation, the weight of all starts that allow it: one up to b - 1 iterations ago."""
        lost = np.exp(-self.pair.log_miss * np.arange(1, self.pair.min_sep))
        return np.cumsum(np.concatenate([[1.0], self.pair.prob * lost]))

    @property
    def _log_start(self) -> float:
        pair = self.pair
        return math.log(self._starts[-1] / (1 + (pair.min_sep - 1) * pair.prob)) if pair.warm else 0.0

    @cached_property
    def _windows(self) -> Windows:
        k, bands, model = self.copies, self.pair.strategy.bands, self._model
        lasts, gaps = _classes(bands)
        far = np.zeros((len(lasts), 6))
        far[:, 5] = lasts
        far[1:, 4] = far[:-1, 5] + 1
        shape = (k + 1, k + 1, len(gaps) - 1)
        weights = np.zeros(k + 1)
        log_prob = math.log(self.pair.prob) - model.min_sep * model.log_miss
        with np.errstate(over="ignore"):
            for m in range(1, k + 1):
                weights[m] = math.comb(k, m) * np.exp(m * log_prob + model.beta * model.rho[0] * m * (m - 1) / 2)
        windows = Windows(weights, far, np.zeros((k + 1, len(lasts))), np.zeros((*shape, 6)), np.zeros(shape), gaps)
        fill_windows(windows, k, model)
        return windows

    @cached_property
    def _filled(self) -> tuple[FloatArray, FloatArray]:
        """The weights of all that can happen from each iteration on, and of windows that begin there."""
        n, k = self.pair.strategy.iterations, self.copies
        totals, begun = np.zeros(n + 1), np.zeros((n, k + 1))
        fill_totals(totals, begun, self._windows, k * self.pair.log_miss, self.pair.strategy.bands)
        return totals, begun

    @cached_property
    def _idle(self) -> FloatArray:
        """Log probability that no window begins before each iteration."""
        totals = np.log(self._filled[0])
        steps = self.copies * self.pair.log_miss + totals[1:] - totals[:-1]
        return np.concatenate([[0.0], np.cumsum(np.minimum(steps, 0.0))])


def may_cluster(pair: MinSepPair, direction: Direction, copies: int) -> bool:
    """Return whether a pair has a clustered law of so many copies."""
    strategy = pair.strategy
    return (
        direction == "remove"
        and 2 <= copies <= MOST_COPIES
        and pair.group == 1
        and not pair.upper_bound
        and pair.min_sep <= strategy.iterations
        and strategy.banded_column is not None
        and pair.prob < 1
        and -copies * pair.min_sep * pair.log_miss <= _MOST_WAIT
        and 8 * (copies + 2) * (strategy.iterations + 1) <= _MOST_TABLE
    )


def best_clustered(pair: Pair, direction: Direction, epsilon: float, payoff: Payoff = ALONE) -> ClusteredLaw | None:
    """Return the clustered law of least bound; None where there is none."""
    best, least = None, math.inf
    for copies in range(2, MOST_COPIES + 1):
        if not isinstance(pair, MinSepPair) or not may_cluster(pair, direction, copies):
            break
        law = ClusteredLaw(pair, direction, copies, payoff=payoff)
        bound = law.log_bound(epsilon)
        if not bound < least:
            break
        best, least = law, bound
    return best


def _classes(bands: int) -> tuple[list[int], np.ndarray]:
    """Return the last places of classes of windows, by length, and the first gaps of classes of gaps, with the end."""
    lasts, gaps = [0], [0]
    while lasts[-1] < bands - 1:
        lasts.append(min(max(lasts[-1] + 1, lasts[-1] * 5 // 4), bands - 1))
    while gaps[-1] < bands - 1:
        gaps.append(min(max(gaps[-1] + 1, 2 * gaps[-1]), bands - 1))
    return lasts, np.array(gaps, dtype=np.int64)
