"""The tilted law of random allocation: copies of one example's places, drawn epoch by epoch.

Epochs are independent and columns orthogonal, so a tuple of k places of one epoch has weight t^-k exp(pairs / s2): t is
the epoch, s2 the variance over the squared norm of a column, and pairs the number of pairs of copies at the same place
within the run. All that matters of a tuple is how many copies are together: a split of those within the run into
groups, whose places are distinct and otherwise uniform. docs/certified-sampling.md, section 9, has the proof.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numba
import numpy as np
from scipy.special import logsumexp

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import BoundedLaw, ScoredLaw
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.importance.tuple_tables import Participations
from minsep.accounting.pairs import AllocationPair, Pair
from minsep.core.arrays import FloatArray, IntegerArray, Rows
from minsep.core.identity import Description
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import uniform

MOST_COPIES = 12
"""Most copies of an allocated law: 77 splits of an epoch."""


class Splits(NamedTuple):
    """How the copies of an epoch may be split into groups: a row of group sizes each, and the logarithms of weights."""

    sizes: IntegerArray
    log_weights: FloatArray

    @property
    def log_total(self) -> float:
        """Logarithm of the weight of all splits."""
        return float(logsumexp(self.log_weights))

    @property
    def cumulative(self) -> FloatArray:
        """Probability of each split or one before it."""
        return np.cumsum(np.exp(self.log_weights - self.log_total))


def splits_of(copies: int, epoch: int, within: int, log_meeting: float) -> Splits:
    """Return the splits of copies in an epoch of which `within` iterations are in the run.

    Args:
        log_meeting: The logarithm of what a pair of copies at one place weighs.

    >>> splits = splits_of(copies=2, epoch=4, within=4, log_meeting=math.log(3.0))
    >>> splits.sizes.tolist(), np.exp(splits.log_weights).round(4).tolist()
    ([[2, 0], [1, 1]], [0.75, 0.75])
    """
    beyond = epoch - within
    sizes, log_weights = [], []
    for inside in range(copies if beyond == 0 else 0, copies + 1):
        for groups in _partitions(inside, inside):
            if len(groups) > within:
                continue
            ways = (
                math.comb(copies, inside) * _ways(groups) * math.perm(within, len(groups)) * beyond ** (copies - inside)
            )
            meetings = sum(math.comb(size, 2) for size in groups)
            sizes.append([*groups, *[0] * (copies - len(groups))])
            log_weights.append(math.log(ways) - copies * math.log(epoch) + meetings * log_meeting)
    return Splits(np.array(sizes, dtype=np.int64), np.array(log_weights))


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as a sum of decreasing ones."""
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


def _ways(groups: tuple[int, ...]) -> int:
    """Return the number of ways to split copies into groups of these sizes."""
    same = math.prod(map(math.factorial, [*groups, *Counter(groups).values()]))
    return math.factorial(sum(groups)) // same


