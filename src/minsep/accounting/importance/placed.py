"""The tilted law of balls-in-bins with any strategy: copies of an example's place, whose tuples are all counted.

C x is one of few vectors m_p, one for each place p of an epoch. A tuple of k places has the weight

    chances exp((t^2 - t) sum_j <m_j, m_j> / (2 s2) + t^2 sum_(i<j) <m_i, m_j> / s2),

which depends on the order of its places in nothing, so tuples of increasing places stand for all. They are drawn in two
steps: all but the last place, by the sums over the last one, and then that. docs/certified-sampling.md, section 11.
"""

import math
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

import numba
import numpy as np
from scipy import optimize

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import BoundedLaw, ScoredLaw
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.importance.tuple_tables import Participations
from minsep.accounting.pairs import BallsInBinsPair, Pair
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.core.identity import Description
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import uniforms

MOST_COPIES = 8
"""Most copies of a placed law."""
MOST_TUPLES = 20_000_000
"""Most tuples of places that are counted, in increasing order: a second of work."""
FEW_TUPLES = 300_000
"""Most of those that are counted for an estimate."""
_LARGEST_TILT = 6.0
_UNIT = 2.0**-53


@dataclass(frozen=True)
class PlacedLaw(ScoredLaw, BoundedLaw):
    """The Renyi-tilted law dP'/dQ = F_t^k / M with F_t = E_x exp(t l_x), of balls-in-bins: k copies, scale t.

    `tilt` is t: at least 1 for `remove` and negative for `add`; the order is k |t|.
    """

    pair: BallsInBinsPair
    direction: Direction
    copies: int
    tilt: float
    payoff: Payoff = field(default=ALONE, kw_only=True)
    kind = "placed"

    def __post_init__(self) -> None:
        if (self.direction == "remove" and self.tilt < 1) or (self.direction == "add" and self.tilt >= 0):
            raise ValueError(f"tilt is {self.tilt}, but it must be at least 1 for `remove` and below 0 for `add`.")
        if not countable(self.pair, self.copies):
            raise ValueError(f"copies is {self.copies}, but tuples of so many places are not counted.")

    @property
    def power(self) -> int:
        """k: the number of copies."""
        return self.copies

    @property
    def scale(self) -> float:
        """t: the tilt."""
        return self.tilt

    @property
    def log_constant(self) -> float:
        """Logarithm of M: the total weight of all tuples."""
        return self._counted[1]

    def log_bound(self, epsilon: float) -> float:
        """Return log M + the largest log of (R - e^eps) R^-a, or of (1 - e^eps R) R^a, a the order."""
        a = self.copies * abs(self.tilt)
        if self.direction == "remove":
            return self.log_constant - (a - 1) * epsilon + self.payoff.log_peak(a - 1)
        return self.log_constant - a * epsilon + self.payoff.log_peak(a)

    @property
    def rounding(self) -> float:
        """h: errors of log R, of log F and of log M, which is that of weights."""
        return super().rounding + self._error_of_weights

    @property
    def distance(self) -> float:
        """Probability that a drawn sample is not close to one of its exact law."""
        return min(super().distance + self._error_of_weights, 1.0)

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        rows = self.pair.noise(key, chunk)
        samples, times, weights = self.draw_places(key, chunk)
        self.pair.filter.add_columns(rows, samples, times, self.tilt * weights)
        return self.pair.filter.scores(rows)

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores and log R."""
        log_mean = log_ratio if self.tilt == 1.0 else self.pair.log_means(scores, self.tilt)
        return self.copies * log_mean - self.log_constant

    def draw_places(self, key: Key, chunk: int) -> Participations:
        """Return all participations in a chunk of tuples."""
        count, n, cycle = self.samples_in_chunk, self.pair.strategy.iterations, self.pair.cycle
        uniform = uniforms(KeyedWords(key.derive("places")).take(chunk, 2 * count)).reshape(2, count)
        blocks = np.searchsorted(self._cumulative, uniform[0], side="right")
        blocks = np.minimum(blocks, self._cumulative.size - 1)
        own, shared = self._terms
        places = _places_of(blocks, uniform[1], own, shared, self.copies, _sequences(own.size, self.copies))
        samples, chosen = np.repeat(np.arange(count), self.copies), places.reshape(-1)
        turns = np.arange(-(-n // cycle)) * cycle
        times = chosen[:, None] + turns
        kept = (times < n) & (chosen < self.pair.places.within)[:, None]
        return Participations(np.repeat(samples, kept.sum(axis=1)), times[kept], np.ones(int(kept.sum())))

    @cached_property
    def _terms(self) -> tuple[FloatArray, FloatArray]:
        """What weighs a place, and two places of a tuple, as logarithms."""
        places, t = self.pair.places, self.tilt
        gram = places.gram
        return places.log_chances + (t * t - t) / 2 * np.diag(gram), t * t * gram

    @cached_property
    def _counted(self) -> tuple[FloatArray, float]:
        """Sums of weights over the last place of tuples, for all others, relative to M; and the logarithm of M."""
        own, shared = self._terms
        k = self.copies
        highest = float(k * own.max() + k * (k - 1) / 2 * shared.max()) + math.lgamma(k + 1)
        sums = np.empty(int(_sequences(own.size, k)[0, k - 1]))
        _count(own, shared, k, highest, sums)
        total = float(sums.sum())
        return sums / total, math.log(total) + highest

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self._counted[0])

    @property
    def _error_of_weights(self) -> float:
        """A bound on the relative error of the weight of a tuple, and of a sum of weights."""
        n, largest = self.pair.strategy.iterations, float(self.pair.places.gram.max())
        turns, order = self.pair.law.most_participations(n), self.copies * max(abs(self.tilt), 1.0)
        of_gram = 8 * math.log2(2 * n) + 3 * n + turns**2
        return 2 * _UNIT * ((of_gram + 10 * self.copies**2) * order**2 * largest + n + 2 * math.log2(MOST_TUPLES) + 100)

    @classmethod
    def read(
        cls, description: Description, pair: Pair, direction: Direction, payoff: Payoff = ALONE
    ) -> "PlacedLaw | None":
        """Return the law of a pair and direction that gave a description; None unless there is exactly such a law."""
        match description:
            case {"kind": cls.kind, "copies": int() as copies, "tilt": float() as tilt, **rest} if (
                not rest and (phases := pair.phases) is not None and countable(phases, copies)
            ):
                if math.isfinite(tilt) and (tilt >= 1 if direction == "remove" else tilt < 0):
                    return cls(phases, direction, copies, tilt, payoff=payoff)
        return None

    @classmethod
    def in_words(cls, description: Description) -> str:
        """Return what is drawn, in words."""
        match description:
            case {"copies": copies, "tilt": tilt}:
                return f"a tilted law ({copies} cop{'y' if copies == 1 else 'ies'}, tilt {tilt:.3g})"
        return super().in_words(description)

    def describe(self) -> Description:
        """Return the law as plain data."""
        return {"kind": self.kind, "copies": self.copies, "tilt": self.tilt}


def countable(pair: BallsInBinsPair, copies: int, most: int = MOST_TUPLES) -> bool:
    """Return whether all tuples of so many places are counted."""
    if not 1 <= copies <= MOST_COPIES:
        return False
    return math.comb(pair.places.log_chances.size + copies - 1, copies) <= most


def best_placed(
    pair: BallsInBinsPair,
    direction: Direction,
    epsilon: float,
    enough: float = 0.0,
    payoff: Payoff = ALONE,
    most: int = MOST_TUPLES,
) -> PlacedLaw:
    """Return the placed law of least bound. The choice depends on no sample.

    Args:
        enough: A bound that ends the search.
        most: The most tuples that are counted.
    """
    lowest = 1.0 if direction == "remove" else 0.05
    best = _best_tilt(pair, direction, 1, epsilon, (lowest, _LARGEST_TILT), payoff)
    for copies in range(2, MOST_COPIES + 1):
        if math.exp(min(best.log_bound(epsilon), 0.0)) <= enough or not countable(pair, copies, most):
            break
        # With more copies the best tilt is smaller, and the order hardly larger.
        around = max(0.5 * abs(best.tilt), lowest), max(abs(best.tilt), 1.5 * lowest)
        found = _best_tilt(pair, direction, copies, epsilon, around, payoff)
        if found.log_bound(epsilon) >= best.log_bound(epsilon):
            break
        best = found
    return best


def _best_tilt(
    pair: BallsInBinsPair,
    direction: Direction,
    copies: int,
    epsilon: float,
    tilts: tuple[float, float],
    payoff: Payoff,
) -> PlacedLaw:
    sign, (lowest, highest) = (1.0 if direction == "remove" else -1.0), tilts

    @cache
    def law(tilt: float) -> PlacedLaw:
        return PlacedLaw(pair, direction, copies, sign * round(tilt, 4), payoff=payoff)

    def bound(tilt: float) -> float:
        value = law(tilt).log_bound(epsilon)
        return value if math.isfinite(value) else 1e300

    tolerance = 0.04 * (highest - lowest)  # the bound is flat around its minimum
    found = optimize.minimize_scalar(bound, bounds=tilts, method="bounded", options={"xatol": tolerance})
    ends = [lowest] if lowest == 1.0 else []
    return law(min([float(found.x), *ends], key=bound))


@lru_cache(maxsize=32)
def _sequences(places: int, copies: int) -> IntegerArray:
    """Return the numbers of increasing sequences: entry (p, m) of those of length m from place p on."""
    table = np.ones((places + 1, copies), dtype=np.int64)
    for p in range(places + 1):
        for m in range(1, copies):
            table[p, m] = math.comb(places - p + m - 1, m) if p < places else 0
    return table


@numba.njit(nogil=True, cache=True)
def _last(own, row, base, highest, first, run, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write the weights of tuples by their last place, which is at least the one before it; return their sum."""
    total = 0.0
    for place in range(first, own.size):
        weight = math.exp(base + own[place] + row[place] - highest)
        if place == first:
            weight /= run + 1
        out[place] = weight
        total += weight
    return total


