"""Dominating pairs: the laws P (the example takes part) and Q (it does not) whose divergence is the privacy loss.

By the reductions of the paper it is enough to look at y = C x + z in one dimension, with z normal and x the random
participation of one example: P is the law of y, and Q that of z. A pair draws samples in numbered chunks and computes
their log likelihood ratios, log P/Q.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from minsep.accounting.directions import Direction
from minsep.accounting.pairs.filters import Filter, filter_of, scratch
from minsep.accounting.pairs.negative_moments import NegativeMoments
from minsep.accounting.pairs.tangents import Tangent, tangent_of
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.participation.renewal import RenewalLaw
from minsep.participation.times import draw_times
from minsep.randomness import Key, KeyedWords, add_keyed_normals
from minsep.strategy import Strategy

if TYPE_CHECKING:
    from minsep.accounting.pairs.allocation import AllocationPair
    from minsep.accounting.pairs.cyclic import BallsInBinsPair
    from minsep.accounting.pairs.min_sep import MinSepPair

# Values of a chunk: few enough for a processor's cache, enough to make a chunk worth its overhead.
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
        """Whether the computed log P/Q may be larger than the true one, which is sound for `remove` alone."""
        return False

    @property
    def stronger_adversary(self) -> bool:
        """Whether the pair is that of an adversary who sees more than there is to see."""
        return False

    @property
    def columns_moved(self) -> int:
        """By how many columns one participation can move a sample, or a log ratio be moved by one."""
        return 1

    @property
    def vectors(self) -> int:
        """Number of participation vectors that a sample of P is moved by."""
        return 1

    @property
    def error_of_other_draws(self) -> float:
        """Chance that what is drawn besides normals and participations is not as its law says."""
        return 0.0

    @property
    def scored(self) -> "ParticipationPair | None":
        """The pair as one whose log P/Q follows from the scores of a sample; None if it is not."""
        return None

    @property
    def tiltable(self) -> "TiltablePair | None":
        """The pair as one that has tilted laws; None if it has none."""
        return None

    @property
    def allocation(self) -> "AllocationPair | None":
        """The pair as one of independent epochs, which has allocated laws; None if it has none."""
        return None

    @property
    def phases(self) -> "BallsInBinsPair | None":
        """The pair as one of a few participation vectors, which has placed laws; None if it has none."""
        return None

    @property
    def moments(self) -> NegativeMoments | None:
        """Bounds on the moments of Q/P under Q; None where none are known."""
        return None

    def tangent(self, distance: float) -> Tangent | None:
        """Return a plane below log P/Q that touches it so far from 0; None where none is known."""
        return None

    def shortened(self) -> "tuple[Pair, float]":
        """Return a pair whose separation is at most the run, and its share in this pair (`reduction`)."""
        return self, 1.0

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
        """Return a chunk of normals in rows that are good until the next chunk."""
        shape = (self.samples_in_chunk // 2, 2 * self.filter.length)
        rows = scratch.zeros("rows", shape, np.dtype(self.dtype))
        add_keyed_normals(rows, 2 * self.strategy.iterations, self.noise_multiplier, key.derive("noise"), chunk)
        return rows

    def times(self, key: Key, chunk: int) -> tuple[IntegerArray, IntegerArray]:
        """Return (sample, time) of all participations in a chunk of samples from P."""
        words = KeyedWords(key.derive("times"))
        return draw_times(self.law, self.strategy.iterations, self.samples_in_chunk, words, chunk)

    def rows_of(self, samples: NDArray[np.floating]) -> Rows:
        """Put one sample a row into two samples a row."""
        count = samples.shape[0] + samples.shape[0] % 2
        rows = np.zeros((count // 2, 2 * self.filter.length), dtype=self.dtype)
        for k, sample in enumerate(samples):
            rows[k // 2, k % 2 : 2 * self.strategy.iterations : 2] = sample
        return rows


@dataclass(frozen=True)
class ParticipationPair(Pair):
    """A pair whose P is the law of C x + z, and whose Q is that of z."""

    @property
    def scored(self) -> "ParticipationPair":
        """The pair itself."""
        return self

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
        """Return by how many columns each participation moves a sample: one, unless a pair says otherwise."""
        return np.ones(count)


class Drift(NamedTuple):
    """A shift C m of samples: m, the scores of C m, and |C m|^2 / sigma^2."""

    means: FloatArray
    scores: FloatArray
    squared: float


@dataclass(frozen=True)
class TiltablePair(ParticipationPair):
    """A pair with tilted laws: x is a sum of independent copies of one b-min-sep vector."""

    @property
    def tiltable(self) -> "TiltablePair":
        """The pair itself."""
        return self

    def tangent(self, distance: float) -> Tangent | None:
        """Return a plane below log P/Q that touches it so far from 0; None where none is known."""
        tangent = tangent_of(self.single, distance)
        return None if tangent is None else tangent.of_several(self.vectors)

    @property
    @abstractmethod
    def single(self) -> "MinSepPair":
        """The pair of one copy, of which tuples are drawn."""

    @property
    @abstractmethod
    def mean_participation(self) -> FloatArray:
        """Expected number of columns that a sample of P is moved by in each iteration."""

    @cached_property
    def drift(self) -> "Drift":
        """The expected participation, as a shift of samples."""
        n = self.strategy.iterations
        means = self.mean_participation
        rows = np.zeros((1, 2 * self.filter.length), dtype=self.dtype)
        self.filter.add_columns(rows, np.zeros(n, dtype=np.int64), np.arange(n), means)
        scores = self.filter.scores(rows)[0, : 2 * n : 2].astype(np.float64)
        return Drift(means, scores, float(means @ scores))

    @abstractmethod
    def log_means(self, scores: Rows, linear: float, quadratic: float, weight: float = 1.0) -> FloatArray:
        """Return log E_x of weight^|x| exp(linear <C x, y>/s2 - quadratic |C x|^2/(2 s2)): log P/Q when all are 1."""

    def log_ratios_of_scores(self, scores: Rows) -> FloatArray:
        """Return log P/Q of samples by their scores."""
        return self.log_means(scores, 1.0, 1.0)

    def moved_noise(
        self, key: Key, chunk: int, samples: IntegerArray, times: IntegerArray, weights: FloatArray
    ) -> Rows:
        """Return a chunk of noise, with columns added."""
        rows = self.noise(key, chunk)
        self.filter.add_columns(rows, samples, times, weights)
        return rows
