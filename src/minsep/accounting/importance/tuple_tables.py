"""Weighted tuples of participation vectors: the tables behind the tilted law.

k copies of the participation vector are drawn together with probability in proportion to

    prod_j Pr[x_j] exp((t^2 - t) |C x_j|^2 / (2 s2)) * prod_(i<j) exp(t^2 <C x_i, C x_j> / s2),      s2 = sigma^2.

Under b-min-sep with bands <= b these weights split over time. A copy that took part is blocked for b - 1 iterations;
the state is the multiset of the blocked copies' remaining times, each with the multiplicity of its participation (1,
but for a user with several examples). V_i(S) is the total weight of all that can happen from iteration i on; what
happens at i is a move: how many of the free copies take part, with which multiplicities. When no copy is free there is
nothing to decide, and the table jumps ahead to the first that is.

A copy may also be a group of vectors: all examples of a user, who run processes of their own. Two vectors of a group
then meet with t^2 - t in the place of t^2.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from minsep.accounting.pairs.states import Moves
from minsep.core.arrays import FloatArray, IntegerArray
from minsep.randomness.variates import uniform

# Products of three such numbers are far from the smallest and largest that there are, so that no digit is lost.
_SMALLEST, _LARGEST, _LARGEST_LOG = 1e-80, 1e80, 200.0

DONE, NO_WORDS, NO_ROOM = 0, 1, 2


class Terms(NamedTuple):
    """The weights of tuples: `own` = (t^2 - t)/(2 s2) of squared norms, `shared` = t^2/s2 of inner products."""

    gram: FloatArray
    log_weights: FloatArray
    own: float
    shared: float
    moves: Moves


class Participations(NamedTuple):
    """The sample, the iteration and the number of columns of each participation."""

    samples: IntegerArray
    times: IntegerArray
    weights: FloatArray

    @classmethod
    def empty(cls, room: int) -> "Participations":
        """Return room for so many."""
        return cls(np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), np.empty(room))

    def first(self, count: int) -> "Participations":
        """Return the first ones."""
        return Participations(self.samples[:count], self.times[:count], self.weights[:count])

    def doubled(self) -> "Participations":
        """Return a copy with twice as much room."""
        wide = Participations.empty(2 * self.times.size)
        for mine, copy in zip(self, wide, strict=True):
            copy[: mine.size] = mine
        return wide


class Beginning(NamedTuple):
    """Where tuples begin, and `idle[i]`, the log probability of no participation before i from the empty state on."""

    idle: FloatArray
    jumps: IntegerArray
    places: IntegerArray


@numba.njit(nogil=True, inline="always")
def _overlap(terms, i, state):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the inner products of column i with those of the blocked copies, summed."""
    gram, moves = terms.gram, terms.moves
    overlap = 0.0
    for c in range(moves.blocked[state]):
        lag = moves.lags[state, c]
        if lag < gram.shape[1]:
            overlap += moves.multiplicities[state, c] * gram[i, lag]
    return overlap


@numba.njit(nogil=True, inline="always")
def _log_weight(terms, i, state, move, overlap):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the logarithm of what a move weighs, but for all that follows."""
    gram, moves = terms.gram, terms.moves
    norm, columns, squares = gram[i, 0], moves.sums[move], moves.squares[move]
    value = terms.log_weights[moves.rows[state], move]
    value += terms.own * squares * norm
    value += terms.shared * (0.5 * (columns * columns - squares) * norm + columns * overlap)
    if moves.counts.shape[1] > 0:
        inside = 2.0 * terms.own - terms.shared
        for c in range(moves.blocked[state]):
            if moves.lags[state, c] < gram.shape[1]:
                value += inside * moves.counts[move, moves.owners[state, c]] * gram[i, moves.lags[state, c]]
    return value


@numba.njit(nogil=True, cache=True)
def fill_table(table, terms):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `table[i % window]` with log V_i for i = n - 1, ..., 0; `window` is n + 1, or b + 1 for the first ones."""
    jumps, targets, sizes = terms.moves.jumps, terms.moves.targets, terms.moves.sizes
    n = terms.gram.shape[0]
    window, states = table.shape
    values = np.empty(sizes.size)
    for i in range(n - 1, -1, -1):
        current = table[i % window]
        for state in range(states):
            overlap = _overlap(terms, i, state)
            highest = -np.inf
            count = 0
            for move in range(sizes.size):
                if targets[state, move] < 0:
                    continue
                after = i + 1 + jumps[state, move]
                value = _log_weight(terms, i, state, move, overlap)
                if after < n:
                    value += table[after % window, targets[state, move]]
                values[count] = value
                highest = max(highest, value)
                count += 1
            total = 0.0
            for move in range(count):
                total += math.exp(values[move] - highest)
            current[state] = highest + math.log(total)


