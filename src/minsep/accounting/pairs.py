"""Dominating pairs: the laws P (the example takes part) and Q (it does not) whose divergence is the privacy loss.

By the reductions of the paper it is enough to look at y = C x + z in one dimension, with z normal and x the random
participation of one example: P is the law of y, and Q that of z. A pair draws samples in numbered chunks and computes
their log likelihood ratios, log P/Q.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from minsep.accounting.filters import Filter, Rows, filter_of, scratch
from minsep.accounting.others import draw_batch_sizes
from minsep.accounting.recursion import add_multiplicities, add_survival, cyclic_log_ratios, min_sep_log_ratios
from minsep.participation.renewal import RenewalLaw
from minsep.participation.times import draw_times
from minsep.randomness import Key, KeyedWords, add_keyed_normals
from minsep.strategy import Strategy

FloatArray = NDArray[np.float64]
IntegerArray = NDArray[np.int64]
Direction = Literal["remove", "add"]
DIRECTIONS: tuple[Direction, Direction] = ("remove", "add")

# Values of a chunk: few enough for a processor's cache, enough to make a chunk worth its overhead.
_CHUNK_VALUES = 1 << 19


@dataclass(frozen=True)
class Pair(ABC):
    """A dominating pair for one strategy and noise multiplier."""

    strategy: Strategy
    noise_multiplier: float
    dtype: DTypeLike = np.float64

    upper_bound = False
    """Whether `log_ratios` may be larger than log P/Q, which is sound for `remove` alone."""

    @property
    @abstractmethod
    def law(self) -> RenewalLaw:
        """Law of the example's participation times."""

    @property
    @abstractmethod
    def no_participation(self) -> float:
        """Probability that the example never takes part; P/Q is nowhere smaller."""

    @abstractmethod
    def _log_ratios(self, rows: Rows) -> FloatArray:
        """Return log P/Q of samples in rows, which may be overwritten."""

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together: even, and a function of the number of iterations alone."""
        return min(max(_CHUNK_VALUES // self.strategy.iterations // 2 * 2, 8), 1024)

    def log_ratios(self, samples: ArrayLike) -> FloatArray:
        """Return log P/Q of given samples, one in each row."""
        samples = np.asarray(samples)
        return self._log_ratios(self._rows_of(samples))[: samples.shape[0]]

    def draw_log_ratios(self, direction: Direction, key: Key, chunk: int) -> FloatArray:
        """Return log P/Q of the samples of a chunk: from P for `remove`, from Q for `add`."""
        if self.upper_bound and direction == "add":
            raise ValueError("An upper bound on P/Q says nothing about `add`.")
        key = key.derive(direction)
        rows = self._noise(key, chunk)
        if direction == "remove":
            self._filter.add_columns(rows, *self.participations(key, chunk))
        return self._log_ratios(rows)

    def _weights(self, count: int, key: Key, chunk: int) -> FloatArray:
        """Return by how many columns each participation moves a sample."""
        return np.ones(count)

    def participations(self, key: Key, chunk: int) -> tuple[IntegerArray, IntegerArray, FloatArray]:
        """Return (sample, time, number of columns) of all participations in a chunk of samples from P."""
        examples, times = self._times(key, chunk)
        return examples, times, self._weights(times.size, key, chunk)

    def _times(self, key: Key, chunk: int) -> tuple[IntegerArray, IntegerArray]:
        words = KeyedWords(key.derive("times"))
        return draw_times(self.law, self.strategy.iterations, self.samples_in_chunk, words, chunk)

    def _noise(self, key: Key, chunk: int) -> Rows:
        shape = (self.samples_in_chunk // 2, 2 * self._filter.length)
        rows = scratch.zeros("rows", shape, np.dtype(self.dtype))
        add_keyed_normals(rows, 2 * self.strategy.iterations, self.noise_multiplier, key.derive("noise"), chunk)
        return rows

    def _rows_of(self, samples: NDArray[np.floating]) -> Rows:
        """Put one sample a row into two samples a row."""
        count = samples.shape[0] + samples.shape[0] % 2
        rows = np.zeros((count // 2, 2 * self._filter.length), dtype=self.dtype)
        for k, sample in enumerate(samples):
            rows[k // 2, k % 2 : 2 * self.strategy.iterations : 2] = sample
        return rows

    @cached_property
    def _filter(self) -> Filter:
        return filter_of(self.strategy, self.noise_multiplier**-2, np.dtype(self.dtype))

    @cached_property
    def _half_norms(self) -> FloatArray:
        """Squared column norms over twice the variance."""
        return self.strategy.column_norms**2 / (2 * self.noise_multiplier**2)


@dataclass(frozen=True)
class MinSepPair(Pair):
    """b-min-sep participation (the main recursion of the paper, and its corollary for the warm start).

    With `group` > 1 the example stands for a user whose `group` examples are each sampled with probability `prob`
    (cold start only). Poisson sampling is `min_sep=1`. Exact when `bands <= min_sep`; otherwise the r-min-sep
    recursion of the paper's appendix, an upper bound.
    """

    prob: float = 1.0
    min_sep: int = 1
    warm: bool = False
    group: int = 1

    def __post_init__(self) -> None:
        if self.warm and self.group > 1:
            raise ValueError(f"group is {self.group}, but a warm start is known for single examples only.")

    @property
    def log_miss(self) -> float:
        """Logarithm of the probability that nobody of the group is sampled in an iteration."""
        return self.group * _log_miss(self.prob)

    @property
    def upper_bound(self) -> bool:  # type: ignore[override]
        """Whether columns of two participations may overlap: the recursion leaves their inner products out."""
        return self.strategy.bands > self.min_sep

    @property
    def law(self) -> RenewalLaw:
        """Law of the times at which at least one example of the group takes part."""
        hit = -math.expm1(self.group * _log_miss(self.prob))
        phases, first = (self.min_sep, 1 / (1 + (self.min_sep - 1) * hit)) if self.warm else (1, 1.0)
        return RenewalLaw(prob=hit, rest=self.min_sep - 1, phases=phases, first_phase=first)

    @property
    def no_participation(self) -> float:
        """Probability that the example never takes part."""
        n, b = self.strategy.iterations, self.min_sep
        miss = 1 - self.law.prob
        if not self.warm:
            return float(miss**n)
        soon = min(b - 1, n)  # barred for longer than the run means never taking part
        barred = float((miss ** (n - np.arange(1.0, soon + 1))).sum()) + (b - 1 - soon)
        return float((miss**n + self.prob * barred) / (1 + (b - 1) * self.prob))

    def _log_ratios(self, rows: Rows) -> FloatArray:
        return self.log_means(self._filter.scores(rows), 1.0, 1.0)

    def log_means(self, scores: Rows, linear: float, quadratic: float, weight: float = 1.0) -> FloatArray:
        """Return log E_x of weight^|x| exp(linear <C x, y>/s2 - quadratic |C x|^2/(2 s2)): log P/Q when all are 1."""
        log_miss = self.log_miss
        if self.group > 1:
            several = linear * scores.astype(np.float64)
            add_multiplicities(several, quadratic * self._half_norms, self.log_multiplicities + math.log(weight))
            return min_sep_log_ratios(several, np.zeros(self._half_norms.size), log_miss, self.min_sep, self.warm)
        offsets = math.log(self.prob * weight) - quadratic * self._half_norms
        gains = scores if linear == 1.0 else scores * scores.dtype.type(linear)
        return min_sep_log_ratios(gains, offsets, log_miss, self.min_sep, self.warm)

    def scores_of(self, rows: Rows) -> Rows:
        """Return the scores of samples in rows, which may be overwritten."""
        return self._filter.scores(rows)

    def moved_noise(
        self, key: Key, chunk: int, samples: IntegerArray, times: IntegerArray, weights: FloatArray
    ) -> Rows:
        """Return a chunk of noise, with columns added."""
        rows = self._noise(key, chunk)
        self._filter.add_columns(rows, samples, times, weights)
        return rows

    def _weights(self, count: int, key: Key, chunk: int) -> FloatArray:
        cumulative = np.cumsum(np.exp(self.log_multiplicities))
        uniform = uniforms(KeyedWords(key.derive("weights")).take(chunk, count))
        extra = np.searchsorted(cumulative[:-1], uniform * cumulative[-1], side="right")
        return np.asarray(1.0 + extra)

    @cached_property
    def log_multiplicities(self) -> FloatArray:
        """Logarithms of Pr[Binomial(group, prob) = j] for j = 1, ..., group."""
        j = np.arange(1, self.group + 1)
        log_ways = np.array([math.log(math.comb(self.group, int(k))) for k in j])
        return np.asarray(log_ways + j * math.log(self.prob) + _times_log_miss(self.group - j, self.prob))


@dataclass(frozen=True)
class CyclicPair(Pair):
    """Cyclic Poisson sampling with a uniform phase that the adversary does not know; `bands <= cycle`."""

    prob: float = 1.0
    cycle: int = 1

    @property
    def law(self) -> RenewalLaw:
        """Law of the participation times: a uniform phase, and whole cycles between."""
        return RenewalLaw(prob=self.prob, stride=self.cycle, phases=self.cycle, first_phase=1 / self.cycle)

    @property
    def no_participation(self) -> float:
        """Probability that the example never takes part."""
        turns, longer = divmod(self.strategy.iterations, self.cycle)
        miss = 1 - self.prob
        return (longer * miss ** (turns + 1) + (self.cycle - longer) * miss**turns) / self.cycle

    def _log_ratios(self, rows: Rows) -> FloatArray:
        ratios: FloatArray = cyclic_log_ratios(
            self._filter.scores(rows),
            math.log(self.prob) - self._half_norms,
            _log_miss(self.prob),
            self.cycle,
            self._overlaps,
        )
        return ratios

    @cached_property
    def _overlaps(self) -> FloatArray:
        """Minus what columns of one participation vector have in common, over the variance, for each phase."""
        return np.zeros(min(self.cycle, self.strategy.iterations))


@dataclass(frozen=True)
class BallsInBinsPair(CyclicPair):
    """Balls-in-bins sampling, exact with any strategy: there is one participation vector for each phase."""

    @cached_property
    def _overlaps(self) -> FloatArray:
        shared = np.zeros(min(self.cycle, self.strategy.iterations))
        for lag in range(self.cycle, self.strategy.bands, self.cycle):
            products = self.strategy.gram(lag)
            np.add.at(shared, np.arange(products.size) % self.cycle, products)
        return -shared / self.noise_multiplier**2


@dataclass(frozen=True)
class TruncatedPair(Pair):
    """b-min-sep sampling with batches cut to `batch_size`, for an adversary who sees the others' batch sizes.

    P moves by one column, or by two where the batch is cut and the example survives; Q by minus one in the latter case
    and else not at all (the corollary of the paper's appendix on truncation). Given the others' batch sizes r, P and Q
    have recursions of their own against a centred normal, and P/Q is their ratio. `bands <= min_sep`.
    """

    prob: float = 1.0
    min_sep: int = 1
    warm: bool = False
    batch_size: int = 1
    num_examples: int = 1

    @property
    def law(self) -> RenewalLaw:
        """Law of the times at which the example is sampled."""
        return self._whole.law

    @property
    def no_participation(self) -> float:
        """0, because Q moves as well: `add` is never free."""
        return 0.0

    def survival(self, others: IntegerArray) -> FloatArray:
        """Return the probability to survive in a batch with so many others."""
        return np.minimum(1.0, self.batch_size / (others + 1.0))

    def log_ratios_given(self, samples: ArrayLike, others: ArrayLike) -> FloatArray:
        """Return log P/Q of given samples, one in each row, and the others' batch sizes beside each."""
        samples = np.asarray(samples)
        rows, survival = self._rows_of(samples), self._rows_of(self.survival(np.asarray(others)))
        return self._log_ratio_of(rows, survival)[: samples.shape[0]]

    def draw_log_ratios(self, direction: Direction, key: Key, chunk: int) -> FloatArray:
        """Return log P/Q of the samples of a chunk: from P for `remove`, from Q for `add`."""
        key = key.derive(direction)
        rows = self._noise(key, chunk)
        others = draw_batch_sizes(
            self.num_examples - 1, self.prob, self.min_sep, self.warm, self.strategy.iterations,
            self.samples_in_chunk, key.derive("others"), chunk,
        )  # fmt: skip
        survival = self.survival(others)
        examples, times = self._times(key, chunk)
        kept = survival[examples, times]
        survives = uniforms(KeyedWords(key.derive("survival")).take(chunk, times.size)) < kept
        cut, whole = (2.0, 1.0) if direction == "remove" else (-1.0, 0.0)
        self._filter.add_columns(rows, examples, times, np.where(kept < 1, np.where(survives, cut, 0.0), whole))
        return self._log_ratio_of(rows, self._rows_of(survival))

    def _log_ratios(self, rows: Rows) -> FloatArray:
        raise ValueError("The log ratio of a truncated mechanism needs the others' batch sizes: log_ratios_given.")

    def _log_ratio_of(self, rows: Rows, survival: Rows) -> FloatArray:
        scores = self._filter.scores(rows).astype(np.float64)
        return self._recursion(scores, survival, 1.0, 2.0) - self._recursion(scores, survival, 0.0, -1.0)

    def _recursion(self, scores: NDArray[np.float64], survival: Rows, whole: float, cut: float) -> FloatArray:
        gains = scores.copy()
        add_survival(gains, self._half_norms, survival, whole, cut)
        offsets = np.full(self.strategy.iterations, math.log(self.prob))
        ratios: FloatArray = min_sep_log_ratios(gains, offsets, _log_miss(self.prob), self.min_sep, self.warm)
        return ratios

    @cached_property
    def _whole(self) -> MinSepPair:
        """The same without truncation."""
        return MinSepPair(
            self.strategy, self.noise_multiplier, self.dtype, prob=self.prob, min_sep=self.min_sep, warm=self.warm
        )


def uniforms(words: NDArray[np.uint64]) -> FloatArray:
    """Return numbers in [0, 1) from words."""
    return np.asarray((words >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def _log_miss(prob: float) -> float:
    return math.log1p(-prob) if prob < 1 else -math.inf


def _times_log_miss(counts: IntegerArray, prob: float) -> FloatArray:
    """Return counts * log(1 - prob), with 0 * -inf = 0."""
    return np.where(counts > 0, counts * _log_miss(prob), 0.0) if prob < 1 else np.where(counts > 0, -np.inf, 0.0)
