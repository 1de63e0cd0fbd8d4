"""The loops over the values of a row: rows in steps of the grid, and releases. No operation is fused or reordered."""

import numba
import numpy as np

from minsep.core.numerics import ROUNDER
from minsep.noise.grid import MOST_STEPS, SMOOTHING
from minsep.randomness.normals import fill_stripe, work_space


@numba.njit(inline="always")
def _rounded(x):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the nearest integer of a number below 2**51."""
    return (x + ROUNDER) - ROUNDER


@numba.njit(inline="always")
def _finish(total, z, scale, target):  # type: ignore[no-untyped-def]  # pragma: no cover
    for j in range(total.size):
        target[j] = _rounded(total[j] + scale * z[j])


@numba.njit(inline="always")
def _add_row(total, weight, row):  # type: ignore[no-untyped-def]  # pragma: no cover
    for j in range(total.size):
        total[j] += weight * row[j]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def next_rows(window, key, place, position, scales, weights, first):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write the next rows, from row `position` on, into a window, in steps of the grid.

    Every row is the sum over the rows before it from the oldest to the newest, however many rows are made at once.

    Args:
        window: Stripes, by rows (row t at t modulo their number), by columns of a stripe.
        key: The words of the key of Z.
        place: The number of the first stripe.
        position: The number of the first row that is written.
        scales: The factor of Z for each row.
        weights: For each row the weights of the rows before it, from row `first` on.
        first: The number of the oldest row that has a weight.
    """
    capacity, columns, count = window.shape[1], window.shape[2], scales.size
    totals, normals, words = np.empty((4, columns)), np.empty(columns), work_space()
    for stripe in range(window.shape[0]):
        rows = window[stripe]
        r = 0
        while r < count:
            # Four rows read each row before them once; what they use of one another is added last.
            group = 4 if r + 4 <= count else 1
            totals[:group] = 0.0
            before = position + r
            if group == 4:
                total0, total1, total2, total3 = totals[0], totals[1], totals[2], totals[3]
                past = first
                while past + 2 <= before:
                    i = past - first
                    one, two = rows[past % capacity], rows[(past + 1) % capacity]
                    a0, a1, a2, a3 = weights[r, i], weights[r + 1, i], weights[r + 2, i], weights[r + 3, i]
                    b0, b1 = weights[r, i + 1], weights[r + 1, i + 1]
                    b2, b3 = weights[r + 2, i + 1], weights[r + 3, i + 1]
                    for j in range(columns):
                        x, y = np.float64(one[j]), np.float64(two[j])
                        total0[j] = total0[j] + a0 * x + b0 * y
                        total1[j] = total1[j] + a1 * x + b1 * y
                        total2[j] = total2[j] + a2 * x + b2 * y
                        total3[j] = total3[j] + a3 * x + b3 * y
                    past += 2
                while past < before:
                    for own in range(4):
                        _add_row(totals[own], weights[r + own, past - first], rows[past % capacity])
                    past += 1
            else:
                for past in range(first, before):
                    _add_row(totals[0], weights[r, past - first], rows[past % capacity])
            for own in range(group):
                for earlier in range(own):
                    weight = weights[r + own, before + earlier - first]
                    _add_row(totals[own], weight, rows[(before + earlier) % capacity])
                fill_stripe(key, before + own, place + stripe, words, normals)
                _finish(totals[own], normals, scales[r + own], rows[(before + own) % capacity])
            r += group


@numba.njit(nogil=True, cache=True, error_model="numpy")
def next_buffered_row(window, buffers, key, place, position, scale, decays, weights):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Write the next row into a window of one, in steps of the grid, and add it to the buffers once they have faded.

    Args:
        window: Stripes, by one row, by columns of a stripe.
        buffers: Stripes, by buffers, by columns of a stripe.
        key: The words of the key of Z.
        place: The number of the first stripe.
        position: The number of the row.
        scale: The factor of Z.
        decays: The factors by which buffers fade.
        weights: The weights of the buffers in the row.
    """
    total, normals, words = np.empty(window.shape[2]), np.empty(window.shape[2]), work_space()
    for stripe in range(window.shape[0]):
        total[:] = 0.0
        for i in range(decays.size):
            _add_row(total, weights[i], buffers[stripe, i])
        fill_stripe(key, position, place + stripe, words, normals)
        row = window[stripe, 0]
        _finish(total, normals, scale, row)
        for i in range(decays.size):
            buffer, decay = buffers[stripe, i], decays[i]
            for j in range(row.size):
                buffer[j] = decay * buffer[j] + np.float64(row[j])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def moving_sum(total, key, place, position, scales):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set stripes to a sum of rows of Z, from row `position` back, times their factors.

    Args:
        total: Stripes by columns.
        key: The words of the key of Z.
        place: The number of the first stripe.
        position: The number of the newest row of Z.
        scales: The factors, that of the newest row first.
    """
    normals, words = np.empty(total.shape[1]), work_space()
    for stripe in range(total.shape[0]):
        own = total[stripe]
        own[:] = 0.0
        for lag in range(scales.size):
            fill_stripe(key, position - lag, place + stripe, words, normals)
            _add_row(own, scales[lag], normals)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def release_rows(sums, window, slot, key, place, position, first, unit):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add rows of noise to sums, smooth them and round them to the grid, in place; return whether all were in range.

    Whole numbers are taken off before anything is rounded, so the one rounding error is that of a few steps.

    Args:
        sums: A flat array. Its first value belongs to column `first` of the first stripe.
        window: Stripes by rows by columns, in steps of the grid.
        slot: Which of the rows of the window is added.
        key: The words of the key of the smoothing.
        place: The number of the first stripe.
        position: The number of the row.
        first: The column of the first stripe at which the sums begin.
        unit: The step of a released sum.
    """
    good = True
    normals, words = np.empty(window.shape[2]), work_space()
    start = 0
    for stripe in range(window.shape[0]):
        begin = first if stripe == 0 else 0
        end = min(window.shape[2], begin + sums.size - start)
        total = sums[start : start + end - begin]
        fill_stripe(key, position, place + stripe, words, normals)
        row, z = window[stripe, slot, begin:end], normals[begin:end]
        for j in range(total.size):
            steps = total[j] / unit
            good &= abs(steps) < MOST_STEPS
            whole, noise = _rounded(steps), _rounded(row[j])
            rest = ((steps - whole) + (row[j] - noise)) + SMOOTHING * z[j]
            total[j] = ((whole + noise) + _rounded(rest)) * unit
        start += total.size
    return good
