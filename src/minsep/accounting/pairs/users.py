"""A user with several examples, each of which runs a b-min-sep process of its own."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minsep.accounting.pairs.base import TiltablePair
from minsep.accounting.pairs.min_sep import MinSepPair
from minsep.accounting.pairs.states import cached_gram_table, state_space
from minsep.accounting.pairs.user_kernels import MODERATE_WAIT, UserTerms, user_log_means
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.participation.renewal import RenewalLaw
from minsep.participation.times import draw_times
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import log_miss_of


@dataclass(frozen=True)
class UserPair(TiltablePair):
    """x is the sum of `user_bound` independent b-min-sep vectors: docs/attribution.md.

    Exact for `bands <= min_sep <= iterations`, which is required.
    """

    prob: float = 1.0
    min_sep: int = 1
    warm: bool = False
    user_bound: int = 2

    def __post_init__(self) -> None:
        if not self.strategy.bands <= self.min_sep <= self.strategy.iterations:
            raise ValueError(
                f"min_sep is {self.min_sep}, but for a user with several examples it must be from the bands, "
                f"{self.strategy.bands}, to the iterations, {self.strategy.iterations}."
            )

    @cached_property
    def single(self) -> MinSepPair:
        """The pair of one example."""
        return MinSepPair(
            self.strategy, self.noise_multiplier, self.dtype, prob=self.prob, min_sep=self.min_sep, warm=self.warm
        )

    @property
    def vectors(self) -> int:
        """One for each example of the user."""
        return self.user_bound

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times."""
        return self.single.law

    @property
    def no_participation(self) -> float:
        """Probability that no example of the user ever takes part."""
        return self.single.no_participation**self.user_bound

    @property
    def columns_moved(self) -> int:
        """All examples of the user may take part together."""
        return self.user_bound

    def participations(self, key: Key, chunk: int) -> tuple[IntegerArray, IntegerArray, FloatArray]:
        """Return (sample, time, number of columns) of all participations in a chunk of samples from P."""
        n, count = self.strategy.iterations, self.samples_in_chunk
        words = [KeyedWords(key.derive(f"times of example {example}")) for example in range(self.user_bound)]
        drawn = [draw_times(self.law, n, count, each, chunk) for each in words]
        samples, times = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        return samples, times, np.ones(times.size)

    @property
    def mean_participation(self) -> FloatArray:
        """Expected number of columns that a sample of P is moved by in each iteration."""
        return self.user_bound * self.single.mean_participation

    def log_means(self, scores: Rows, linear: float, quadratic: float, weight: float = 1.0) -> FloatArray:
        """Return log E_x of weight^|x| exp(linear <C x, y>/s2 - quadratic |C x|^2/(2 s2)): log P/Q when all are 1."""
        # With a negative tilt overlaps are gains, which the argument for rescaled numbers does not cover.
        moderate = quadratic >= 0 and -self.user_bound * self.min_sep * log_miss_of(self.prob) <= MODERATE_WAIT
        return user_log_means(scores, self._terms(quadratic, weight), linear, moderate)

    def _terms(self, quadratic: float, weight: float) -> UserTerms:
        space = state_space(self.user_bound, self.min_sep)
        log_prob = np.array([math.log(self.prob * weight)])
        logs, jumps, places = np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        if self.warm:
            available = self.law.first_phase
            logs, jumps, places = space.starts(available, self.prob * available)
        return UserTerms(
            quadratic * self.half_norms,
            self._overlaps * quadratic,
            space.log_move_weights(log_prob, log_miss_of(self.prob)),
            space.moves_of_states,
            self.min_sep + 1,
            logs,
            jumps,
            places,
        )

    @cached_property
    def _overlaps(self) -> FloatArray:
        """Inner products of columns over the variance."""
        return cached_gram_table(self.strategy) / self.noise_multiplier**2
