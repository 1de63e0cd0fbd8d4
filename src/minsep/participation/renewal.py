"""Participation times as a renewal process: one form for every sampling scheme.

After each participation an example rests, and then takes part at the first success of a sequence of coin flips. So the
gap to its next participation is `rest + stride * G` with G geometric, and a batch costs as much as its examples: each
is looked at when it takes part, and not before. (Poisson: rest 0, stride 1. b-min-sep: rest b - 1, stride 1. Cyclic
Poisson: stride b. Balls-in-bins: probability 1.) The first participation comes `stride * (G - 1)` after a phase that is
1 with some probability and else uniform on the others. In random allocation the phase is drawn anew in every epoch, so
the next participation is at a phase of the next epoch.

Examples wait in linked lists, one for each iteration: `waiting[t]` is the first example that takes part at time t, and
`following[e]` the one after e, or -1. That is one integer for each example.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import IntegerArray, Words
from minsep.randomness.variates import failures, log_miss_of, uniform

NOBODY = -1
WORDS_AT_START = 2


class RenewalLaw(NamedTuple):
    """The law of one example's participation times, 1, 2, ..."""

    prob: float
    rest: int = 0
    stride: int = 1
    phases: int = 1
    first_phase: float = 1.0
    ordered: bool = False
    """Whether the phase follows from the example's index instead of chance."""
    epoch: int = 0
    """Length of epochs, in each of which an example takes part once at a phase drawn anew; 0 if there are none."""

    @classmethod
    def min_sep(cls, prob: float, separation: int, warm: bool) -> "RenewalLaw":
        """b-min-sep: rest after each participation; a warm start begins in the stationary state."""
        phases, first = (separation, 1 / (1 + (separation - 1) * prob)) if warm else (1, 1.0)
        return cls(prob=prob, rest=separation - 1, phases=phases, first_phase=first)

    @classmethod
    def cyclic(cls, prob: float, cycle: int, ordered: bool = False) -> "RenewalLaw":
        """Cyclic Poisson sampling: a uniform phase, and whole cycles between."""
        return cls(prob=prob, stride=cycle, phases=cycle, first_phase=1 / cycle, ordered=ordered)

    @classmethod
    def allocation(cls, epoch: int) -> "RenewalLaw":
        """Random allocation: once in every epoch, at a uniform phase."""
        return cls(prob=1.0, phases=epoch, first_phase=1 / epoch, epoch=epoch)

    @property
    def log_miss(self) -> float:
        """Logarithm of the probability of not taking part."""
        return log_miss_of(self.prob)

    @property
    def gap(self) -> int:
        """Number of iterations from one participation to the next, at least."""
        return self.rest + self.stride

    @property
    def mean_gap(self) -> float:
        """Expected number of iterations from one participation to the next."""
        return self.epoch or self.rest + self.stride / self.prob

    def most_participations(self, iterations: int) -> int:
        """Return the largest number of participations in a run.

        >>> RenewalLaw.allocation(epoch=4).most_participations(10)
        3
        """
        return -(-iterations // (self.epoch or self.gap))


@numba.njit(inline="always")
def first_phase(word, phases, first_prob):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return 1 with probability `first_prob`, and else one of 2, ..., `phases` with equal chances."""
    position = uniform(word)
    if position < first_prob:
        return 1
    share = (position - first_prob) / (1.0 - first_prob)
    return 2 + min(int(share * (phases - 1)), phases - 2)


@numba.njit(inline="always")
def next_time(time, word, law, log_miss):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the time of the participation after one at `time`, as a float that may be large."""
    if law.epoch > 0:
        ended = ((int(time) - 1) // law.epoch + 1) * law.epoch
        return float(ended + first_phase(word, law.phases, law.first_phase))
    return time + law.rest + law.stride * (1.0 + failures(word, log_miss))


@numba.njit(nogil=True, cache=True)
def enlist(waiting, following, first, words, law, log_miss):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put examples `first, first + 1, ...` into the lists of their first participations, two words each."""
    iterations = waiting.size - 1
    count = words.size // 2
    total = following.size
    for k in range(count):
        example = first + k
        if law.ordered:
            phase = 1 + (example * law.phases) // total
        else:
            phase = first_phase(words[2 * k], law.phases, law.first_phase)
        time = phase + law.stride * failures(words[2 * k + 1], log_miss)
        if time <= iterations:
            following[example] = waiting[int(time)]
            waiting[int(time)] = example


@numba.njit(nogil=True, cache=True)
def collect(waiting, following, time, batch):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Copy the examples that wait for `time` into `batch` as far as it has room, and return how many they are."""
    size = 0
    example = waiting[time]
    while example != NOBODY:
        if size < batch.size:
            batch[size] = example
        size += 1
        example = following[example]
    return size


@numba.njit(nogil=True, cache=True)
def return_batch(waiting, following, time, batch, words, law, log_miss):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put the examples of a batch into the lists of their next participations, one word each."""
    iterations = waiting.size - 1
    for k in range(batch.size):
        after = next_time(time, words[k], law, log_miss)
        if after <= iterations:
            following[batch[k]] = waiting[int(after)]
            waiting[int(after)] = batch[k]


class WaitingLists:
    """Who takes part when, from one iteration to the next."""

    def __init__(self, law: RenewalLaw, num_examples: int, iterations: int) -> None:
        index = np.int32 if num_examples <= np.iinfo(np.int32).max else np.int64
        self._law = law
        self._log_miss = law.log_miss
        self._waiting: NDArray[np.signedinteger] = np.full(iterations + 1, NOBODY, dtype=index)
        self._following: NDArray[np.signedinteger] = np.full(num_examples, NOBODY, dtype=index)
        self._room = np.empty(1024, dtype=np.int64)

    def enlist(self, first: int, words: Words) -> None:
        """Draw the first participation of examples from `first` on."""
        enlist(self._waiting, self._following, first, words, self._law, self._log_miss)

    def batch(self, time: int) -> IntegerArray:
        """Return the examples that take part at `time`, in increasing order."""
        size = collect(self._waiting, self._following, time, self._room)
        if size > self._room.size:
            self._room = np.empty(2 * size, dtype=np.int64)
            collect(self._waiting, self._following, time, self._room)
        return np.sort(self._room[:size])

    def send_back(self, time: int, batch: IntegerArray, words: Words) -> None:
        """Draw the next participation of every example of the batch at `time`."""
        return_batch(self._waiting, self._following, time, batch, words, self._law, self._log_miss)
