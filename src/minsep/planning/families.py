"""The schemes that a plan tries, each with the separations that make sense for it."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from minsep.participation import (
    BallsInBins,
    CyclicPoisson,
    MinSep,
    MultiAttributionMinSep,
    Poisson,
    RandomAllocation,
    Scheme,
    UserMinSep,
)
from minsep.planning.task import Task

_MOST_WAIT = 100.0


@dataclass(frozen=True)
class Family(ABC):
    """One scheme with all of its separations."""

    kind: ClassVar[str]
    words: ClassVar[str]
    """The scheme without its separation, in words."""
    an_epoch_apart: ClassVar[bool] = False
    """Whether participations are an epoch apart, whatever the task."""
    covers_users: ClassVar[bool] = True
    """Whether users with several examples can be accounted for."""
    is_baseline: ClassVar[bool] = True
    """Whether it is what others have, and ours is compared with."""

    def bands(self, max_bands: int) -> list[int]:
        """Return the numbers of bands to try."""
        return doubling(1, max_bands)

    @abstractmethod
    def separations(self, task: Task, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the separations to try.

        `min_sep` is the one requested, `epoch_is_tried` whether another family keeps participations an epoch apart.
        """

    @abstractmethod
    def scheme(self, task: Task, separation: int) -> Scheme:
        """Return the scheme for a task."""

    @abstractmethod
    def name(self, separation: int) -> str:
        """Return the scheme with a separation, in words, whether it can be run or not."""


class PoissonFamily(Family):
    """DP-SGD."""

    kind = Poisson.kind
    words = "DP-SGD, Poisson sampling"

    def bands(self, max_bands: int) -> list[int]:
        """Return 1: more bands need a separation."""
        return [1]

    def separations(self, task: Task, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return 1."""
        return [1]

    def scheme(self, task: Task, separation: int) -> Scheme:
        """Return the scheme for a task."""
        if task.user_bound > 1:
            return UserMinSep(task.rate, 1, task.user_bound, graph=task.graph)
        return Poisson(task.rate)

    def name(self, separation: int) -> str:
        """Return the scheme in words."""
        return Poisson.in_words(separation)


class RandomAllocationFamily(Family):
    """DP-SGD with exactly one participation an epoch."""

    kind = RandomAllocation.kind
    words = "DP-SGD, random allocation"
    covers_users = False

    def bands(self, max_bands: int) -> list[int]:
        """Return 1: more bands need a separation."""
        return [1]

    def separations(self, task: Task, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return 1: the end of an epoch and the beginning of the next are neighbours."""
        return [1]

    def scheme(self, task: Task, separation: int) -> Scheme:
        """Return the scheme for a task."""
        return RandomAllocation(task.epoch)

    def name(self, separation: int) -> str:
        """Return the scheme in words."""
        return RandomAllocation.in_words(separation)


class CyclicPoissonFamily(Family):
    """Cyclic Poisson sampling, in as many parts as there are bands."""

    kind = CyclicPoisson.kind
    words = "cyclic Poisson"
    covers_users = False

    def separations(self, task: Task, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the bands."""
        return [bands] if bands > 1 else []

    def scheme(self, task: Task, separation: int) -> Scheme:
        """Return the scheme for a task."""
        return CyclicPoisson(task.rate, separation, "random" if task.truncation is None else "equal")

    def name(self, separation: int) -> str:
        """Return the scheme with its cycle, in words."""
        return CyclicPoisson.in_words(separation)


class BallsInBinsFamily(Family):
    """Balls-in-bins sampling, an epoch apart."""

    kind = BallsInBins.kind
    words = "balls-in-bins"
    an_epoch_apart = True
    covers_users = False

    def separations(self, task: Task, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the epoch."""
        return [task.epoch]

    def scheme(self, task: Task, separation: int) -> Scheme:
        """Return the scheme for a task."""
        return BallsInBins(task.epoch)

    def name(self, separation: int) -> str:
        """Return the scheme with its epoch, in words."""
        return BallsInBins.in_words(separation)


class MinSepFamily(Family):
    """b-min-sep sampling, from as many iterations apart as there are bands up to an epoch."""

    kind = MinSep.kind
    words = "b-min-sep"
    is_baseline = False

    def separations(self, task: Task, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the separation requested, or else the bands, doubled up to an epoch."""
        if min_sep is not None:
            return [min_sep]
        if bands == 1:
            return []  # nothing to keep apart: as good as Poisson sampling
        separations = doubling(bands, task.longest_separation) or [bands]
        if task.user_bound > 1:
            separations = [b for b in separations if b == bands or _waits(task, b)]
        # With a separation of an epoch b-min-sep is balls-in-bins.
        return separations[:-1] if epoch_is_tried and len(separations) > 1 else separations

    def scheme(self, task: Task, separation: int) -> Scheme:
        """Return the scheme for a task."""
        if task.user_bound > 1:
            return UserMinSep(task.rate, separation, task.user_bound, graph=task.graph)
        return MinSep(task.rate, separation)

    def name(self, separation: int) -> str:
        """Return the scheme with its separation, in words."""
        return MinSep.in_words(separation)


class BlockingFamily(MinSepFamily):
    """b-min-sep in which a user's examples block each other: proven where no example has several users."""

    kind = MultiAttributionMinSep.kind
    words = "b-min-sep, blocking within a user"

    def separations(self, task: Task, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the separations of b-min-sep if users have several examples of their own, and else nothing."""
        if task.user_bound == 1 or task.graph is None or task.graph.has_shared_examples:
            return []
        return super().separations(task, bands, min_sep, epoch_is_tried)

    def scheme(self, task: Task, separation: int) -> Scheme:
        """Return the scheme for a task."""
        return MultiAttributionMinSep(
            expected_batch=task.batch_size,
            min_sep=separation,
            graph=task.graph,
            user_bound=task.user_bound,
            shared=False,
        )

    def name(self, separation: int) -> str:
        """Return the scheme with its separation, in words."""
        return f"{self.words}, b = {separation}"


FAMILIES: dict[str, Family] = {
    family.kind: family
    for family in (
        PoissonFamily(),
        RandomAllocationFamily(),
        CyclicPoissonFamily(),
        BallsInBinsFamily(),
        MinSepFamily(),
        BlockingFamily(),
    )
}
BASELINES = tuple(kind for kind, family in FAMILIES.items() if family.is_baseline)
"""The schemes that b-min-sep is compared with."""
PROPOSED = MinSep.kind
"""The scheme that the others are baselines for."""


def _waits(task: Task, separation: int) -> bool:
    """Return whether a user's examples wait long enough between participations for the fast recursion."""
    prob = task.rate / max(1 - task.rate * (separation - 1), task.rate)
    return prob < 1 and -task.user_bound * separation * math.log1p(-prob) <= _MOST_WAIT


def doubling(first: int, last: int) -> list[int]:
    """Return first, 2 first, 4 first, ... below last, and last; nothing if first is above it.

    >>> doubling(3, 20)
    [3, 6, 12, 20]
    """
    values, value = [], first
    while value < last:
        values.append(value)
        value *= 2
    return [*values, last] if first <= last else []
