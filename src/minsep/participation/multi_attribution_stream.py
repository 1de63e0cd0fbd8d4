"""Batches of examples that belong to several users."""

import math
from dataclasses import dataclass

import numpy as np

from minsep.attribution import AttributionGraph, kernels
from minsep.core.arrays import IntegerArray
from minsep.participation.stream import BatchStream
from minsep.participation.truncation import Truncation
from minsep.randomness import Key, KeyedWords
from minsep.randomness.variates import log_miss_of


@dataclass(frozen=True)
class BlockingRule:
    """How examples are sampled, and which of them block others."""

    sampling_prob: float
    min_sep: int
    participated: bool
    """Whether only examples that took part block others, and not all that were sampled."""
    burn_in: int
    """Number of batches that are formed and thrown away before the first."""


class AttributionBatchStream(BatchStream):
    """The batches of a multi-attribution mechanism: exactly `iterations` arrays of indices, in increasing order.

    - What is sampled in an iteration is a function of the key and the iteration, drawn by geometric skips. So a batch
      costs time in proportion to the sampled examples and their users, and the stream 8 bytes a user.
    - The state is the key and the position, and the graph's fingerprint: another graph is refused.
    """

    def __init__(
        self,
        graph: AttributionGraph,
        rule: BlockingRule,
        iterations: int,
        key: Key,
        truncation: Truncation | None,
        fingerprint: str,
    ) -> None:
        self._graph, self._rule = graph, rule
        super().__init__(iterations, graph.num_examples, key, truncation, fingerprint, graph=graph.fingerprint)

    def _begin(self, key: Key) -> None:
        self._steps = KeyedWords(key.derive("coins"))
        self._last = np.full(self._graph.num_users, kernels.LONG_AGO, dtype=np.int64)
        for time in range(self._rule.burn_in):
            self._form_at(time)

    def _form(self, position: int) -> IntegerArray:
        return self._form_at(self._rule.burn_in + position)

    def _form_at(self, time: int) -> IntegerArray:
        graph, rule = self._graph, self._rule
        sampled = self._sample(time)
        batch = np.empty(sampled.size, dtype=np.int64)
        size = kernels.step(
            graph.offsets, graph.users, sampled, time, rule.min_sep, rule.participated, self._last, batch
        )
        return batch[:size]

    def _sample(self, time: int) -> IntegerArray:
        prob = self._rule.sampling_prob
        mean = prob * self.num_examples
        room = math.ceil(mean + 6 * math.sqrt(mean)) + 16
        while True:
            sampled = np.empty(room, dtype=np.int64)
            words = self._steps.take(time, room)
            count = kernels.sample_by_skips(words, log_miss_of(prob), self.num_examples, sampled)
            if count != kernels.OUT_OF_WORDS:
                return sampled[:count]
            room *= 2  # The words begin the same, so what is sampled does.
