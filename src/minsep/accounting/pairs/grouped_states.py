"""States of several copies of a user, each of whose examples runs a b-min-sep process of its own.

A user copy is the multiset of its examples' remaining times, 0 for a free one; a state is a multiset of user copies. A
move says how many of each copy's free examples take part. As in `states`, only states with a free example are kept, and
time jumps ahead to the first that is free.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, product

import numpy as np

from minsep.accounting.pairs.states import Moves
from minsep.core.arrays import FloatArray, IntegerArray

Copy = tuple[int, ...]
State = tuple[Copy, ...]


def count_grouped_states(users: int, examples: int, min_sep: int) -> int:
    """Return the number of states of so many user copies with a free example.

    >>> count_grouped_states(users=2, examples=2, min_sep=8)
    260
    """
    any_copy, blocked_copy = (math.comb(times + examples - 1, examples) for times in (min_sep, min_sep - 1))
    return math.comb(any_copy + users - 1, users) - math.comb(blocked_copy + users - 1, users)


@dataclass(frozen=True)
class GroupedStateSpace:
    """All states of `users` copies of a user with `examples` examples, and where each move leads."""

    users: int
    examples: int
    min_sep: int

    @cached_property
    def states(self) -> list[State]:
        """Return the states, the empty one first."""
        copies = combinations_with_replacement(range(self.min_sep), self.examples)
        states = combinations_with_replacement(copies, self.users)
        return [state for state in states if any(copy[0] == 0 for copy in state)]

    @cached_property
    def index(self) -> dict[State, int]:
        """Return the place of each state."""
        return {state: place for place, state in enumerate(self.states)}

    @cached_property
    def moves(self) -> list[tuple[int, ...]]:
        """Return all moves: how many examples of each copy take part, fewer first."""
        return sorted(product(range(self.examples + 1), repeat=self.users), key=sum)

    def settle(self, copies: Iterable[Iterable[int]]) -> tuple[int, int]:
        """Return how many iterations to jump until an example is free, and the place of the state then."""
        state = tuple(tuple(sorted(copy)) for copy in copies)
        jump = min(copy[0] for copy in state)
        settled = tuple(sorted(tuple(max(time - jump, 0) for time in copy) for copy in state))
        return jump, self.index[settled]

    @cached_property
    def free_counts(self) -> list[tuple[int, ...]]:
        """Return the number of free examples of each copy, for all states: those of a state are a row of weights."""
        return list(dict.fromkeys(tuple(copy.count(0) for copy in state) for state in self.states))

    @cached_property
    def moves_of_states(self) -> Moves:
        """Return for each state and move where it leads, as arrays; a move that cannot be made has target -1."""
        shape = (len(self.states), len(self.moves))
        jumps, targets = np.zeros(shape, dtype=np.int32), np.full(shape, -1, dtype=np.int32)
        lags = np.zeros((shape[0], max(self.users * self.examples - 1, 1)), dtype=np.int32)
        owners, blocked = np.zeros_like(lags), np.zeros(shape[0], dtype=np.int64)
        rows = np.zeros(shape[0], dtype=np.int64)
        row_of = {free: row for row, free in enumerate(self.free_counts)}
        for place, state in enumerate(self.states):
            free = tuple(copy.count(0) for copy in state)
            rows[place] = row_of[free]
            taken = [(owner, time) for owner, copy in enumerate(state) for time in copy if time > 0]
            blocked[place] = len(taken)
            for column, (owner, time) in enumerate(taken):
                lags[place, column], owners[place, column] = self.min_sep - time, owner
            for column, move in enumerate(self.moves):
                if all(taking <= room for taking, room in zip(move, free, strict=True)):
                    after = (self._after(copy, taking) for copy, taking in zip(state, move, strict=True))
                    jumps[place, column], targets[place, column] = self.settle(after)
        return Moves(
            jumps,
            targets,
            lags,
            np.ones(lags.shape),
            blocked,
            np.array([sum(move) for move in self.moves]),
            np.array([sum(move) for move in self.moves], dtype=np.float64),
            np.array([sum(taking**2 for taking in move) for move in self.moves], dtype=np.float64),
            rows,
            owners,
            np.array(self.moves, dtype=np.float64),
        )

    def _after(self, copy: Copy, taking: int) -> list[int]:
        """Return a copy one iteration later, if so many of its free examples take part."""
        return [self.min_sep - 1] * taking + [max(time - 1, 0) for time in copy[taking:]]

    def log_move_weights(self, log_prob: FloatArray, log_miss: float) -> FloatArray:
        """Return the log probability of each move for each row of free examples, before any tilt."""
        weights = np.full((len(self.free_counts), len(self.moves)), -np.inf)
        for row, free in enumerate(self.free_counts):
            for column, move in enumerate(self.moves):
                ways = math.prod(math.comb(room, taking) for room, taking in zip(free, move, strict=True))
                idle = sum(free) - sum(move)
                if ways > 0:
                    weights[row, column] = math.log(ways) + sum(move) * log_prob[0] + (idle * log_miss if idle else 0.0)
        return weights

    def starts(self, available: float, barred: float) -> tuple[FloatArray, IntegerArray, IntegerArray]:
        """Return log probabilities, jumps and places of the states in which the copies of a warm start begin."""
        log_ways, sizes, jumps, places = self._start_states
        barred_log = math.log(barred) if barred > 0 else 0.0
        free = self.users * self.examples - sizes
        return log_ways + free * math.log(available) + sizes * barred_log, jumps, places

    @cached_property
    def _start_states(self) -> tuple[FloatArray, IntegerArray, IntegerArray, IntegerArray]:
        log_ways, sizes, jumps, places = [], [], [], []
        for state in combinations_with_replacement(
            combinations_with_replacement(range(self.min_sep), self.examples), self.users
        ):
            jump, place = self.settle(state)
            log_ways.append(math.log(_orders(state) * math.prod(_orders(copy) for copy in state)))
            sizes.append(sum(time > 0 for copy in state for time in copy))
            jumps.append(jump)
            places.append(place)
        return np.array(log_ways), np.array(sizes), np.array(jumps), np.array(places)


def _orders(items: tuple[object, ...]) -> int:
    """Return in how many orders these can be put."""
    return math.factorial(len(items)) // math.prod(math.factorial(items.count(item)) for item in set(items))


@lru_cache(maxsize=8)
def grouped_state_space(users: int, examples: int, min_sep: int) -> GroupedStateSpace:
    """Return the states of so many user copies, made once for all scales and noise multipliers."""
    return GroupedStateSpace(users, examples, min_sep)
