"""Loops over the edges of an attribution graph: arrays in, arrays out.

A graph is in compressed rows: the users of example e are `users[offsets[e] : offsets[e + 1]]`, and the examples of a
user likewise in the transposed arrays.
"""

import numba
import numpy as np

from minsep.randomness.philox import philox
from minsep.randomness.variates import failures

LONG_AGO = -(2**31)
OUT_OF_WORDS = -1


@numba.njit(nogil=True, cache=True)
def transpose(offsets, users, starts, examples):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `examples` with the examples of each user, in increasing order; `starts` is overwritten as pointers."""
    for example in range(offsets.size - 1):
        for k in range(offsets[example], offsets[example + 1]):
            user = users[k]
            examples[starts[user]] = example
            starts[user] += 1


@numba.njit(nogil=True, cache=True)
def neighbourhood_sizes(offsets, users, user_offsets, examples, sizes):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Count for each example the examples with which it shares a user, including itself."""
    seen = np.full(sizes.size, -1, dtype=np.int64)
    for example in range(sizes.size):
        count = 0
        for k in range(offsets[example], offsets[example + 1]):
            user = users[k]
            for place in range(user_offsets[user], user_offsets[user + 1]):
                other = examples[place]
                if seen[other] != example:
                    seen[other] = example
                    count += 1
        sizes[example] = count


@numba.njit(nogil=True, cache=True)
def _has_room(offsets, users, example, bound, used):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether all users of an example have kept fewer examples than the bound."""
    for k in range(offsets[example], offsets[example + 1]):  # noqa: SIM110
        if used[users[k]] >= bound:
            return False
    return True


@numba.njit(nogil=True, cache=True)
def keep_in_order(offsets, users, order, bound, used, kept):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Keep each example of `order` whose users all have room, and return how many were kept."""
    count = 0
    for place in range(order.size):
        example = order[place]
        room = _has_room(offsets, users, example, bound, used)
        if room:
            for k in range(offsets[example], offsets[example + 1]):
                used[users[k]] += 1
            kept[count] = example
            count += 1
    return count


@numba.njit(nogil=True, cache=True)
def keep_in_order_with_neighbours(  # type: ignore[no-untyped-def]  # pragma: no cover
    offsets, users, order, bound, most, used, kept, sizes, before, newest, node_copy, node_next, copies, nodes
):
    """Like `keep_in_order`, but no kept copy may share users with more than `most` copies, including itself.

    Copies are numbered as they are kept. Return the numbers of kept examples, copies and nodes.

    Args:
        newest: The last node of each user. A node holds a copy and the user's node before it.
        copies: The number of copies that were kept already.
    """
    count = 0
    neighbours = np.empty(max(most, 1), dtype=np.int64)
    for place in range(order.size):
        example = order[place]
        room = _has_room(offsets, users, example, bound, used)
        found = 0
        if room:
            for k in range(offsets[example], offsets[example + 1]):
                node = newest[users[k]]
                while node >= 0 and room:
                    copy = node_copy[node]
                    # `before[copy]` marks the position at which the copy was last visited.
                    if before[copy] != place:
                        before[copy] = place
                        if found + 1 >= most or sizes[copy] >= most:
                            room = False
                        else:
                            neighbours[found] = copy
                            found += 1
                    node = node_next[node]
                if not room:
                    break
        if room:
            for k in range(found):
                sizes[neighbours[k]] += 1
            sizes[copies] = found + 1
            before[copies] = -1
            for k in range(offsets[example], offsets[example + 1]):
                user = users[k]
                used[user] += 1
                node_copy[nodes] = copies
                node_next[nodes] = newest[user]
                newest[user] = nodes
                nodes += 1
            kept[count] = example
            count += 1
            copies += 1
    return count, copies, nodes


@numba.njit(nogil=True, cache=True)
def fill_batches(offsets, users, order, separation, most, batches, last, used):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill rows of `batches` in turn from a circular order; return the number of full rows, and the rest's length.

    An example fits if none of its users took part in the last `separation - 1` rows or in this one, or `most` times.
    """
    place = 0
    for time in range(batches.shape[0]):
        filled = 0
        looked = 0
        while filled < batches.shape[1]:
            if looked == order.size:
                return time, filled
            example = order[place]
            place = place + 1 if place + 1 < order.size else 0
            looked += 1
            fits = True
            for k in range(offsets[example], offsets[example + 1]):
                user = users[k]
                if time - last[user] < separation or used[user] >= most:
                    fits = False
                    break
            if fits:
                for k in range(offsets[example], offsets[example + 1]):
                    last[users[k]] = time
                    used[users[k]] += 1
                batches[time, filled] = example
                filled += 1
    return batches.shape[0], 0


@numba.njit(nogil=True, cache=True)
def sample_by_skips(words, log_miss, num_examples, sampled):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Sample each example independently, by geometric skips; return how many, or OUT_OF_WORDS."""
    position = -1.0
    for count in range(words.size):
        position += 1.0 + failures(words[count], log_miss)
        if position >= num_examples:
            return count
        sampled[count] = int(position)
    return OUT_OF_WORDS


@numba.njit(inline="always")
def form_batch(offsets, users, sampled, time, separation, participated, last, batch):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `batch` with the sampled examples without barred users, update the bars, and return its size."""
    size = 0
    for place in range(sampled.size):
        example = sampled[place]
        free = True
        for k in range(offsets[example], offsets[example + 1]):
            if time - last[users[k]] < separation:
                free = False
                break
        if free:
            batch[size] = example
            size += 1
    # Examples of one iteration do not bar each other, so users are barred only now.
    blocking = batch[:size] if participated else sampled
    for place in range(blocking.size):
        example = blocking[place]
        for k in range(offsets[example], offsets[example + 1]):
            last[users[k]] = time
    return size


@numba.njit(nogil=True, cache=True)
def step(offsets, users, sampled, time, separation, participated, last, batch):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Run one iteration of Algorithm 3 or 4 of the paper on what was sampled, and return the size of the batch."""
    return form_batch(offsets, users, sampled, time, separation, participated, last, batch)


@numba.njit(nogil=True, cache=True)
def simulate_sizes(offsets, users, log_miss, separation, participated, key, last, sizes):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `sizes` with the batch sizes of a run from a cold start."""
    num_examples = offsets.size - 1
    sampled = np.empty(num_examples, dtype=np.int64)
    batch = np.empty(num_examples, dtype=np.int64)
    for time in range(sizes.size):
        count = 0
        block = np.uint64(0)
        position = -1.0
        while True:
            one, two = philox(block, np.uint64(time), key)
            block += np.uint64(1)
            position += 1.0 + failures(one, log_miss)
            if position >= num_examples:
                break
            sampled[count] = int(position)
            count += 1
            position += 1.0 + failures(two, log_miss)
            if position >= num_examples:
                break
            sampled[count] = int(position)
            count += 1
        sizes[time] = form_batch(offsets, users, sampled[:count], time, separation, participated, last, batch)
