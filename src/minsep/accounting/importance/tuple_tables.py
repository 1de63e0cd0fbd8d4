"""Weighted tuples of participation vectors: the tables behind the tilted law.

k copies of the participation vector are drawn together with probability proportional to

    prod_j Pr[x_j] exp((t^2 - t) |C x_j|^2 / (2 s2)) * prod_(i<j) exp(t^2 <C x_i, C x_j> / s2),      s2 = sigma^2.

Under b-min-sep with bands <= b these weights split over time. A copy that took part is blocked for b - 1 iterations;
the state is the multiset of the blocked copies' remaining times, each with the multiplicity of its participation (1,
except for a user with several examples). V_i(S) is the total weight of all continuations from iteration i on. A move at
i says how many of the free copies take part, and with which multiplicities. If no copy is free there is nothing to
decide, and the table jumps ahead until one is.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from minsep.arrays import FloatArray, IntegerArray
from minsep.strategy import Strategy

State = tuple[int, ...]


def count_states(copies: int, min_sep: int, group: int) -> int:
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
        """Return the index of each state."""
        return {state: place for place, state in enumerate(self.states)}

    @cached_property
    def moves(self) -> list[State]:
        """Return all moves: how many copies take part with each multiplicity, fewer first."""
        multiplicities = range(1, self.group + 1)
        return [move for size in range(self.copies + 1) for move in combinations_with_replacement(multiplicities, size)]

    def settle(self, state: State) -> tuple[int, int]:
        """Return how many iterations to jump until a copy is free, and the index of the state at that time."""
        jump = 0
        if len(state) == self.copies:
            jump = state[0] // self.group + 1
        return jump, self.index[self.later(state, jump)]

    def later(self, state: State, steps: int) -> State:
        """Return the state some iterations later, if no copy takes part."""
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
        )

    def log_move_weights(self, log_prob: FloatArray, log_miss: float) -> FloatArray:
        """Return the log probability of each move for each number of free copies, before any tilt.

        `log_prob[m - 1]` is that of taking part with multiplicity m, `log_miss` that of not taking part.
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
        """Return log probabilities, jumps and indices of the initial states of the copies in a warm start.

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
    """Where each move leads from each state, and what determines its weight."""

    jumps: NDArray[np.int32]
    targets: NDArray[np.int32]
    lags: NDArray[np.int32]
    multiplicities: FloatArray
    blocked: IntegerArray
    sizes: IntegerArray
    sums: FloatArray
    squares: FloatArray


class Terms(NamedTuple):
    """The weights of tuples: `own` = (t^2 - t)/(2 s2) of squared norms, `shared` = t^2/s2 of inner products."""

    gram: FloatArray
    log_weights: FloatArray
    own: float
    shared: float
    moves: Moves


class Beginning(NamedTuple):
    """Where tuples start, and `idle[i]`, the log probability of no participation before i from the empty state."""

    idle: FloatArray
    jumps: IntegerArray
    places: IntegerArray


def gram_table(strategy: Strategy) -> FloatArray:
    """Return <c_i, c_(i - lag)> for all iterations i and lags below the number of bands."""
    return np.ascontiguousarray(np.stack([strategy.gram(lag) for lag in range(strategy.bands)], axis=1))


@numba.njit(nogil=True, cache=True)
def fill_table(table, terms):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `table[i % rows]` with log V_i for i = n - 1, ..., 0; `rows` is n + 1, or b + 1 for the first ones."""
    gram, log_weights, own, shared, moves = terms
    jumps, targets, lags, multiplicities, blocked, sizes, sums, squares = moves
    n, bands = gram.shape
    rows, states = table.shape
    copies = log_weights.shape[0] - 1
    values = np.empty(sizes.size)
    for i in range(n - 1, -1, -1):
        norm = gram[i, 0]
        current = table[i % rows]
        for state in range(states):
            overlap = 0.0
            for c in range(blocked[state]):
                lag = lags[state, c]
                if lag < bands:
                    overlap += multiplicities[state, c] * gram[i, lag]
            free = copies - blocked[state]
            highest = -np.inf
            count = 0
            for move in range(sizes.size):
                if sizes[move] > free:
                    break
                after = i + 1 + jumps[state, move]
                value = log_weights[free, move]
                value += own * squares[move] * norm
                value += shared * (0.5 * (sums[move] * sums[move] - squares[move]) * norm + sums[move] * overlap)
                if after < n:
                    value += table[after % rows, targets[state, move]]
                values[move] = value
                highest = max(highest, value)
                count += 1
            total = 0.0
            for move in range(count):
                total += math.exp(values[move] - highest)
            current[state] = highest + math.log(total)


@numba.njit(nogil=True, cache=True)
def draw_tuples(table, terms, begin, uniforms, samples, times, weights):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Draw tuples forward through a full table; return the participations, or -1 if `uniforms` or room run out.

    The waiting time in the empty state is drawn in one step, which makes long waits cheap.
    """
    gram, log_weights, own, shared, moves = terms
    jumps, targets, lags, multiplicities, blocked, sizes, sums, squares = moves
    idle, start_jumps, start_places = begin
    n, bands = gram.shape
    copies = log_weights.shape[0] - 1
    used = 0
    found = 0
    for sample in range(start_jumps.size):
        i = start_jumps[sample]
        state = start_places[sample]
        while i < n:
            if used == uniforms.size:
                return -1
            u = uniforms[used]
            used += 1
            first = 0
            target = u
            if state == 0:
                # Wait in the empty state: the first iteration in which a copy takes part.
                survival = idle[i] + math.log(1.0 - u)
                low, high = i, n
                while low < high:
                    middle = (low + high) // 2
                    if idle[middle + 1] <= survival:
                        high = middle
                    else:
                        low = middle + 1
                i = low
                if i == n:
                    break
                if used == uniforms.size:
                    return -1
                target = -math.expm1(idle[i + 1] - idle[i]) * uniforms[used]
                used += 1
                first = 1
            free = copies - blocked[state]
            norm = gram[i, 0]
            overlap = -1.0
            running = 0.0
            chosen = first
            # The moves' probabilities sum to 1 up to rounding, so the first that passes the target is the one drawn.
            for move in range(first, sizes.size):
                if sizes[move] > free:
                    break
                chosen = move
                after = i + 1 + jumps[state, move]
                value = log_weights[free, move]
                if move > 0:
                    if overlap < 0.0:
                        overlap = 0.0
                        for c in range(blocked[state]):
                            lag = lags[state, c]
                            if lag < bands:
                                overlap += multiplicities[state, c] * gram[i, lag]
                    value += own * squares[move] * norm
                    value += shared * (0.5 * (sums[move] * sums[move] - squares[move]) * norm + sums[move] * overlap)
                if after < n:
                    value += table[after, targets[state, move]]
                running += math.exp(value - table[i, state])
                if running > target:
                    break
            if sizes[chosen] > 0:
                if found == times.size:
                    return -1
                samples[found] = sample
                times[found] = i
                weights[found] = sums[chosen]
                found += 1
            after = i + 1 + jumps[state, chosen]
            state = targets[state, chosen]
            i = after
    return found
