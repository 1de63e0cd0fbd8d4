"""One law with a few free parameters, for estimates."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import ScoredLaw
from minsep.accounting.importance.interleaved import add_to_samples, inner_products
from minsep.accounting.importance.tuple_law import TupleLaw
from minsep.accounting.pairs import TiltablePair
from minsep.core.arrays import FloatArray, Rows
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import uniforms


@dataclass(frozen=True)
class AdaptedLaw(ScoredLaw):
    """y = C (t x + a m) + s z, where every participation of x is weighted by theta and m is the expected participation.

    With little noise a few participations decide, and t (`scale`) and theta (`weight`) matter. With much noise log P/Q
    is nearly linear, and a (`shift`) matters: many copies of x added up are nearly a multiple of m. Without correlated
    noise, the noise itself may be wider or narrower, by s (`spread`). A fraction of the samples is drawn from P
    (`remove`) or Q (`add`) instead, so that badly chosen parameters increase the standard error instead of misleading.
    There is no bound on X, and none is needed.
    """

    pair: TiltablePair
    direction: Direction
    scale: float
    weight: float
    shift: float = 0.0
    spread: float = 1.0
    defensive: float = 0.1
    kind = "adapted"

    def __post_init__(self) -> None:
        if self.spread != 1.0 and not may_spread(self.pair):
            raise ValueError(f"spread is {self.spread}, but with {self.pair.strategy.bands} bands it must be 1.")

    @cached_property
    def law(self) -> TupleLaw:
        """Law of one participation vector with every participation weighted."""
        return TupleLaw(self.pair.single, 1, 0.0, 0.0, math.log(self.weight))

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their scores and log R.

        Given x, y is normal with variance s^2 sigma^2 around a v + t C x, v = C m, so its density against Q is that of
        y - a v around t C x, times exp(a <v, y>/(s sigma)^2 - a^2 |v|^2/(2 (s sigma)^2)), and a factor of s alone.
        """
        inverse = self.spread**-2
        moved = np.zeros(log_ratio.size)
        if self.shift != 0.0:
            drift = self.pair.drift
            moved += self.shift * inner_products(scores, drift.means) - self.shift**2 * drift.squared / 2
            moved *= inverse
        if self.spread != 1.0:
            moved += self._squared_norms(scores) * (1 - inverse) / 2
            moved -= self.pair.strategy.iterations * math.log(self.spread)
        if self.scale != 0.0:
            rest = scores if self.shift == 0.0 else self._shifted(scores, -self.shift)
            moved += self.pair.log_means(rest, self.scale * inverse, self.scale**2 * inverse, self.weight)
            moved -= self.pair.vectors * self.law.log_constant
        plain = log_ratio if self.direction == "remove" else np.zeros(log_ratio.size)
        return np.logaddexp(math.log(self.defensive) + plain, math.log1p(-self.defensive) + moved)

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        count = self.samples_in_chunk
        plain = uniforms(KeyedWords(key.derive("defensive")).take(chunk, count)) < self.defensive
        parts = []
        if self.scale != 0.0:
            keys = [key, *(key.derive(f"vector {place}") for place in range(1, self.pair.vectors))]
            for samples, times, weights in (self.law.draw(each, chunk) for each in keys):
                kept = ~plain[samples]
                parts.append((samples[kept], times[kept], self.scale * weights[kept]))
        if self.direction == "remove":
            samples, times, weights = self.pair.participations(key, chunk)
            kept = plain[samples]
            parts.append((samples[kept], times[kept], weights[kept]))
        rows = self.pair.noise(key, chunk)
        if self.spread != 1.0:
            factors = np.where(plain, 1.0, self.spread).astype(rows.dtype).reshape(-1, 2)
            rows *= np.tile(factors, rows.shape[1] // 2)
        for part in parts:
            self.pair.filter.add_columns(rows, *part)
        scores = self.pair.filter.scores(rows)
        return scores if self.shift == 0.0 else self._shifted(scores, self.shift, ~plain)

    def _squared_norms(self, scores: Rows) -> FloatArray:
        """Return |y|^2/sigma^2: with one band every score is a multiple of one coordinate of y."""
        to_coordinates = self.pair.noise_multiplier / self.pair.strategy.column_norms
        return inner_products(scores.astype(np.float64) ** 2, to_coordinates**2)

    def _shifted(self, scores: Rows, by: float, which: np.ndarray | None = None) -> Rows:
        """Return scores of samples that are shifted by a multiple of C m: all of them, or some."""
        added = (by * self.pair.drift.scores).astype(scores.dtype)
        shifted = scores.copy()
        add_to_samples(shifted, added, which)
        return shifted


def may_spread(pair: TiltablePair) -> bool:
    """Return whether the noise of an adapted law may be wider or narrower: its norm must follow from the scores."""
    return pair.strategy.bands == 1
