"""The law of weighted tuples of participation vectors, drawn exactly."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import logsumexp

from minsep.accounting.importance.tuple_tables import (
    Beginning,
    StateSpace,
    Terms,
    count_states,
    draw_tuples,
    fill_table,
    gram_table,
)
from minsep.accounting.pairs import MinSepPair
from minsep.accounting.pairs.min_sep import log_miss_of
from minsep.arrays import FloatArray, IntegerArray
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import uniforms
from minsep.strategy import Strategy

DEFAULT_MEMORY = 1 << 30
"""Most bytes of a table."""
_MOST_WORK = 2.5e7  # entries of a table times moves: about a second


@dataclass(frozen=True)
class TupleLaw:
    """Tuples of participation vectors, each participation weighted: see `tuple_tables`.

    `own` weighs squared norms, `shared` inner products of two copies, `log_weight` every participation.
    """

    pair: MinSepPair
    copies: int
    own: float
    shared: float
    log_weight: float = 0.0

    @cached_property
    def log_constant(self) -> float:
        """Logarithm of the total weight of all tuples."""
        return self._start_weights(self._filled(full=False))[1]

    def draw(self, key: Key, chunk: int) -> tuple[IntegerArray, IntegerArray, FloatArray]:
        """Return (sample, time, number of columns) of all participations in a chunk of tuples, over all copies."""
        count = self.pair.samples_in_chunk
        words = KeyedWords(key.derive("tuples"))
        starts = np.searchsorted(self._cumulative_starts, uniforms(words.take(2 * chunk, count)), side="right")
        starts = np.minimum(starts, self._cumulative_starts.size - 1)
        _, jumps, places = self._starts
        room = 64 + 8 * count * (1 + self.copies)
        while room <= 256 * count * (self.pair.strategy.iterations + 1) * self.copies:
            source = uniforms(words.take(2 * chunk + 1, room))
            samples, times = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
            weights = np.empty(room)
            begin = Beginning(self._idle, jumps[starts], places[starts])
            found: int = draw_tuples(self._table, self._terms, begin, source, samples, times, weights)
            if found >= 0:
                return samples[:found], times[:found], weights[:found]
            room *= 2  # The first words stay the same, and so do the tuples.
        raise FloatingPointError("A tuple of participations could not be drawn: its table is not finite.")

    @property
    def _space(self) -> StateSpace:
        return _state_space(self.copies, self.pair.min_sep, self.pair.group)

    @cached_property
    def _terms(self) -> Terms:
        pair = self.pair
        log_miss = pair.group * log_miss_of(pair.prob)
        weights = self._space.log_move_weights(pair.log_multiplicities + self.log_weight, log_miss)
        return Terms(_gram_table(pair.strategy), weights, self.own, self.shared, self._space.moves_of_states)

    def _filled(self, *, full: bool) -> FloatArray:
        n = self.pair.strategy.iterations
        rows = n + 1 if full else min(self.pair.min_sep, n) + 1
        table = np.zeros((rows, len(self._space.states)))
        fill_table(table, self._terms)
        return table

    @cached_property
    def _table(self) -> FloatArray:
        return self._filled(full=True)

    def _start_weights(self, table: FloatArray) -> tuple[FloatArray, float]:
        """Return the log weight of each start with all its continuations, and the total."""
        logs, jumps, places = self._starts
        n = self.pair.strategy.iterations
        reached = np.where(jumps < n, table[np.minimum(jumps, n) % table.shape[0], places], 0.0)
        return logs + reached, float(logsumexp(logs + reached))

    @cached_property
    def _starts(self) -> tuple[FloatArray, IntegerArray, IntegerArray]:
        if not self.pair.warm:
            return np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        available = 1 / (1 + (self.pair.min_sep - 1) * self.pair.prob)
        return self._space.starts(available, self.pair.prob * available)

    @cached_property
    def _cumulative_starts(self) -> FloatArray:
        weights, total = self._start_weights(self._table)
        return np.cumsum(np.exp(weights - total))

    @cached_property
    def _idle(self) -> FloatArray:
        """Log probability of no participation before each iteration, from the empty state on."""
        values = self._table[:, 0]
        steps = self._terms.log_weights[self.copies, 0] + values[1:] - values[:-1]
        return np.concatenate([[0.0], np.cumsum(np.minimum(steps, 0.0))])


def affordable(pair: MinSepPair, copies: int, memory: int = DEFAULT_MEMORY) -> bool:
    """Return whether the tables for that many copies fit into the limits on memory and time."""
    n = pair.strategy.iterations
    states = count_states(copies, pair.min_sep, pair.group)
    moves = math.comb(copies + pair.group, copies)
    return 8 * (n + 1) * states <= memory and n * states * moves <= _MOST_WORK * (1 if copies > 2 else 100)


@lru_cache(maxsize=16)
def _state_space(copies: int, min_sep: int, group: int) -> StateSpace:
    """Return the states of that many copies, computed once for all scales and noise multipliers."""
    return StateSpace(copies, min_sep, group)


@lru_cache(maxsize=1)
def _gram_table(strategy: Strategy) -> FloatArray:
    """Return the table of inner products of a strategy; the last one is cached."""
    return gram_table(strategy)
