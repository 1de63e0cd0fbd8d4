"""Participation times of single examples, many at once."""

import numba
import numpy as np

from minsep.core.arrays import IntegerArray
from minsep.participation.renewal import RenewalLaw, first_phase, next_time
from minsep.randomness import KeyedWords
from minsep.randomness.variates import failures


def draw_times(
    law: RenewalLaw, iterations: int, count: int, words: KeyedWords, stream: int
) -> tuple[IntegerArray, IntegerArray]:
    """Return all participations of `count` independent examples, as (example, time from 0) pairs in order.

    The result is a function of (law, iterations, count, key, stream).
    """
    room = int(count * (4 + 1.5 * iterations / law.mean_gap)) + 64
    while True:
        source = words.take(stream, room + room % 2)
        examples = np.empty(room, dtype=np.int64)
        times = np.empty(room, dtype=np.int64)
        found = _walk(source, iterations, count, law, law.log_miss, examples, times)
        if found >= 0:
            return examples[:found], times[:found]
        room *= 2  # The words begin the same, so the walks do.


@numba.njit(nogil=True, cache=True)
def _walk(words, iterations, count, law, log_miss, examples, times):  # type: ignore[no-untyped-def]  # pragma: no cover
    used = 0
    found = 0
    for example in range(count):
        if used + 2 > words.size:
            return -1
        phase = first_phase(words[used], law.phases, law.first_phase)
        time = phase + law.stride * failures(words[used + 1], log_miss)
        used += 2
        while time <= iterations:
            if found == times.size or used == words.size:
                return -1
            examples[found] = example
            times[found] = int(time) - 1
            found += 1
            time = next_time(time, words[used], law, log_miss)
            used += 1
    return found
