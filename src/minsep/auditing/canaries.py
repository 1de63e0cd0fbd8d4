"""Canaries in a run of a training loop: what the loop is given, and the record of what it did."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minsep.auditing.directions import Directions
from minsep.core import validation as validate
from minsep.core.arrays import BooleanArray, FloatArray, Words
from minsep.mechanism import Mechanism
from minsep.noise import release
from minsep.randomness import Key, KeyedWords

SIZES = (0.3, 0.8, 1.2, 1.2, 2.0, 2.0, 4.0, 4.0, 4.0, 10.0, 10.0, 10.0, 100.0, 100.0, 1e4, 1e4)
"""Norms of canaries' gradients in clip norms, equally likely. A correct loop clips all but the first two."""
SHARE_OF_CLIPPED = sum(size >= 1 for size in SIZES) / len(SIZES)
_LEAST_SIZE_ALONE = 10.0
_LEAST_COORDINATES = 64
"""A run with few canaries has noise in other coordinates too, and can have layers."""


@dataclass(frozen=True)
class Canaries:
    """The canaries of a run: each has gradients along a direction of its own.

    Attributes:
        directions: The orthonormal directions.
        places: The number of each canary's direction.
        present: Which canaries are in the data. The gradients of the others are 0.
        sizes: The norm of each canary's gradients, in clip norms.

    Examples:
        >>> canaries = Canaries.draw(3, seed=1)
        >>> canaries.directions.size, canaries.present.tolist(), canaries.sizes.tolist()
        (64, [True, True, True], [10.0, 4.0, 2.0])
        >>> Canaries.draw(3, seed=2).weights.tolist()
        [1.0, 0.3, 0.8]
    """

    directions: Directions
    places: NDArray[np.int64]
    present: BooleanArray
    sizes: FloatArray

    @classmethod
    def draw(cls, count: int, seed: int | None = None) -> "Canaries":
        """Draw canaries that are all present.

        Args:
            count: Number of canaries.
            seed: A seed that makes them reproducible.
        """
        key = Key.of(seed)
        canaries = cls.of_run(directions_for(count, key.derive("directions")), count, key.derive("canaries"), number=0)
        return replace(canaries, present=np.ones(count, dtype=bool))

    @classmethod
    def of_run(cls, directions: Directions, count: int, key: Key, number: int) -> "Canaries":
        """Draw the canaries of a run of an audit: each is present by a fair coin.

        Args:
            directions: The directions, at least as many as canaries.
            count: Number of canaries.
            key: The key of the audit's canaries.
            number: The number of the run.
        """
        coins, sizes, places = (KeyedWords(key.derive(purpose)) for purpose in ("coins", "sizes", "places"))
        return cls(
            directions,
            places=np.argsort(places.take(number, directions.size), kind="stable")[:count],
            present=coins_of(coins.take(number, count)),
            sizes=np.array(SIZES)[sizes.take(number, count) % np.uint64(len(SIZES))],
        )

    @classmethod
    def alone(cls, directions: Directions, count: int, key: Key, number: int) -> "Canaries":
        """Draw the few canaries of a run that is nearly empty: all are present, and far above the clip norm.

        Args:
            directions: The directions, at least as many as canaries.
            count: Number of canaries.
            key: The key of the audit's canaries.
            number: The number of the run.
        """
        canaries = cls.of_run(directions, count, key, number)
        sizes = np.maximum(canaries.sizes, _LEAST_SIZE_ALONE)
        return replace(canaries, present=np.ones(count, dtype=bool), sizes=sizes)

    @property
    def weights(self) -> FloatArray:
        """The norm of each canary's clipped gradient, in clip norms."""
        return np.minimum(self.sizes, 1.0)

    @property
    def are_clipped(self) -> BooleanArray:
        """Whether a correct loop clips each canary, so that it moves the sum by the clip norm."""
        clipped: BooleanArray = self.sizes >= 1
        return clipped

    def gradients(self, owners: NDArray[np.int64], clip_norm: float) -> FloatArray:
        """Return the gradients of canaries that are present, one a row.

        Args:
            owners: The numbers of the canaries.
            clip_norm: The clip norm.
        """
        rows = self.directions.vectors(self.places[owners])
        rows *= clip_norm * self.sizes[owners, None]
        return rows


def directions_for(canaries: int, key: Key) -> Directions:
    """Return the directions of an audit with so many canaries in a run."""
    return Directions(max(canaries, _LEAST_COORDINATES), key)


