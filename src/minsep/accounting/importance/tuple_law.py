"""The law of weighted tuples of participation vectors, drawn exactly."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from minsep.accounting.importance.tuple_tables import (
    DONE,
    NO_ROOM,
    Beginning,
    Participations,
    Terms,
    draw_tuples,
    fill_scaled_table,
    fill_stays,
    fill_table,
)
from minsep.accounting.pairs import MinSepPair
from minsep.accounting.pairs.grouped_states import GroupedStateSpace, count_grouped_states, grouped_state_space
from minsep.accounting.pairs.states import StateSpace, cached_gram_table, count_states, state_space
from minsep.core.arrays import FloatArray, IntegerArray
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import log_miss_of, uniforms

DEFAULT_MEMORY = 1 << 30
"""Most bytes of a table."""
_MOST_WORK = 2.5e7  # entries of a table times moves: about a second
_MOST_MOVES = 250_000  # of all states: about a second to find where each leads


@dataclass(frozen=True)
class TupleLaw:
    """Tuples of participation vectors, each participation weighted: see `tuple_tables`.

    Args:
        own: What weighs squared norms.
        shared: What weighs inner products of two copies.
        log_weight: What weighs every participation.
        vectors: The number of independent participation vectors of which each copy is the sum.
    """

    pair: MinSepPair
    copies: int
    own: float
    shared: float
    log_weight: float = 0.0
    vectors: int = 1

    @cached_property
    def log_constant(self) -> float:
        """Logarithm of the total weight of all tuples."""
        return self._start_weights(self._filled(full=False))[1]

    def draw(self, key: Key, chunk: int) -> Participations:
        """Return all participations in a chunk of tuples, their columns summed over copies."""
        count = self.pair.samples_in_chunk
        words = KeyedWords(key.derive("tuples"))
        starts = np.searchsorted(self._cumulative_starts, uniforms(words.take(2 * chunk, count)), side="right")
        starts = np.minimum(starts, self._cumulative_starts.size - 1)
        _, jumps, places = self._starts
        begin = Beginning(self._idle, jumps[starts], places[starts])
        drawn = self.copies * self.vectors
        room = 64 + 8 * count * (1 + drawn)
        # A pilot draws one chunk, which does not make up for a table.
        stays = self._stays if chunk > 0 else np.empty((0, 1))
        found, progress = Participations.empty(room), np.zeros(3, dtype=np.int64)
        while room <= 256 * count * (self.pair.strategy.iterations + 1) * drawn:
            first_word = int(progress[1]) & ~1
            source = words.take(2 * chunk + 1, room, first_word)
            outcome = draw_tuples(self._table, stays, self._terms, begin, source, first_word, progress, found)
            if outcome == DONE:
                return found.first(int(progress[2]))
            room *= 2
            if outcome == NO_ROOM:
                found = found.doubled()
        raise FloatingPointError("A tuple of participations could not be drawn: its table is not finite.")

    @property
    def _space(self) -> StateSpace | GroupedStateSpace:
        if self.vectors > 1:
            return grouped_state_space(self.copies, self.vectors, self.pair.min_sep)
        return state_space(self.copies, self.pair.min_sep, self.pair.group)

    @cached_property
    def _terms(self) -> Terms:
        pair = self.pair
        log_miss = pair.group * log_miss_of(pair.prob)
        weights = self._space.log_move_weights(pair.log_multiplicities + self.log_weight, log_miss)
        return Terms(cached_gram_table(pair.strategy), weights, self.own, self.shared, self._space.moves_of_states)

    def _filled(self, *, full: bool) -> FloatArray:
        n = self.pair.strategy.iterations
        rows = n + 1 if full else min(self.pair.min_sep, n) + 1
        table = np.zeros((rows, len(self._space.states)))
        log_scales = np.zeros(rows)
        if fill_scaled_table(table, log_scales, self._terms):
            filled = np.log(table[: min(rows, n)]) + log_scales[: min(rows, n), None]
            table[: filled.shape[0]] = filled
        else:
            fill_table(table, self._terms)
        return table

    @cached_property
    def _table(self) -> FloatArray:
        return self._filled(full=True)

    @cached_property
    def _stays(self) -> FloatArray:
        """Probability that nobody takes part in an iteration, for each state."""
        if self.copies * self.vectors == 1:
            return np.empty((0, 1))  # The only state is the empty one, which is waited in.
        stays = np.empty((self._table.shape[0] - 1, self._table.shape[1]))
        fill_stays(stays, self._table, self._terms)
        return stays

    def _start_weights(self, table: FloatArray) -> tuple[FloatArray, float]:
        """Return the log weight of each start, with all that follows, and of all of them."""
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
        steps = self._terms.log_weights[self._terms.moves.rows[0], 0] + values[1:] - values[:-1]
        return np.concatenate([[0.0], np.cumsum(np.minimum(steps, 0.0))])


def affordable(pair: MinSepPair, copies: int, memory: int = DEFAULT_MEMORY, vectors: int = 1) -> bool:
    """Return whether the tables for so many copies, each of so many vectors, fit into memory and patience."""
    n = pair.strategy.iterations
    if vectors > 1:
        states, moves = count_grouped_states(copies, vectors, pair.min_sep), (vectors + 1) ** copies
        most = 10 * _MOST_WORK  # most of these moves cannot be made
    else:
        states, moves = count_states(copies, pair.min_sep, pair.group), math.comb(copies + pair.group, copies)
        most = _MOST_WORK * (1 if copies > 2 else 100)
    patient = n * states * moves <= most and (states * moves <= _MOST_MOVES or copies * vectors <= 2)
    return patient and 8 * (n + 1) * states <= memory
