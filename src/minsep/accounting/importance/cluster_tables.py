"""The weights of clusters: participations of several copies, fewer iterations apart than columns reach.

The participations of all copies, in their order, fall into windows: one begins at the first participation, and the next
one at the first participation after the `bands` iterations of the window before. In a window every copy takes part at
most once. A window of m participations weighs

    (k over m) q^m e^(beta rho(0) m (m - 1) / 2)

times a factor for where they are, relative to all at the first place. This factor and what a window has in common with
the one that follows are bounded from above by products over iterations, which a recursion over iterations can sum up
and draw from, whatever the number of copies. docs/certified-sampling.md, section 10, has the proof.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from minsep.accounting.importance.tuple_tables import DONE, NO_ROOM, NO_WORDS
from minsep.core.arrays import FloatArray, IntegerArray
from minsep.randomness.variates import uniform


class Model(NamedTuple):
    """All that the weight of a tuple depends on.

    Attributes:
        column: The column of C.
        rho: Inner products of columns by their lag, up to the number of bands.
        highest: The largest inner product at a lag or a larger one, by lag.
        beta: One over the variance of the noise.
        min_sep: The separation of participations of one copy.
        iterations: The number of iterations.
        log_miss: The logarithm of the probability of not taking part.
        log_starts: The logarithm of the share of starts that allow a first participation then, up to `min_sep`.
    """

    column: FloatArray
    rho: FloatArray
    highest: FloatArray
    beta: float
    min_sep: int
    iterations: int
    log_miss: float
    log_starts: FloatArray


class Windows(NamedTuple):
    """The weights of windows by their number of participations m, and by what follows.

    A kind says how the places of a window are weighed: apart, slope, following, gap, after and last. With N
    participations up to an iteration, n of them in the iteration itself, its factor is
    e^(-beta slope N (m - N) + beta apart n^2 / 2 + beta following n shared), where shared is the most that its column
    can have in common with one of the next window, which begins `gap` iterations or more after this one ends. The last
    participation is from `after` to `last` iterations after the first.

    Attributes:
        weights: What a window weighs whose participations are all at its first place.
        far: Kinds of windows that nothing follows closely, by class of their length.
        far_sums: For each m and class, the sum over places.
        near: For each m, number of participations of the next window and class of the gap: the kind.
        near_sums: The same, the sum over places.
        gaps: The first gap of each class of gaps, and the number of gaps.
    """

    weights: FloatArray
    far: FloatArray
    far_sums: FloatArray
    near: FloatArray
    near_sums: FloatArray
    gaps: IntegerArray


@numba.njit(nogil=True, cache=True, error_model="numpy")
def chord(distances, last):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return (a, g) with a + g x <= distances[x] for x = 1, ..., last, and equality at 1."""
    if last < 1:
        return 0.0, 0.0
    slope = 0.0
    for x in range(2, last + 1):
        rise = (distances[x] - distances[1]) / (x - 1)
        slope = rise if x == 2 else min(slope, rise)
    return distances[1] - slope, slope


