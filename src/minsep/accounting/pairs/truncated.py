"""b-min-sep participation with truncated batches."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minsep.accounting.directions import Direction
from minsep.accounting.pairs.base import Pair
from minsep.accounting.pairs.kernels import add_survival, min_sep_log_ratios
from minsep.accounting.pairs.other_batches import draw_batch_sizes
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.participation.renewal import RenewalLaw
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import uniforms


@dataclass(frozen=True)
class TruncatedPair(Pair):
    """b-min-sep sampling with batches truncated to `batch_size`, for an adversary who sees how many others are in each.

    P moves by one column, or by two if the batch is truncated and the example survives; Q moves by minus one in the
    latter case and otherwise not at all (the corollary of the paper's appendix on truncation). Given the numbers r of
    other examples, P and Q each have a recursion against a centred normal, and P/Q is their ratio. `bands <= min_sep`.
    """

    prob: float = 1.0
    min_sep: int = 1
    warm: bool = False
    batch_size: int = 1
    num_examples: int = 1

    @property
    def law(self) -> RenewalLaw:
        """Law of the times at which the example is sampled."""
        return RenewalLaw.min_sep(self.prob, self.min_sep, self.warm)

    @property
    def no_participation(self) -> float:
        """0, because Q moves too: `add` is never free."""
        return 0.0

    @property
    def stronger_adversary(self) -> bool:
        """True: the adversary sees the number of other examples in each batch."""
        return True

    @property
    def columns_moved(self) -> int:
        """3: P moves by two columns, and Q by one in the opposite direction."""
        return 3

    @property
    def error_of_other_draws(self) -> float:
        """The assumed inaccuracy of the binomial generator behind the numbers of other examples."""
        return 3e-13 * self.strategy.iterations

    def survival(self, others: IntegerArray) -> FloatArray:
        """Return the probability of surviving in a batch with that many other examples."""
        return np.minimum(1.0, self.batch_size / (others + 1.0))

    def log_ratios_given(self, samples: ArrayLike, others: ArrayLike) -> FloatArray:
        """Return log P/Q of given samples, one per row, each with its numbers of other examples."""
        samples = np.asarray(samples)
        rows, survival = self.rows_of(samples), self.rows_of(self.survival(np.asarray(others)))
        return self._log_ratio_of(rows, survival)[: samples.shape[0]]

    def draw_log_ratios(self, direction: Direction, key: Key, chunk: int) -> FloatArray:
        """Return log P/Q of the samples of a chunk: from P for `remove`, from Q for `add`."""
        key = key.derive(direction)
        rows = self.noise(key, chunk)
        others = draw_batch_sizes(
            self.num_examples - 1, self.prob, self.min_sep, self.warm, self.strategy.iterations,
            self.samples_in_chunk, key.derive("others"), chunk,
        )  # fmt: skip
        survival = self.survival(others)
        examples, times = self.times(key, chunk)
        kept = survival[examples, times]
        survives = uniforms(KeyedWords(key.derive("survival")).take(chunk, times.size)) < kept
        cut, whole = (2.0, 1.0) if direction == "remove" else (-1.0, 0.0)
        self.filter.add_columns(rows, examples, times, np.where(kept < 1, np.where(survives, cut, 0.0), whole))
        return self._log_ratio_of(rows, self.rows_of(survival))

    def _log_ratio_of(self, rows: Rows, survival: Rows) -> FloatArray:
        scores = self.filter.scores(rows).astype(np.float64)
        return self._recursion(scores, survival, 1.0, 2.0) - self._recursion(scores, survival, 0.0, -1.0)

    def _recursion(self, scores: FloatArray, survival: Rows, whole: float, cut: float) -> FloatArray:
        gains = scores.copy()
        add_survival(gains, self.half_norms, survival, whole, cut)
        offsets = np.full(self.strategy.iterations, math.log(self.prob))
        ratios: FloatArray = min_sep_log_ratios(gains, offsets, self.law.log_miss, self.min_sep, self.warm)
        return ratios
