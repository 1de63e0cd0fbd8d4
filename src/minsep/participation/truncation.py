"""Batches of at most one size: larger ones are truncated."""

from dataclasses import dataclass

import numpy as np

from minsep.core import validation as validate
from minsep.core.arrays import IntegerArray, Words
from minsep.core.identity import Described, Description

MOST_EXAMPLES = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Truncation(Described):
    """Truncate every batch that is larger than `batch_size` to a uniformly random subset.

    An example that was left out has been sampled all the same: it stays blocked like any other. Smaller batches stay as
    they are. `BatchStream.with_masks` pads them, for code that needs batches of one size.

    Args:
        batch_size: The largest number of examples in a batch.
        num_examples: The number of examples in the dataset. Truncation costs privacy, and how much depends on this
            number, so accounting needs it.

    Examples:
        >>> Truncation(batch_size=2048, num_examples=14_745_600)
        Truncation(batch_size=2048, num_examples=14745600)
    """

    batch_size: int
    num_examples: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "batch_size", validate.integer(batch_size=self.batch_size, at_least=1, at_most=MOST_EXAMPLES)
        )
        if self.num_examples is not None:
            number = validate.integer(num_examples=self.num_examples, at_least=1, at_most=MOST_EXAMPLES)
            object.__setattr__(self, "num_examples", number)

    def apply(self, batch: IntegerArray, words: Words) -> IntegerArray:
        """Return a batch of at most `batch_size` indices.

        Args:
            batch: The indices of the sampled examples.
            words: One random word for each example.

        Examples:
            >>> Truncation(batch_size=2).apply(np.array([3, 7, 8]), np.array([5, 9, 1], dtype=np.uint64))
            array([3, 8])
        """
        if batch.size <= self.batch_size:
            return batch
        kept = np.argpartition(words, self.batch_size)[: self.batch_size]
        return np.sort(batch[kept])

    def describe(self) -> Description:
        """Return the truncation as plain data."""
        return {"kind": "truncation", "batch_size": self.batch_size, "num_examples": self.num_examples}

    @classmethod
    def from_description(cls, description: Description) -> "Truncation":
        """Return the truncation that gave a description.

        Args:
            description: What `describe` returned.
        """
        return cls(description["batch_size"], description["num_examples"])