@numba.njit(nogil=True, cache=True)
def fill_scaled_table(table, log_scales, terms):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `table[i % window]` with V_i times exp(-`log_scales[i % window]`); return False where numbers got too small.

    The same as `fill_table` without a logarithm in every step: what a move weighs is computed anew only where the inner
    products of columns change, which for a Toeplitz matrix is at the ends.
    """
    gram, jumps, targets, sizes = terms.gram, terms.moves.jumps, terms.moves.targets, terms.moves.sizes
    n, bands = gram.shape
    window, states = table.shape
    factors = np.zeros((states, sizes.size))
    made = np.zeros(n + 1, dtype=np.bool_)
    for state in range(states):
        for move in range(sizes.size):
            made[min(jumps[state, move], n)] = True
    ratios, lengths = np.empty(n + 1), np.flatnonzero(made)
    for i in range(n - 1, -1, -1):
        changed = i == n - 1
        for lag in range(bands):
            changed |= gram[i, lag] != gram[min(i + 1, n - 1), lag]
        if changed:
            for state in range(states):
                overlap = _overlap(terms, i, state)
                for move in range(sizes.size):
                    if targets[state, move] < 0:
                        continue
                    value = _log_weight(terms, i, state, move, overlap)
                    if abs(value) > _LARGEST_LOG and value != -np.inf:
                        return False
                    factors[state, move] = math.exp(value)
        base = log_scales[(i + 1) % window] if i + 1 < n else 0.0
        for jump in lengths:
            after = i + 1 + jump
            log_ratio = (log_scales[after % window] if after < n else 0.0) - base
            if abs(log_ratio) > _LARGEST_LOG:
                return False
            ratios[jump] = math.exp(log_ratio)
        current = table[i % window]
        largest, smallest = 0.0, np.inf
        for state in range(states):
            total = 0.0
            for move in range(sizes.size):
                target = targets[state, move]
                if target < 0:
                    continue
                jump = jumps[state, move]
                after = i + 1 + jump
                reached = table[after % window, target] if after < n else 1.0
                total += factors[state, move] * (ratios[min(jump, n)] * reached)
            current[state] = total
            largest = max(largest, total)
            smallest = min(smallest, total)
        # Not a number compares as false.
        if not (smallest > _SMALLEST and largest < _LARGEST):
            return False
        factor = 1.0 / current[0]
        if not smallest * factor > _SMALLEST:
            return False
        for state in range(states):
            current[state] *= factor
        log_scales[i % window] = base - math.log(factor)
    return True


@numba.njit(nogil=True, cache=True)
def fill_stays(stays, table, terms):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `stays[i, state]` with the probability that nobody takes part at i, from a full table."""
    jumps, targets = terms.moves.jumps, terms.moves.targets
    n, states = stays.shape
    for i in range(n):
        for state in range(states):
            value = _log_weight(terms, i, state, 0, _overlap(terms, i, state))
            after = i + 1 + jumps[state, 0]
            if after < n:
                value += table[after, targets[state, 0]]
            stays[i, state] = math.exp(value - table[i, state])


@numba.njit(nogil=True, cache=True)
def draw_tuples(table, stays, terms, begin, words, first_word, progress, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Draw tuples forward through a full table; return DONE, or what ran out before.

    Waiting in the empty state is drawn in one step: that makes long waits cheap.

    Args:
        stays: The table of `fill_stays`, or an empty one.
        progress: The numbers of tuples, words and participations so far. They are updated: drawing continues from
            there.
    """
    jumps, targets, sizes, sums = terms.moves.jumps, terms.moves.targets, terms.moves.sizes, terms.moves.sums
    idle, start_jumps, start_places = begin
    n = terms.gram.shape[0]
    for sample in range(progress[0], start_jumps.size):
        used, count = progress[1] - first_word, progress[2]
        i = start_jumps[sample]
        state = start_places[sample]
        while i < n:
            if used == words.size:
                return NO_WORDS
            u = uniform(words[used])
            used += 1
            first = 0
            target = u
            if state == 0:
                # Wait in the empty state: the first iteration that somebody takes part in.
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
                if used == words.size:
                    return NO_WORDS
                target = -math.expm1(idle[i + 1] - idle[i]) * uniform(words[used])
                used += 1
                first = 1
            elif stays.shape[0] > 0 and stays[i, state] > u:
                i += 1
                state = targets[state, 0]
                continue
            overlap = _overlap(terms, i, state)
            running = 0.0
            chosen = first
            # The moves' probabilities sum to 1 up to rounding, so the first that passes the target is the one drawn.
            for move in range(first, sizes.size):
                if targets[state, move] < 0:
                    continue
                chosen = move
                after = i + 1 + jumps[state, move]
                value = _log_weight(terms, i, state, move, overlap)
                if after < n:
                    value += table[after, targets[state, move]]
                running += math.exp(value - table[i, state])
                if running > target:
                    break
            if sizes[chosen] > 0:
                if count == found.times.size:
                    return NO_ROOM
                found.samples[count] = sample
                found.times[count] = i
                found.weights[count] = sums[chosen]
                count += 1
            after = i + 1 + jumps[state, chosen]
            state = targets[state, chosen]
            i = after
        progress[0], progress[1], progress[2] = sample + 1, first_word + used, count
    return DONE