@numba.njit(nogil=True, cache=True, error_model="numpy")
def sum_places(m, kind, model, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the sum over the places of m participations, the first at 0.

    Args:
        sums: Set to the sums up to each iteration, by how many of them are there by then.
    """
    apart, slope, following, gap = kind[0], kind[1], kind[2], int(kind[3])
    after, last = int(kind[4]), int(kind[5])
    bands = model.rho.size
    ways, decays = np.empty(m + 1), np.empty(m + 1)
    for c in range(m + 1):
        ways[c] = math.exp(model.beta * apart * c * c / 2 - math.lgamma(c + 1.0))
        decays[c] = math.exp(-model.beta * slope * c * (m - c))
    for t in range(last + 1):
        each = math.exp(model.beta * following * model.highest[bands + gap - t])
        for total in range(m + 1):
            sums[t, total] = 0.0
        if t == 0:
            power = 1.0
            for c in range(1, m + 1):
                power *= each
                sums[0, c] = ways[c] * power
        else:
            for before in range(1, m + 1):
                base = sums[t - 1, before] * decays[before]
                if base != 0.0:
                    for c in range(m - before + 1):
                        sums[t, before + c] += base * ways[c]
                        base *= each
        if t == after - 1:
            sums[t, m] = 0.0
    return sums[last, m] * _all_places(m, apart, model)


@numba.njit(nogil=True, inline="always")
def _all_places(m, apart, model):  # type: ignore[no-untyped-def]  # pragma: no cover
    return math.exp(math.lgamma(m + 1.0) - model.beta * apart * m * m / 2)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_windows(windows, copies, model):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill the tables of windows, but for their weights and gaps."""
    bands = model.rho.size
    sums = np.empty((bands, copies + 1))
    distances = model.rho[0] - model.rho
    # A copy that is in the window before returns after the separation at the earliest.
    returning = distances.copy()
    for x in range(1, bands):
        returning[x] -= model.highest[model.min_sep - x]
    for place in range(windows.far.shape[0]):
        kind = windows.far[place]
        kind[0], kind[1] = chord(distances, int(kind[5]))
        for m in range(1, copies + 1):
            if m > 1 or kind[5] == 0.0:
                windows.far_sums[m, place] = sum_places(m, kind, model, sums)
    other = np.empty(6)
    for m in range(1, copies + 1):
        for following in range(1, copies + 1):
            for place in range(windows.gaps.size - 1):
                kind = windows.near[m, following, place]
                last = 0 if m == 1 else bands - 1
                kind[2], kind[3], kind[4], kind[5] = following, windows.gaps[place], 0, last
                kind[0], kind[1] = chord(distances, last)
                total = sum_places(m, kind, model, sums)
                if following > copies - m:
                    other[:] = kind
                    other[2] = copies - m
                    other[0], other[1] = chord(returning, last)
                    least = sum_places(m, other, model, sums)
                    if least < total:
                        kind[:] = other
                        total = least
                windows.near_sums[m, following, place] = total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_totals(totals, begun, windows, log_miss_of_all, bands):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill the weights of all that can happen from each iteration on, and of a window of m that begins there.

    Args:
        totals: From each iteration on, the last entry being the end of the run.
        begun: The same of a window that begins there, by m.
        log_miss_of_all: The logarithm of the probability that no copy takes part in an iteration.
    """
    n, copies = begun.shape[0], begun.shape[1] - 1
    gaps, weights = windows.gaps, windows.weights
    miss, pause = math.exp(log_miss_of_all), gaps[-1]
    within = math.exp(bands * log_miss_of_all)
    far = np.zeros(copies + 1)
    for m in range(1, copies + 1):
        far[m] = windows.far_sums[m].sum()
    close = np.empty((copies + 1, gaps.size))
    totals[n] = 1.0
    for i in range(n - 1, -1, -1):
        for following in range(1, copies + 1):
            for place in range(gaps.size - 1):
                total = 0.0
                for j in range(i + bands + gaps[place], min(i + bands + gaps[place + 1], n)):
                    total += begun[j, following]
                close[following, place] = total
        later = i + bands + pause
        alone = totals[later] if later < n else math.exp((n - later) * log_miss_of_all)
        alone *= math.exp(pause * log_miss_of_all)
        whole = miss * totals[i + 1]
        for m in range(1, copies + 1):
            total = far[m] * alone
            for following in range(1, copies + 1):
                for place in range(gaps.size - 1):
                    total += windows.near_sums[m, following, place] * close[following, place]
            begun[i, m] = weights[m] * within * total
            whole += begun[i, m]
        totals[i] = whole


@numba.njit(nogil=True, inline="always")
def _inner_product(model, later, lag):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the inner product of the column of an iteration with an earlier one, both cut at the end of the run."""
    left = model.iterations - later
    if lag >= model.rho.size:
        return 0.0
    if left >= model.rho.size - lag:
        return model.rho[lag]
    total = 0.0
    for place in range(left):
        total += model.column[place] * model.column[place + lag]
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_place_weight(m, kind, model, offsets):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the logarithm of the factor of given places, in their order, for one way to number them."""
    apart, slope, following, gap = kind[0], kind[1], kind[2], int(kind[3])
    bands = model.rho.size
    value, squares, count = 0.0, 0.0, 0.0
    for a in range(m):
        value += following * model.highest[bands + gap - offsets[a]]
        if a > 0:
            value -= slope * a * (m - a) * (offsets[a] - offsets[a - 1])
        count += 1.0
        if a == m - 1 or offsets[a + 1] != offsets[a]:
            squares += count * count
            count = 0.0
    return model.beta * (value - apart * (m * m - squares) / 2)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_share(count, times, owners, starts, kinds, pauses, copies, model):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the logarithm of what a tuple weighs over the weight by which it is drawn; -inf if it cannot be.

    Args:
        count: The number of participations.
        times: Their iterations, in order.
        owners: Their copies.
        starts: For each window the place of its first participation, and the number of all.
        kinds: For each window its kind.
        pauses: The sum of the gaps after which a window followed closely.
    """
    n, b = model.iterations, model.min_sep
    previous = np.full(copies, -1)
    value = pauses * copies * model.log_miss
    for place in range(count):
        i, owner = times[place], owners[place]
        if i >= n or (previous[owner] >= 0 and i - previous[owner] < b):
            return -np.inf
        if previous[owner] < 0:
            value += model.log_starts[min(i, b - 1)]
        previous[owner] = i
        earlier = place - 1
        while earlier >= 0 and i - times[earlier] < model.rho.size:
            value += model.beta * _inner_product(model, i, i - times[earlier])
            earlier -= 1
    for owner in range(copies):
        if previous[owner] < 0:
            value += model.log_starts[b - 1]
        elif n - previous[owner] < b:
            value += (b - (n - previous[owner])) * model.log_miss
    for window in range(starts.size - 1):
        first, last = starts[window], starts[window + 1]
        m = last - first
        value -= model.beta * model.rho[0] * m * (m - 1) / 2
        value -= log_place_weight(m, kinds[window], model, times[first:last] - times[first])
    return value


@numba.njit(nogil=True, inline="always")
def _chosen(sums, target):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the first place at which the sum of weights passes a target, or the last with a weight."""
    running, found = 0.0, 0
    for place in range(sums.size):
        if sums[place] > 0.0:
            running += sums[place]
            found = place
            if running > target:
                break
    return found


@numba.njit(nogil=True, cache=True, error_model="numpy")
def draw_clusters(totals, begun, idle, windows, model, words, first_word, progress, found, shares):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Draw tuples forward through the tables; return DONE, or what ran out before.

    Args:
        idle: The logarithm of the chance that no window begins before each iteration.
        progress: The numbers of tuples, words and participations so far. They are updated: drawing continues from
            there.
        shares: Set to the logarithm of what each tuple weighs over the weight by which it is drawn.
    """
    n, copies = begun.shape[0], begun.shape[1] - 1
    bands, gaps = model.rho.size, windows.gaps
    pause = gaps[-1]
    log_miss_of_all = copies * model.log_miss
    sums = np.empty((bands, copies + 1))
    most = n // bands + 2
    times, owners = np.empty(most * copies, dtype=np.int64), np.empty(most * copies, dtype=np.int64)
    starts, kinds = np.zeros(most + 1, dtype=np.int64), np.empty((most, 6))
    order = np.empty(copies, dtype=np.int64)
    options = np.empty((copies + 1) * gaps.size)
    sizes = np.empty(copies + 1)
    for sample in range(progress[0], shares.size):
        used, count, window, pauses = progress[1] - first_word, 0, 0, 0
        i, m = 0, 0
        while i < n:
            if used + 8 + bands + copies > words.size:
                return NO_WORDS
            if m == 0:
                # Wait for the next window.
                survival = idle[i] + math.log(1.0 - uniform(words[used]))
                used += 1
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
                sizes[0] = 0.0
                sizes[1:] = begun[i, 1:]
                m = _chosen(sizes, sizes.sum() * uniform(words[used]))
                used += 1
            # What follows: nothing close, or a window of so many after a gap of one class.
            later = i + bands + pause
            alone = totals[later] if later < n else math.exp((n - later) * log_miss_of_all)
            alone *= math.exp(pause * log_miss_of_all)
            options[:] = 0.0
            options[0] = windows.far_sums[m].sum() * alone
            for following in range(1, copies + 1):
                for place in range(gaps.size - 1):
                    total = 0.0
                    for j in range(i + bands + gaps[place], min(i + bands + gaps[place + 1], n)):
                        total += begun[j, following]
                    options[following * gaps.size + place] = windows.near_sums[m, following, place] * total
            option = _chosen(options, options.sum() * uniform(words[used]))
            used += 1
            following, place = option // gaps.size, option % gaps.size
            if following == 0:
                chosen = _chosen(windows.far_sums[m], windows.far_sums[m].sum() * uniform(words[used]))
                used += 1
                kind = windows.far[chosen]
                reached = min(later, n)
            else:
                kind = windows.near[m, following, place]
                begin = i + bands + gaps[place]
                weights = begun[begin : min(i + bands + gaps[place + 1], n), following]
                reached = begin + _chosen(weights, weights.sum() * uniform(words[used]))
                used += 1
                pauses += reached - i - bands
            # The places, from the last to the first.
            sum_places(m, kind, model, sums)
            total, slot = m, count + m
            for t in range(int(kind[5]), 0, -1):
                each = math.exp(model.beta * kind[2] * model.highest[bands + int(kind[3]) - t])
                target = sums[t, total] * uniform(words[used])
                used += 1
                running, taken, power = 0.0, 0, 1.0
                for c in range(total):
                    before = total - c
                    ways = math.exp(model.beta * kind[0] * c * c / 2 - math.lgamma(c + 1.0)) * power
                    weight = sums[t - 1, before] * math.exp(-model.beta * kind[1] * before * (m - before)) * ways
                    if weight > 0.0:
                        running += weight
                        taken = c
                        if running > target:
                            break
                    power *= each
                for _ in range(taken):
                    slot -= 1
                    times[slot] = i + t
                total -= taken
            while slot > count:
                slot -= 1
                times[slot] = i
            for c in range(copies):
                order[c] = c
            for c in range(m):
                other = c + min(int(uniform(words[used]) * (copies - c)), copies - c - 1)
                used += 1
                order[c], order[other] = order[other], order[c]
                owners[count + c] = order[c]
            kinds[window] = kind
            count += m
            window += 1
            starts[window] = count
            i, m = reached, following
        shares[sample] = log_share(count, times, owners, starts[: window + 1], kinds, pauses, copies, model)
        have = progress[2]
        if shares[sample] > -np.inf:
            if have + count > found.times.size:
                return NO_ROOM
            for c in range(count):
                found.samples[have + c] = sample
                found.times[have + c] = times[c]
                found.weights[have + c] = 1.0
            have += count
        progress[0], progress[1], progress[2] = sample + 1, first_word + used, have
    return DONE
