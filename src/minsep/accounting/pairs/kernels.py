"""From scores to log likelihood ratios: the paper's dynamic programs, in logarithms, for many samples at once.

Scores come in rows, two samples per row and interleaved in time (as the parts of one complex series), so a chunk of L
samples is L/2 rows. Each kernel steps through time with all samples of the chunk in parallel.
"""

import math

import numba
import numpy as np

from minsep.core.arrays import FloatArray, Rows
from minsep.core.numerics import exp_up_to_709, log_add_exp, log_positive

_BLOCK = 32
_ROWS_TOGETHER = 32  # as many as a processor's nearest caches hold
MODERATE_DECAY = 300.0
MODERATE_GAIN = 600.0
LOWEST, MIDDLE, HIGHEST = 2.0**400, 2.0**600, 2.0**800


def min_sep_log_ratios(rows: Rows, offsets: FloatArray, log_miss: float, min_sep: int, warm: bool) -> FloatArray:
    """Return log E_x exp(sum over participations of gain_i) under b-min-sep, gain_i = score_i + offsets[i].

    f_i = miss f_(i+1) + e^(gain_i) f_(i+b), and f_i = 1 beyond the end; the gain includes the log probability of
    taking part.
    Cold start: f_1. Warm start: (f_1 + p sum_(i=2..b) f_i) / (1 + (b-1) p), where p = 1 - miss.

    The recursion runs on the rescaled f_i as long as they are of moderate size, which saves a logarithm per step, and
    otherwise on their logarithms.
    """
    parts = []
    for first in range(0, rows.shape[0], _ROWS_TOGETHER):
        group = rows[first : first + _ROWS_TOGETHER]
        ratios = np.array([np.nan])
        if -min_sep * log_miss <= MODERATE_DECAY:
            ratios = _rescaled_min_sep(group, offsets, log_miss, min_sep, warm)
        if not np.isfinite(ratios).all():
            ratios = _logarithmic_min_sep(group, offsets, log_miss, min_sep, warm)
        parts.append(ratios)
    return np.concatenate(parts)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _rescaled_min_sep(rows, offsets, log_miss, min_sep, warm):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The recursion on f_i times a factor for each sample; not finite where that could lose accuracy.

    f_(i+1) is at least miss^(b-1) f_(i+b). With f_(i+1) kept near 2^600, entries that round to 0 are below 2^-1074. By
    the time they are used f has decreased by a factor of at most e^300 < 2^433, and a gain of at most 600 is a factor
    below 2^866, so they would have added less than 2^-375 of the sum.
    """
    n = offsets.size
    samples = 2 * rows.shape[0]
    size = min(min_sep, n + 1)
    table = np.full((size, samples), MIDDLE)  # row i % size holds f_(i+b) before step i, and f_i after it
    following = np.full(samples, MIDDLE)
    log_scale = np.full(samples, -math.log(MIDDLE))
    greatest = np.full(samples, -np.inf)
    gains = np.empty((_BLOCK, samples))
    miss = math.exp(log_miss)
    for start in range((n - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
        stop = min(start + _BLOCK, n)
        side_by_side(rows, start, stop, gains)
        for i in range(stop - 1, start - 1, -1):
            gain, current, offset = gains[i - start], table[i % size], offsets[i]
            for s in range(samples):
                exponent = gain[s] + offset
                greatest[s] = exponent if exponent > greatest[s] else greatest[s]
                value = exp_up_to_709(exponent) * current[s] + miss * following[s]
                current[s] = value
                following[s] = value
        for s in range(samples):
            if not LOWEST < following[s] < HIGHEST:
                factor = MIDDLE / following[s]
                log_scale[s] -= math.log(factor)
                following[s] *= factor
                for k in range(size):
                    table[k, s] *= factor
    if warm:
        prob = -math.expm1(log_miss)
        beyond = (min_sep - size) * prob
        for k in range(1, size):
            row = table[k]
            for s in range(samples):
                following[s] += prob * row[s]
        for s in range(samples):
            following[s] = (following[s] + beyond * math.exp(-log_scale[s])) / (1.0 + (min_sep - 1) * prob)
    for s in range(samples):
        moderate = greatest[s] <= MODERATE_GAIN
        following[s] = math.log(following[s]) + log_scale[s] if moderate else np.nan
    return following


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _logarithmic_min_sep(rows, offsets, log_miss, min_sep, warm):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The recursion on log f_i, for ratios of any size."""
    n = offsets.size
    samples = 2 * rows.shape[0]
    size = min(min_sep, n + 1)
    table = np.zeros((size, samples))  # row i % size holds log f_(i+b) before step i, and log f_i after it
    following = np.zeros(samples)
    gains = np.empty((_BLOCK, samples))
    for start in range((n - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
        stop = min(start + _BLOCK, n)
        side_by_side(rows, start, stop, gains)
        for i in range(stop - 1, start - 1, -1):
            gain, current, offset = gains[i - start], table[i % size], offsets[i]
            for s in range(samples):
                value = log_add_exp(gain[s] + offset + current[s], log_miss + following[s])
                current[s] = value
                following[s] = value
    if not warm:
        return following
    prob = -math.expm1(log_miss)
    for k in range(1, size):
        table[k] += math.log(prob)
    beyond = (min_sep - size) * prob
    total = _log_sum_exp(table, beyond)
    total -= math.log1p((min_sep - 1) * prob)
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def cyclic_log_ratios(rows, offsets, log_miss, cycle, constants):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return log of the mean over phases of e^constant times the product over its turns of (miss + e^(gain_i)).

    Cyclic Poisson sampling with a uniform phase; balls-in-bins when the miss is 0.
    """
    n = offsets.size
    samples = 2 * rows.shape[0]
    size = min(cycle, n)
    table = np.zeros((size, samples))
    for phase in range(size):
        table[phase] += constants[phase]
    gains = np.empty((_BLOCK, samples))
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        side_by_side(rows, start, stop, gains)
        for i in range(start, stop):
            gain, current, offset = gains[i - start], table[i % cycle], offsets[i]
            for s in range(samples):
                current[s] += log_add_exp(gain[s] + offset, log_miss)
    total = _log_sum_exp(table, float(cycle - size))
    total -= math.log(cycle)
    return total


def allocation_log_ratios(rows: Rows, offsets: FloatArray, epoch: int) -> FloatArray:
    """Return the sum over epochs of log((missing + sum over its iterations of e^(gain_i)) / epoch).

    gain_i = score_i + offsets[i]. What the last epoch lacks at the end of the run is missing, and counts as 1 each.
    """
    groups = (rows[first : first + _ROWS_TOGETHER] for first in range(0, rows.shape[0], _ROWS_TOGETHER))
    return np.concatenate([_allocation(group, offsets, epoch) for group in groups])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _allocation(rows, offsets, epoch):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Sums of exponentials, relative to the largest gain of the epoch so far."""
    n = offsets.size
    samples = 2 * rows.shape[0]
    ratios = np.zeros(samples)
    highest, total, peak = np.empty(samples), np.empty(samples), np.empty(samples)
    gains = np.empty((_BLOCK, samples))
    for first in range(0, n, epoch):
        last = min(first + epoch, n)
        missing = epoch - (last - first)
        highest[:] = 0.0 if missing > 0 else -np.inf
        total[:] = missing
        for start in range(first, last, _BLOCK):
            stop = min(start + _BLOCK, last)
            side_by_side(rows, start, stop, gains)
            peak[:] = highest
            for i in range(start, stop):
                gain, offset = gains[i - start], offsets[i]
                for s in range(samples):
                    gain[s] += offset
                    peak[s] = gain[s] if gain[s] > peak[s] else peak[s]
            for s in range(samples):
                total[s] *= exp_up_to_709(highest[s] - peak[s])
                highest[s] = peak[s]
            for i in range(start, stop):
                gain = gains[i - start]
                for s in range(samples):
                    total[s] += exp_up_to_709(gain[s] - peak[s])
        for s in range(samples):
            ratios[s] += highest[s] + log_positive(total[s]) - math.log(epoch)
    return ratios


@numba.njit(nogil=True, cache=True, error_model="numpy")
def add_multiplicities(rows, half_norms, log_weights):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Replace scores d_i by log sum_j weight_j exp(j d_i - j^2 half_norm_i), j = 1, 2, ...: gains of a group."""
    n = half_norms.size
    for q in range(rows.shape[0]):
        for k in range(2 * n):
            score, half_norm = rows[q, k], half_norms[k // 2]
            total = log_weights[0] + score - half_norm
            for j in range(2, log_weights.size + 1):
                total = np.logaddexp(total, log_weights[j - 1] + j * score - j * j * half_norm)
            rows[q, k] = total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def add_survival(rows, half_norms, kept, whole, cut):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Replace scores by log-ratio gains of a batch that may be truncated.

    Args:
        kept: The probability that the example survives: 1 if the batch is not truncated, and below 1 if it is.
        whole: The number of columns by which the example moves the output of a batch that is not truncated.
        cut: The number of columns by which an example that survives moves the output of a truncated batch.
    """
    n = half_norms.size
    for q in range(rows.shape[0]):
        for k in range(2 * n):
            score, half_norm = rows[q, k], half_norms[k // 2]
            survival = kept[q, k]
            if survival == 1.0:
                rows[q, k] = whole * score - whole * whole * half_norm
            else:
                moved = math.log(survival) + cut * score - cut * cut * half_norm
                rows[q, k] = np.logaddexp(moved, math.log1p(-survival))


@numba.njit(inline="always")
def side_by_side(rows, start, stop, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Copy iterations from `start` to `stop` of samples in rows to `out`, one iteration a row."""
    for q in range(rows.shape[0]):
        row = rows[q]
        for i in range(start, stop):
            out[i - start, 2 * q] = row[2 * i]
            out[i - start, 2 * q + 1] = row[2 * i + 1]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _log_sum_exp(table, ones):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return log(ones + sum of exponentials) of each column."""
    samples = table.shape[1]
    highest = table[0].copy()
    if ones > 0.0:
        for s in range(samples):
            highest[s] = max(highest[s], math.log(ones))
    for k in range(1, table.shape[0]):
        row = table[k]
        for s in range(samples):
            highest[s] = row[s] if row[s] > highest[s] else highest[s]
    total = np.zeros(samples)
    if ones > 0.0:
        for s in range(samples):
            total[s] = math.exp(math.log(ones) - highest[s])
    for k in range(table.shape[0]):
        row = table[k]
        for s in range(samples):
            total[s] += exp_up_to_709(row[s] - highest[s])
    for s in range(samples):
        total[s] = highest[s] + log_positive(total[s])
    return total
