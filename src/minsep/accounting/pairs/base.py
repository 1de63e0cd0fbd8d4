"""Dominating pairs: the laws P (the example takes part) and Q (it does not) whose divergence is the privacy loss.

By the reductions of the paper it is enough to look at y = C x + z in one dimension, with z normal and x the random
participation of one example: P is the law of y, and Q that of z. A pair draws samples in numbered chunks and computes
their log likelihood ratios, log P/Q.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from minsep.accounting.directions import Direction
from minsep.accounting.pairs.filters import Filter, filter_of, scratch
from minsep.arrays import FloatArray, IntegerArray, Rows
from minsep.participation.renewal import RenewalLaw
from minsep.participation.times import draw_times
from minsep.randomness import Key, KeyedWords, add_keyed_normals
from minsep.strategy import Strategy

# Values per chunk: few enough for a processor's cache, enough to be worth the overhead of a chunk.
_CHUNK_VALUES = 1 << 19


@dataclass(frozen=True)
class Pair(ABC):
    """A dominating pair for one strategy and noise multiplier, with samples of one precision."""

    strategy: Strategy
    noise_multiplier: float
    dtype: DTypeLike = np.float64

    @property
    @abstractmethod
    def law(self) -> RenewalLaw:
        """Law of the example's participation times."""

    @property
    @abstractmethod
    def no_participation(self) -> float:
        """Probability that the example never takes part; P/Q is nowhere smaller."""

    @abstractmethod
    def draw_log_ratios(self, direction: Direction, key: Key, chunk: int) -> FloatArray:
        """Return log P/Q of the samples of a chunk: from P for `remove`, from Q for `add`."""

    @property
    def upper_bound(self) -> bool:
        """Whether the computed log P/Q may be larger than the true one, which is sound only for `remove`."""
        return False

    @property
    def stronger_adversary(self) -> bool:
        """Whether the pair is for an adversary who sees more than what is released."""
        return False

    @property
    def columns_moved(self) -> int:
        """The number of columns by which one participation can move a sample or a log ratio."""
        return 1

    @property
    def error_of_other_draws(self) -> float:
        """Probability that draws other than normals and participations deviate from their law."""
        return 0.0

    def takes_logarithms(self, largest_gain: float) -> bool:
        """Whether the recursion may work with logarithms, which are rounded in every step."""
        return True

    @property
    def samples_in_chunk(self) -> int:
        """Number of samples drawn together: even, and a function of the number of iterations alone."""
        return min(max(_CHUNK_VALUES // self.strategy.iterations // 2 * 2, 8), 1024)

    @cached_property
    def filter(self) -> Filter:
        """The strategy matrix, ready for samples in rows."""
        return filter_of(self.strategy, self.noise_multiplier**-2, np.dtype(self.dtype))

    @cached_property
    def half_norms(self) -> FloatArray:
        """Squared column norms over twice the variance."""
        return self.strategy.column_norms**2 / (2 * self.noise_multiplier**2)

    def noise(self, key: Key, chunk: int) -> Rows:
        """Return a chunk of normals in rows that are valid until the next chunk."""
        shape = (self.samples_in_chunk // 2, 2 * self.filter.length)
        rows = scratch.zeros("rows", shape, np.dtype(self.dtype))
        add_keyed_normals(rows, 2 * self.strategy.iterations, self.noise_multiplier, key.derive("noise"), chunk)
        return rows

    def times(self, key: Key, chunk: int) -> tuple[IntegerArray, IntegerArray]:
        """Return (sample, time) of all participations in a chunk of samples from P."""
        words = KeyedWords(key.derive("times"))
        return draw_times(self.law, self.strategy.iterations, self.samples_in_chunk, words, chunk)

    def rows_of(self, samples: NDArray[np.floating]) -> Rows:
        """Interleave samples, two per row."""
        count = samples.shape[0] + samples.shape[0] % 2
        rows = np.zeros((count // 2, 2 * self.filter.length), dtype=self.dtype)
        for k, sample in enumerate(samples):
            rows[k // 2, k % 2 : 2 * self.strategy.iterations : 2] = sample
        return rows


@dataclass(frozen=True)
class ParticipationPair(Pair):
    """A pair whose P is the law of C x + z, and whose Q is that of z."""

    @abstractmethod
    def log_ratios_of_scores(self, scores: Rows) -> FloatArray:
        """Return log P/Q of samples by their scores <c_i, y> / sigma^2, in rows."""

    def log_ratios(self, samples: ArrayLike) -> FloatArray:
        """Return log P/Q of given samples, one in each row."""
        samples = np.asarray(samples)
        scores = self.filter.scores(self.rows_of(samples))
        return self.log_ratios_of_scores(scores)[: samples.shape[0]]

    def draw_log_ratios(self, direction: Direction, key: Key, chunk: int) -> FloatArray:
        """Return log P/Q of the samples of a chunk: from P for `remove`, from Q for `add`."""
        if self.upper_bound and direction == "add":
            raise ValueError("An upper bound on P/Q says nothing about `add`.")
        key = key.derive(direction)
        rows = self.noise(key, chunk)
        if direction == "remove":
            self.filter.add_columns(rows, *self.participations(key, chunk))
        return self.log_ratios_of_scores(self.filter.scores(rows))

    def participations(self, key: Key, chunk: int) -> tuple[IntegerArray, IntegerArray, FloatArray]:
        """Return (sample, time, number of columns) of all participations in a chunk of samples from P."""
        samples, times = self.times(key, chunk)
        return samples, times, self.multiplicities(times.size, key, chunk)

    def multiplicities(self, count: int, key: Key, chunk: int) -> FloatArray:
        """Return by how many columns each participation moves a sample: one, unless overridden."""
        return np.ones(count)
