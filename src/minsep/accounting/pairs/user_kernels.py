"""The likelihood ratio of a user: several independent b-min-sep vectors, whose columns may overlap.

g_i(S) is the mean over all that can happen from iteration i on, where S holds the remaining times of the blocked
copies. If j of the f free copies take part at i,

    g_i(S) = sum_j C(f, j) p^j (1 - p)^(f - j) exp(j d_i - j^2 h_i - j sum_(a in S) rho_i(b - a)) g_(i+1)(S, later),

and g = 1 beyond the end. Each kernel takes its steps with all samples of a group side by side.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from minsep.accounting.pairs.kernels import HIGHEST, LOWEST, MIDDLE, side_by_side
from minsep.accounting.pairs.states import Moves
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.core.numerics import exp_up_to_709

_BLOCK = 32
_TABLE_BYTES = 1 << 20  # about a second-level cache
_FEWEST_ROWS, _MOST_ROWS = 2, 32  # of two samples each
_MODERATE_GAIN = 500.0
_SMALLEST, _LARGEST = 2.0**200, 2.0**1000

MODERATE_WAIT = 100.0
"""Up to which k_u b |log(1 - p)| the recursion may work with rescaled numbers."""


class UserTerms(NamedTuple):
    """All that a recursion depends on, but for the samples."""

    half_norms: FloatArray
    gram: FloatArray
    log_weights: FloatArray
    moves: Moves
    window: int
    """Number of iterations that are kept: the separation, and one."""
    start_logs: FloatArray
    start_jumps: IntegerArray
    start_places: IntegerArray


def user_log_means(rows: Rows, terms: UserTerms, linear: float, moderate: bool) -> FloatArray:
    """Return log E_x exp(linear * scores of x - what `terms` takes off), for samples in rows.

    The recursion runs on the g_i(S) themselves, rescaled, as long as they are of moderate size, and else on their
    logarithms; `moderate` says whether waiting for b iterations leaves g within e^100 of itself.
    """
    size = 16 * terms.window * terms.moves.blocked.size
    together = min(max(_TABLE_BYTES // size, _FEWEST_ROWS), _MOST_ROWS)
    parts = []
    for first in range(0, rows.shape[0], together):
        group = rows[first : first + together]
        means = np.array([np.nan])
        if moderate:
            means = _rescaled(group, terms, linear)
        if not np.isfinite(means).all():
            means = _logarithmic(group, terms, linear)
        parts.append(means)
    return np.concatenate(parts)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _coefficients(terms, i, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `out[state, j]` with the logarithm of what does not depend on the sample, for j copies that take part."""
    bands = terms.gram.shape[1]
    lags, blocked = terms.moves.lags, terms.moves.blocked
    copies = terms.log_weights.shape[0] - 1
    for state in range(blocked.size):
        overlap = 0.0
        for c in range(blocked[state]):
            lag = lags[state, c]
            if lag < bands:
                overlap += terms.gram[i, lag]
        free = copies - blocked[state]
        for j in range(free + 1):
            out[state, j] = terms.log_weights[free, j] - j * j * terms.half_norms[i] - j * overlap


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _rescaled(rows, terms, linear):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The recursion on g times a factor for each sample; not finite where that could lose anything.

    In every step g_i(empty) is between 2^200 and 2^1000, so rounding to zero or to a denormal number changes an entry
    by less than 2^-1270 of it. Let W be the weight of all that leads from the start to an entry at iteration i. Waiting
    until all copies are free shows that the result is at least W e^-100 g_(i+b)(empty). Within b iterations every copy
    takes part once at most, and a blocked copy gains no more than a free one that waits, so g_i(empty) is at most
    e^(500 + 100) g_(i+b)(empty) as long as the gains of all copies together are at most 500. What an entry loses is
    thus below 2^-1270 e^700 < 2^-259 of the result, and all of them together below 2^-200.
    """
    n = terms.half_norms.size
    samples = 2 * rows.shape[0]
    window, states = terms.window, terms.moves.blocked.size
    jumps, targets, blocked = terms.moves.jumps, terms.moves.targets, terms.moves.blocked
    copies = terms.log_weights.shape[0] - 1
    table = np.full((window, states, samples), MIDDLE)
    unit = np.full(samples, MIDDLE)  # the value 1
    log_scale = np.full(samples, -math.log(MIDDLE))
    greatest = np.full(samples, -np.inf)
    safe = np.full(samples, True)
    gains = np.empty((_BLOCK, samples))
    powers = np.ones((copies + 1, samples))
    logs = np.empty((states, copies + 1))
    for start in range((n - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
        stop = min(start + _BLOCK, n)
        side_by_side(rows, start, stop, gains)
        for i in range(stop - 1, start - 1, -1):
            _coefficients(terms, i, logs)
            gain = gains[i - start]
            half_norm = terms.half_norms[i]
            for s in range(samples):
                score = linear * gain[s]
                greatest[s] = max(greatest[s], score - half_norm)
                powers[1, s] = exp_up_to_709(min(score, 709.0))
            for j in range(2, copies + 1):
                for s in range(samples):
                    powers[j, s] = powers[j - 1, s] * powers[1, s]
            current = table[i % window]
            for state in range(states):
                value = current[state]
                following = table[(i + 1) % window, targets[state, 0]] if i + 1 < n else unit
                factor = math.exp(logs[state, 0])
                for s in range(samples):
                    value[s] = factor * following[s]
                for j in range(1, copies - blocked[state] + 1):
                    after = i + 1 + jumps[state, j]
                    following = table[after % window, targets[state, j]] if after < n else unit
                    factor = math.exp(logs[state, j])
                    power = powers[j]
                    for s in range(samples):
                        value[s] += factor * power[s] * following[s]
            for s in range(samples):
                safe[s] &= _SMALLEST < current[0, s] < _LARGEST
        empty = table[start % window, 0]
        for s in range(samples):
            if not LOWEST < empty[s] < HIGHEST:
                factor = MIDDLE / empty[s]
                log_scale[s] -= math.log(factor)
                unit[s] *= factor
                for k in range(window):
                    for state in range(states):
                        table[k, state, s] *= factor
    total = np.zeros(samples)
    for k in range(terms.start_logs.size):
        jump = terms.start_jumps[k]
        reached = table[jump % window, terms.start_places[k]] if jump < n else unit
        weight = math.exp(terms.start_logs[k])
        for s in range(samples):
            total[s] += weight * reached[s]
    for s in range(samples):
        moderate = safe[s] and copies * greatest[s] <= _MODERATE_GAIN and np.isfinite(total[s])
        total[s] = math.log(total[s]) + log_scale[s] if moderate else np.nan
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _logarithmic(rows, terms, linear):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The recursion on log g, for values of any size."""
    n = terms.half_norms.size
    samples = 2 * rows.shape[0]
    window, states = terms.window, terms.moves.blocked.size
    jumps, targets, blocked = terms.moves.jumps, terms.moves.targets, terms.moves.blocked
    copies = terms.log_weights.shape[0] - 1
    table = np.zeros((window, states, samples))
    logs = np.empty((states, copies + 1))
    summands = np.empty(copies + 1)
    for i in range(n - 1, -1, -1):
        _coefficients(terms, i, logs)
        current = table[i % window]
        for state in range(states):
            free = copies - blocked[state]
            for s in range(samples):
                score = linear * rows[s // 2, 2 * i + s % 2]
                highest = -np.inf
                for j in range(free + 1):
                    after = i + 1 + jumps[state, j]
                    value = logs[state, j] + (j * score if j > 0 else 0.0)
                    if after < n:
                        value += table[after % window, targets[state, j], s]
                    summands[j] = value
                    highest = max(highest, value)
                total = 0.0
                for j in range(free + 1):
                    total += math.exp(summands[j] - highest)
                current[state, s] = highest + math.log(total)
    result = np.full(samples, -np.inf)
    for s in range(samples):
        for k in range(terms.start_logs.size):
            jump = terms.start_jumps[k]
            reached = table[jump % window, terms.start_places[k], s] if jump < n else 0.0
            result[s] = np.logaddexp(result[s], terms.start_logs[k] + reached)
    return result
