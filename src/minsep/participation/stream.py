"""A stream of batches: a function of (mechanism, number of examples, key), read from front to back."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from minsep.core import validation as validate
from minsep.core.arrays import BooleanArray, IntegerArray
from minsep.core.state import Guard, State, Uncopyable, check_envelope, envelope
from minsep.participation.renewal import WORDS_AT_START, RenewalLaw, WaitingLists
from minsep.participation.truncation import MOST_EXAMPLES, Truncation
from minsep.randomness import Key, KeyedWords

_EXAMPLES_AT_ONCE = 1 << 18
_PADDING = -1


class PaddedBatch(NamedTuple):
    """Indices of a batch, with -1 where it is padded, and a mask that is true where it is not."""

    indices: IntegerArray
    mask: BooleanArray


class BatchStream(Uncopyable, Iterator[IntegerArray], ABC):
    """The batches of a mechanism: exactly `iterations` arrays of indices, each in increasing order.

    - An empty batch is an empty array: the step is taken, and adds noise, all the same.
    - With a truncation no batch is larger than its size, and smaller ones stay as they are: `with_masks` pads them.
    - Threads that share a stream take turns, and each batch is handed out once.
    - The state is the key and the position. Restoring draws the batches before it again, without yielding them.

    Streams come from `Mechanism.batches`.
    """

    def __init__(
        self,
        iterations: int,
        num_examples: int,
        key: Key,
        truncation: Truncation | None,
        fingerprint: str,
        **identity: object,
    ) -> None:
        self.iterations = iterations
        self.num_examples = validate.integer(num_examples=num_examples, at_least=1, at_most=MOST_EXAMPLES)
        expected = truncation.num_examples if truncation else None
        if expected is not None and expected != self.num_examples:
            raise ValueError(
                f"num_examples is {num_examples}, but the truncation was accounted for {expected} examples."
            )
        self._truncation = truncation
        self._identity = envelope("batches", fingerprint, num_examples=self.num_examples, **identity)
        self._guard = Guard()
        with self._guard.beginning():
            self._restart(key)

    @property
    def position(self) -> int:
        """Number of batches drawn so far."""
        return self._position

    def __iter__(self) -> "BatchStream":
        return self

    def __len__(self) -> int:
        """Return the number of batches of the whole run."""
        return self.iterations

    def __next__(self) -> IntegerArray:
        with self._guard.turn:
            if self._position == self.iterations:
                raise StopIteration
            with self._guard.step():
                batch = self._advance()
                if self._truncation is None:
                    return batch
                return self._truncation.apply(batch, self._cuts.take(self._position, batch.size))

    def with_masks(self) -> Iterator[PaddedBatch]:
        """Yield the rest of the batches with a mask, padded to the size of the truncation if there is one.

        Whatever the padding contributes must be masked out: NumPy and JAX read the index -1 as the last example.

        Examples:
            >>> import minsep
            >>> mechanism = minsep.Mechanism(
            ...     minsep.BandedToeplitz.identity(iterations=3), minsep.Poisson(rate=0.5), noise_multiplier=1.0,
            ...     truncation=minsep.Truncation(batch_size=4),
            ... )
            >>> next(mechanism.batches(num_examples=6, seed=1).with_masks())
            PaddedBatch(indices=array([ 0, -1, -1, -1]), mask=array([ True, False, False, False]))
        """
        return (self._with_mask(batch) for batch in self)

    def _with_mask(self, batch: IntegerArray) -> PaddedBatch:
        size = batch.size if self._truncation is None else self._truncation.batch_size
        indices = np.pad(batch, (0, size - batch.size), constant_values=_PADDING)
        return PaddedBatch(indices, indices != _PADDING)

    def batch_sampler(self) -> "BatchSampler":
        """Return a view that torch's `DataLoader` takes as its `batch_sampler`."""
        return BatchSampler(self)

    def state_dict(self) -> State:
        """Return what restores this stream at its position. It is as secret as a key."""
        with self._guard.turn:
            self._guard.check()
            return {**self._identity, "key": self._key.hex(), "position": self._position}

    def load_state_dict(self, state: State) -> None:
        """Continue as the stream that gave this state would.

        Args:
            state: What `state_dict` returned. The state of a stream of another mechanism or dataset size is refused.

        Examples:
            >>> import minsep
            >>> mechanism = minsep.Mechanism(
            ...     minsep.BandedToeplitz.optimal(iterations=100, bands=8), minsep.MinSep(rate=0.01, min_sep=8), 1.0
            ... )
            >>> stream = mechanism.batches(num_examples=1000)
            >>> first_half = [next(stream) for _ in range(50)]
            >>> resumed = mechanism.batches(num_examples=1000)
            >>> resumed.load_state_dict(stream.state_dict())
            >>> all((one == other).all() for one, other in zip(stream, resumed, strict=True))
            True
        """
        check_envelope(state, self._identity)
        position = validate.integer(position=state.get("position"), at_least=0, at_most=self.iterations)
        key = Key.from_hex(state.get("key", ""))
        with self._guard.turn:
            begins_again = key != self._key or position < self._position or not self._guard.passable
            with self._guard.beginning():
                if begins_again:
                    self._restart(key)
                while self._position < position:
                    self._advance()

    def _restart(self, key: Key) -> None:
        self._key = key
        self._position = 0
        self._cuts = KeyedWords(key.derive("cuts"))
        self._begin(key)

    @abstractmethod
    def _begin(self, key: Key) -> None:
        """Make ready to form the first batch."""

    @abstractmethod
    def _form(self, position: int) -> IntegerArray:
        """Return the batch at a position; positions come one after the other, from 0."""

    def _advance(self) -> IntegerArray:
        batch = self._form(self._position)
        self._position += 1
        return batch