@numba.njit(nogil=True, cache=True)
def _count(own, shared, copies, highest, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write the weight of all tuples that begin with each sequence of all places but the last, in increasing order."""
    size, depth = own.size, copies - 1
    taken = np.zeros(depth, dtype=np.int64)
    rows = np.zeros((depth + 1, size))  # what the places before weigh with each place
    bases, runs = np.zeros(depth + 1), np.zeros(depth + 1)
    out = np.empty(size)
    bases[0] = math.lgamma(copies + 1.0)
    level, found = 0, 0
    while True:
        while level < depth:
            place = taken[level]
            again = level > 0 and taken[level - 1] == place
            runs[level + 1] = runs[level] + 1 if again else 1
            bases[level + 1] = bases[level] + own[place] + rows[level, place] - math.log(runs[level + 1])
            for other in range(size):
                rows[level + 1, other] = rows[level, other] + shared[place, other]
            level += 1
            if level < depth:
                taken[level] = place
        first = taken[depth - 1] if depth > 0 else 0
        sums[found] = _last(own, rows[depth], bases[depth], highest, first, runs[depth], out)
        found += 1
        while level > 0 and taken[level - 1] == size - 1:
            level -= 1
        if level == 0:
            return
        taken[level - 1] += 1
        level -= 1


@numba.njit(nogil=True, cache=True)
def _places_of(blocks, uniform, own, shared, copies, sequences):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the places of tuples: those of the numbered sequences, and a last one drawn by its weight."""
    size, depth = own.size, copies - 1
    places = np.empty((blocks.size, copies), dtype=np.int64)
    out, row = np.empty(size), np.empty(size)
    for sample in range(blocks.size):
        rank, place = blocks[sample], 0
        row[:] = 0.0
        run = 0.0
        for level in range(depth):
            before = place
            # Sequences that begin with this place are followed by those that begin with the next.
            while rank >= sequences[place, depth - level - 1]:
                rank -= sequences[place, depth - level - 1]
                place += 1
            run = run + 1 if level > 0 and place == before else 1.0
            places[sample, level] = place
            for other in range(size):
                row[other] += shared[place, other]
        first = place if depth > 0 else 0
        highest = -np.inf
        for other in range(first, size):
            highest = max(highest, own[other] + row[other])
        wanted = uniform[sample] * _last(own, row, 0.0, highest, first, run, out)
        last = first
        while last < size - 1 and wanted >= out[last]:
            wanted -= out[last]
            last += 1
        places[sample, depth] = last
    return places
