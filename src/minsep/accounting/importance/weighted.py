"""One copy with two free parameters, for estimates."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import Law
from minsep.accounting.importance.tuple_law import TupleLaw
from minsep.accounting.pairs import TiltablePair
from minsep.arrays import FloatArray, Rows
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import uniforms


@dataclass(frozen=True)
class WeightedLaw(Law):
    """One copy with two free parameters, for estimates: y = t C x + z with every participation weighted by theta.

    A fraction of the samples is drawn from P (`remove`) or Q (`add`) instead, so that badly chosen parameters increase
    the standard error instead of misleading. There is no bound on X, and none is needed.
    """

    pair: TiltablePair
    direction: Direction
    scale: float
    weight: float
    defensive: float = 0.1

    @cached_property
    def law(self) -> TupleLaw:
        """Law of one participation vector with every participation weighted."""
        return TupleLaw(self.pair.single, 1, 0.0, 0.0, math.log(self.weight))

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        scores = self.draw_scores(key, chunk)
        log_ratio = self.pair.log_ratios_of_scores(scores)
        return log_ratio, self.log_density(scores, log_ratio)

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores and log R."""
        tilt = self.pair.log_means(scores, self.scale, self.scale**2, self.weight)
        tilt -= self.pair.vectors * self.law.log_constant
        plain = log_ratio if self.direction == "remove" else np.zeros(log_ratio.size)
        return np.logaddexp(math.log(self.defensive) + plain, math.log1p(-self.defensive) + tilt)

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        count = self.samples_in_chunk
        plain = uniforms(KeyedWords(key.derive("defensive")).take(chunk, count)) < self.defensive
        keys = [key, *(key.derive(f"vector {place}") for place in range(1, self.pair.vectors))]
        drawn = [self.law.draw(each, chunk) for each in keys]
        samples, times, weights = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        tilted = ~plain[samples]
        samples, times, weights = samples[tilted], times[tilted], self.scale * weights[tilted]
        if self.direction == "remove":
            others, other_times, other_weights = self.pair.participations(key, chunk)
            kept = plain[others]
            samples, times = np.append(samples, others[kept]), np.append(times, other_times[kept])
            weights = np.append(weights, other_weights[kept])
        return self.pair.filter.scores(self.pair.moved_noise(key, chunk, samples, times, weights))
