"""States of several copies of a participation vector under b-min-sep.

A copy that took part is blocked for b - 1 iterations. The state is the multiset of the blocked copies' remaining times,
each with the multiplicity of its participation (1, but for a user whose examples are sampled together). What happens in
an iteration is a move: how many of the free copies take part, with which multiplicities. When no copy is free there is
nothing to decide, and time jumps ahead to the first that is.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import FloatArray, IntegerArray
from minsep.strategy import Strategy

State = tuple[int, ...]


def count_states(copies: int, min_sep: int, group: int = 1) -> int:
    """Return the number of states with a free copy: multisets of fewer than `copies` blocked ones."""
    kinds = (min_sep - 1) * group
    return math.comb(kinds + copies - 1, copies - 1)


@dataclass(frozen=True)
class StateSpace:
    """All states with a free copy, and where each move leads.

    A blocked copy is one number: (remaining time - 1) * group + multiplicity - 1.
    """

    copies: int
    min_sep: int
    group: int

    @cached_property
    def states(self) -> list[State]:
        """Return the states, the empty one first."""
        kinds = range((self.min_sep - 1) * self.group)
        return [state for size in range(self.copies) for state in combinations_with_replacement(kinds, size)]

    @cached_property
    def index(self) -> dict[State, int]:
        """Return the place of each state."""
        return {state: place for place, state in enumerate(self.states)}

    @cached_property
    def moves(self) -> list[State]:
        """Return all moves: how many copies take part with each multiplicity, fewer first."""
        multiplicities = range(1, self.group + 1)
        return [move for size in range(self.copies + 1) for move in combinations_with_replacement(multiplicities, size)]

    def settle(self, state: State) -> tuple[int, int]:
        """Return how many iterations to jump until a copy is free, and the place of the state then."""
        jump = 0
        if len(state) == self.copies:
            jump = state[0] // self.group + 1
        return jump, self.index[self.later(state, jump)]

    def later(self, state: State, steps: int) -> State:
        """Return the state some iterations later, if nobody takes part."""
        passed = steps * self.group
        return tuple(kind - passed for kind in state if kind >= passed)

    @cached_property
    def moves_of_states(self) -> "Moves":
        """Return for each state and move where it leads, as arrays."""
        shape = (len(self.states), len(self.moves))
        jumps, targets = np.zeros(shape, dtype=np.int32), np.full(shape, -1, dtype=np.int32)
        for row, state in enumerate(self.states):
            passed = self.later(state, 1)
            for column, move in enumerate(self.moves):
                if len(move) > self.copies - len(state):
                    break
                blocked = [(self.min_sep - 2) * self.group + m - 1 for m in move] if self.min_sep > 1 else []
                jumps[row, column], targets[row, column] = self.settle(tuple(sorted((*passed, *blocked))))
        lags = np.zeros((shape[0], max(self.copies - 1, 1)), dtype=np.int32)
        weights = np.zeros(lags.shape)
        for row, state in enumerate(self.states):
            for column, kind in enumerate(state):
                lags[row, column] = self.min_sep - (kind // self.group + 1)
                weights[row, column] = kind % self.group + 1
        return Moves(
            jumps,
            targets,
            lags,
            weights,
            np.array([len(state) for state in self.states]),
            np.array([len(move) for move in self.moves]),
            np.array([sum(move) for move in self.moves], dtype=np.float64),
            np.array([sum(m * m for m in move) for move in self.moves], dtype=np.float64),
            np.array([self.copies - len(state) for state in self.states]),
            np.zeros(lags.shape, dtype=np.int32),
            np.zeros((shape[1], 0)),
        )

    def log_move_weights(self, log_prob: FloatArray, log_miss: float) -> FloatArray:
        """Return the log probability of each move for each number of free copies, before any tilt.

        Args:
            log_prob: The log probability of taking part with each multiplicity m, at m - 1.
            log_miss: The log probability of not taking part.
        """
        weights = np.full((self.copies + 1, len(self.moves)), -np.inf)
        for free in range(self.copies + 1):
            for column, move in enumerate(self.moves):
                if len(move) <= free:
                    ways = math.factorial(free) // math.factorial(free - len(move))
                    for m in set(move):
                        ways //= math.factorial(move.count(m))
                    idle = (free - len(move)) * log_miss if free > len(move) else 0.0
                    weights[free, column] = math.log(ways) + sum(log_prob[m - 1] for m in move) + idle
        return weights

    def starts(self, available: float, barred: float) -> tuple[FloatArray, IntegerArray, IntegerArray]:
        """Return log probabilities, jumps and places of the states in which the copies of a warm start begin.

        Each copy is available with one probability, and barred for each of 1, ..., b - 1 iterations with another.
        """
        log_ways, sizes, jumps, places = self._start_states
        barred_log = math.log(barred) if barred > 0 else 0.0
        return log_ways + (self.copies - sizes) * math.log(available) + sizes * barred_log, jumps, places

    @cached_property
    def _start_states(self) -> tuple[FloatArray, IntegerArray, IntegerArray, IntegerArray]:
        log_ways, sizes, jumps, places = [], [], [], []
        for size in range(self.copies + 1):
            for state in combinations_with_replacement(range(self.min_sep - 1), size):
                ways = math.factorial(self.copies) // math.factorial(self.copies - size)
                for kind in set(state):
                    ways //= math.factorial(state.count(kind))
                jump, place = self.settle(state)
                log_ways.append(math.log(ways))
                sizes.append(size)
                jumps.append(jump)
                places.append(place)
        return np.array(log_ways), np.array(sizes), np.array(jumps), np.array(places)


class Moves(NamedTuple):
    """Where each move leads from each state, and what counts for its weight.

    Attributes:
        jumps: For each state and move, the iterations passed over after it.
        targets: For each state and move, the state then.
        lags: For each state and blocked copy, how long ago it took part.
        multiplicities: For each state and blocked copy, the number of columns with which it took part.
        blocked: For each state, the number of blocked copies.
        sizes: For each move, the number of copies that take part.
        sums: For each move, the number of their columns.
        squares: For each move, the sum over groups of squared numbers of columns.
        rows: For each state, its row in a table of the moves' probabilities.
        owners: For each state and blocked copy, the group that it belongs to.
        counts: For each move, the columns of each group. It is empty where each copy is a group of its own.
    """

    jumps: NDArray[np.int32]
    targets: NDArray[np.int32]
    lags: NDArray[np.int32]
    multiplicities: FloatArray
    blocked: IntegerArray
    sizes: IntegerArray
    sums: FloatArray
    squares: FloatArray
    rows: IntegerArray
    owners: NDArray[np.int32]
    counts: FloatArray


def gram_table(strategy: Strategy) -> FloatArray:
    """Return <c_i, c_(i - lag)> for all iterations i and lags below the number of bands."""
    return np.ascontiguousarray(np.stack([strategy.gram(lag) for lag in range(strategy.bands)], axis=1))


@lru_cache(maxsize=16)
def state_space(copies: int, min_sep: int, group: int = 1) -> StateSpace:
    """Return the states of so many copies, made once for all scales and noise multipliers."""
    return StateSpace(copies, min_sep, group)


@lru_cache(maxsize=1)
def cached_gram_table(strategy: Strategy) -> FloatArray:
    """Return the table of inner products of a strategy; the one used last is kept."""
    return gram_table(strategy)