@dataclass(frozen=True)
class AllocatedLaw(ScoredLaw, BoundedLaw):
    """The Renyi-tilted law dP'/dQ = R^k / M of random allocation, for `remove`: k copies."""

    pair: AllocationPair
    direction: Direction
    copies: int
    payoff: Payoff = field(default=ALONE, kw_only=True)
    kind = "allocated"

    def __post_init__(self) -> None:
        if self.direction != "remove":
            raise ValueError(f"direction is {self.direction!r}, but an allocated law is for `remove`.")
        if not 1 <= self.copies <= MOST_COPIES:
            raise ValueError(f"copies is {self.copies}, but it must be from 1 to {MOST_COPIES}.")

    @property
    def power(self) -> int:
        """k: the number of copies."""
        return self.copies

    @property
    def scale(self) -> float:
        """1: each copy moves samples as P moves them."""
        return 1.0

    @cached_property
    def log_constant(self) -> float:
        """Logarithm of M: the sum over epochs of that of the weight of all splits."""
        epochs = self.pair.strategy.iterations // self.pair.epoch
        whole = epochs * self._whole.log_total if epochs else 0.0
        return whole + self._last.log_total

    def log_bound(self, epsilon: float) -> float:
        """Return log M + the largest log of (R - e^eps) R^-k."""
        k = float(self.copies)
        return self.log_constant - (k - 1) * epsilon + self.payoff.log_peak(k - 1)

    @property
    def distance(self) -> float:
        """Probability that a drawn sample is not close to one of its exact law; splits are drawn as well."""
        epochs = self.pair.law.most_participations(self.pair.strategy.iterations)
        choices = len(self._last.sizes) + len(self._whole.sizes)
        return min(super().distance + epochs * choices * 2.0**-52, 1.0)

    def draw_scores(self, key: Key, chunk: int) -> Rows:
        """Return the scores of the samples of a chunk."""
        key = key.derive(self.direction)
        rows = self.pair.noise(key, chunk)
        self.pair.filter.add_columns(rows, *self.draw_places(key, chunk))
        return self.pair.filter.scores(rows)

    def log_density(self, scores: Rows, log_ratio: FloatArray) -> FloatArray:
        """Return log dP'/dQ of samples, by their log R."""
        return self.copies * log_ratio - self.log_constant

    def draw_places(self, key: Key, chunk: int) -> Participations:
        """Return all participations in a chunk of tuples, their columns summed over copies."""
        n, epoch, count = self.pair.strategy.iterations, self.pair.epoch, self.samples_in_chunk
        words_of_sample = self.pair.law.most_participations(n) * (self.copies + 1)
        words = KeyedWords(key.derive("places")).take(chunk, count * words_of_sample)
        drawn = Participations.empty(words.size)
        whole, last = ((splits.cumulative, splits.sizes) for splits in (self._whole, self._last))
        return drawn.first(_draw_places(words, count, n, epoch, whole, last, drawn))

    @cached_property
    def _whole(self) -> Splits:
        return splits_of(self.copies, self.pair.epoch, self.pair.epoch, self._log_meeting)

    @cached_property
    def _last(self) -> Splits:
        """The splits of an epoch that the run ends in, which may have no iterations."""
        within = self.pair.strategy.iterations % self.pair.epoch
        return splits_of(self.copies, self.pair.epoch, within, self._log_meeting)

    @property
    def _log_meeting(self) -> float:
        return 2 * float(self.pair.half_norms[0])

    @classmethod
    def read(
        cls, description: Description, pair: Pair, direction: Direction, payoff: Payoff = ALONE
    ) -> "AllocatedLaw | None":
        """Return the law of a pair and direction that gave a description; None unless there is exactly such a law."""
        match description:
            case {"kind": cls.kind, "copies": int() as copies, **rest} if (
                not rest and (allocation := pair.allocation) is not None
            ):
                if direction == "remove" and 1 <= copies <= MOST_COPIES:
                    return cls(allocation, direction, copies, payoff=payoff)
        return None

    @classmethod
    def in_words(cls, description: Description) -> str:
        """Return what is drawn, in words."""
        match description:
            case {"copies": copies}:
                return f"a tilted law ({copies} copies)"
        return super().in_words(description)

    def describe(self) -> Description:
        """Return the law as plain data."""
        return {"kind": self.kind, "copies": self.copies}


def best_allocated(pair: AllocationPair, epsilon: float, payoff: Payoff = ALONE) -> AllocatedLaw:
    """Return the allocated law of least bound for `remove`; with one copy it is the mechanism itself.

    The logarithm of the bound is convex in the number of copies, so the search ends where it grows.
    """
    best = AllocatedLaw(pair, "remove", 1, payoff=payoff)
    for copies in range(2, MOST_COPIES + 1):
        law = AllocatedLaw(pair, "remove", copies, payoff=payoff)
        if law.log_bound(epsilon) >= best.log_bound(epsilon):
            break
        best = law
    return best


@numba.njit(nogil=True, cache=True)
def _draw_places(words, count, iterations, epoch, whole, last, drawn):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Draw a split for every sample and epoch, and then distinct places for its groups; return how many."""
    copies = whole[1].shape[1]
    taken = np.empty(copies, dtype=np.int64)  # in increasing order
    used, found = 0, 0
    for sample in range(count):
        for first in range(0, iterations, epoch):
            within = min(epoch, iterations - first)
            cumulative, sizes = whole if within == epoch else last
            split = min(np.searchsorted(cumulative, uniform(words[used]), side="right"), cumulative.size - 1)
            for group in range(copies):
                if sizes[split, group] == 0:
                    break
                place = min(int(uniform(words[used + 1 + group]) * (within - group)), within - group - 1)
                rank = 0
                while rank < group and place >= taken[rank]:
                    place += 1
                    rank += 1
                for k in range(group, rank, -1):
                    taken[k] = taken[k - 1]
                taken[rank] = place
                drawn.samples[found] = sample
                drawn.times[found] = first + place
                drawn.weights[found] = sizes[split, group]
                found += 1
            used += copies + 1
    return found