class RenewalBatchStream(BatchStream):
    """Batches of examples that take part independently of each other, by one renewal law.

    A batch costs time proportional to its size, and the stream 4 bytes an example.
    """

    def __init__(
        self,
        law: RenewalLaw,
        iterations: int,
        num_examples: int,
        key: Key,
        truncation: Truncation | None,
        fingerprint: str,
    ) -> None:
        self._law = law
        super().__init__(iterations, num_examples, key, truncation, fingerprint)

    def _begin(self, key: Key) -> None:
        self._steps = KeyedWords(key.derive("steps"))
        self._lists = WaitingLists(self._law, self.num_examples, self.iterations)
        starts = KeyedWords(key.derive("starts"))
        for first in range(0, self.num_examples, _EXAMPLES_AT_ONCE):
            count = min(_EXAMPLES_AT_ONCE, self.num_examples - first)
            self._lists.enlist(first, starts.take(0, WORDS_AT_START * count, WORDS_AT_START * first))

    def _form(self, position: int) -> IntegerArray:
        time = position + 1
        batch = self._lists.batch(time)
        self._lists.send_back(time, batch, self._steps.take(time, batch.size))
        return batch


class BatchSampler:
    """Batches as lists of indices, for torch's `DataLoader(dataset, batch_sampler=...)`.

    Iterating goes on from where the stream is. A `DataLoader` with workers reads ahead: resume from the number of steps
    taken, by the position of the state.

    Examples:
        >>> import minsep
        >>> mechanism = minsep.Mechanism(
        ...     minsep.BandedToeplitz.identity(iterations=3), minsep.Poisson(rate=0.5), noise_multiplier=1.0
        ... )
        >>> list(mechanism.batches(num_examples=6, seed=1).batch_sampler())
        [[0], [2, 4], [0, 3, 4, 5]]
    """

    def __init__(self, stream: BatchStream) -> None:
        self.stream = stream

    def __len__(self) -> int:
        return self.stream.iterations - self.stream.position

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.stream:
            yield batch.tolist()