def layer_sizes(dimension: int) -> list[int]:
    """Return the sizes of the layers of a linear model: a loop may treat layers differently.

    >>> layer_sizes(64)
    [32, 16, 8, 8]
    """
    ends = [dimension // 2, dimension * 3 // 4, dimension * 7 // 8, dimension]
    return [end - start for start, end in pairwise([0, *ends])]


@dataclass(frozen=True)
class Observed:
    """What one run showed.

    Attributes:
        canaries: The canaries of the run.
        releases: A row for each direction: the sequence that was released along it, in clip norms and before the
            division by the expected batch.
        participations: How many examples of each canary took part in each step.
        taken: Which examples took part in each step.
        changed_steps: The number of steps that were released again with other values.
    """

    canaries: Canaries
    releases: FloatArray
    participations: NDArray[np.int64]
    taken: BooleanArray
    changed_steps: int

    @property
    def absent(self) -> BooleanArray:
        """For each direction, whether no canary of it is in the data, so that there is only noise."""
        absent = np.ones(self.releases.shape[0], dtype=bool)
        absent[self.canaries.places[self.canaries.present]] = False
        return absent


class CanaryRun:
    """One run of a training loop with canaries in its data.

    The loop draws batches and noise, asks for the `examples` of each step, and reports with `release` what it hands to
    the optimiser. An example is a vector, and must be its own gradient: that is so for a linear model with weights w
    and the loss <w, example>, whatever w is.

    Args:
        mechanism: What the loop should run.
        canaries: The canaries. The examples of each have gradients of its size along its direction, or of 0 if the
            canary is absent. All other gradients are 0.
        num_examples: The size of the dataset.
        clip_norm: The clip norm of the loop.
        examples_each: Number of examples of each canary.
        seed: A seed that makes the run reproducible. None, as in a real run, means fresh randomness.
        number: The number of the run in an audit, from 0.

    Examples:
        >>> import minsep
        >>> from minsep.auditing import Canaries
        >>> identity = minsep.BandedToeplitz.identity(iterations=4)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.5), noise_multiplier=1.0)
        >>> run = CanaryRun(mechanism, Canaries.draw(2, seed=1), num_examples=2, clip_norm=1.0)
        >>> rows = run.examples(step=0, indices=[0, 1])
        >>> rows.shape, np.linalg.norm(rows, axis=1).round(3).tolist()
        ((2, 64), [10.0, 4.0])
        >>> run.release(step=0, values=np.zeros(run.dimension))
    """

    def __init__(
        self,
        mechanism: Mechanism,
        canaries: Canaries,
        num_examples: int,
        clip_norm: float,
        examples_each: int = 1,
        seed: int | None = None,
        number: int = 0,
    ) -> None:
        self.mechanism, self.num_examples, self.clip_norm = mechanism, num_examples, clip_norm
        self.seed, self.number = seed, number
        self._canaries, self._each = canaries, examples_each
        self._taken = np.zeros((canaries.present.size * examples_each, mechanism.iterations), dtype=bool)
        self._released: dict[int, list[FloatArray]] = {}

    @property
    def dimension(self) -> int:
        """Number of parameters of the model."""
        return self._canaries.directions.size

    @property
    def expected_batch(self) -> float:
        """The public divisor of the sums."""
        return self.mechanism.scheme.expected_batch_size(self.num_examples)

    def examples(self, step: int, indices: ArrayLike) -> NDArray[np.float32]:
        """Return the examples of a step, one a row, and record that they take part.

        Args:
            step: The number of the step, from 0.
            indices: The examples of its batch, or of a part of it.
        """
        step = self._check_step(step)
        batch = np.asarray(indices)
        if batch.size == 0:
            return np.zeros((0, self.dimension), dtype=np.float32)
        if batch.ndim != 1 or batch.dtype.kind not in "iu" or batch.min() < 0 or batch.max() >= self.num_examples:
            raise ValueError(
                f"indices must be a list of whole numbers from 0 to {self.num_examples - 1}, without padding."
            )
        canaries = np.flatnonzero(batch < self._taken.shape[0])
        self._taken[batch[canaries], step] = True
        rows = np.zeros((batch.size, self.dimension), dtype=np.float32)
        owners = batch[canaries] // self._each
        seen = self._canaries.present[owners]
        rows[canaries[seen]] = self._canaries.gradients(owners[seen], self.clip_norm)
        return rows

    def release(self, step: int, values: ArrayLike) -> None:
        """Record what the optimiser is given in a step: the noisy sum of clipped gradients over the expected batch.

        Args:
            step: The number of the step, from 0. A run that resumes from a checkpoint reports repeated steps again.
            values: The released vector, with one entry for each parameter.
        """
        step = self._check_step(step)
        released = np.array(values, dtype=np.float64)
        if released.shape != (self.dimension,) or not np.isfinite(released).all():
            raise ValueError(
                f"values has the shape {released.shape}, but it must be a vector of {self.dimension} finite numbers."
            )
        before = self._released.setdefault(step, [])
        if not any(np.array_equal(released, other) for other in before):
            before.append(released)

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy for another process, which has seen nothing yet."""
        return {**vars(self), "_taken": np.zeros_like(self._taken), "_released": {}}

    @property
    def record(self) -> tuple[BooleanArray, dict[int, list[FloatArray]]]:
        """What this run has seen: who took part, and what was released in each step."""
        return self._taken, self._released

    def add_record(self, taken: BooleanArray, released: dict[int, list[FloatArray]]) -> None:
        """Add what a copy of this run has seen in another process.

        Args:
            taken: Who took part.
            released: What was released in each step.
        """
        self._taken |= taken
        for step, values in released.items():
            for value in values:
                self.release(step, value)

    def observed(self) -> Observed:
        """Return what the run showed; a run that left out a step is refused."""
        n = self.mechanism.iterations
        if len(self._released) != n:
            raise ValueError(f"The loop released {len(self._released)} steps, but the mechanism has {n} iterations.")
        # Of a step that was released with several values an adversary has their mean, which has less noise.
        means = np.stack([np.mean(self._released[step], axis=0) for step in range(n)], axis=1)
        return Observed(
            canaries=self._canaries,
            releases=self._canaries.directions.along(means * (self.expected_batch / self.clip_norm)),
            participations=self._taken.reshape(-1, self._each, n).sum(axis=1),
            taken=self._taken,
            changed_steps=sum(len(values) > 1 for values in self._released.values()),
        )

    def _check_step(self, step: int) -> int:
        return validate.integer(step=step, at_least=0, at_most=self.mechanism.iterations - 1)


Loop = Callable[[CanaryRun], None]
"""A training loop under audit: it takes a run from its first step to its last."""


def plain_loop(run: CanaryRun) -> None:
    """Train in NumPy, as simply as possible: a loop to compare others with, and an example for a loop of your own.

    Args:
        run: The run, which provides the mechanism and the examples, and records what the loop releases.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=10, bands=2)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=5), noise_multiplier=1.0)
        >>> run = CanaryRun(mechanism, Canaries.draw(20), num_examples=20, clip_norm=1.0)
        >>> plain_loop(run)
        >>> run.observed().releases.shape
        (64, 10)
    """
    batches = run.mechanism.batches(run.num_examples, seed=run.seed)
    noise = run.mechanism.noise(run.dimension, seed=run.seed)
    for step, (indices, row) in enumerate(zip(batches, noise, strict=True)):
        gradients = run.examples(step, indices).astype(np.float64)
        clipped = clip(gradients, run.clip_norm)
        run.release(step, release(clipped.sum(axis=0), row, run.clip_norm) / run.expected_batch)


def clip(gradients: FloatArray, clip_norm: float) -> FloatArray:
    """Return gradients, one a row, scaled down to at most the clip norm.

    >>> clip(np.array([[3.0, 4.0], [0.0, 0.5]]), clip_norm=1.0)
    array([[0.6, 0.8],
           [0. , 0.5]])
    """
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped: FloatArray = gradients / np.maximum(norms / clip_norm, 1.0)
    return clipped


def is_resumed(run: CanaryRun, every: int) -> bool:
    """Return whether to interrupt and resume a run, by a coin of its own.

    With a coin for each run, instead of a fixed order, runs are independent and alike.

    Args:
        run: The run.
        every: Of so many runs, one on average is resumed. 0 is none.
    """
    if not every:
        return False
    (word,) = KeyedWords(Key.of(run.seed).derive("resumed")).take(0, 1)
    return int(word) % every == 0


def coins_of(words: Words) -> BooleanArray:
    """Return one fair coin for each random word."""
    coins: BooleanArray = words >= np.uint64(1 << 63)
    return coins
