"""Batches of examples that belong to several users."""

import math

import numpy as np
from numpy.typing import NDArray

from minsep.attribution import kernels
from minsep.attribution.scheme import MultiAttributionMinSep
from minsep.participation import BatchStream, Truncation
from minsep.randomness import Key, KeyedWords
from minsep.state import Guard


class AttributionBatchStream(BatchStream):
    """The batches of a multi-attribution mechanism: exactly `iterations` arrays of indices, in increasing order.

    - What is sampled in an iteration is a function of the key and the iteration, drawn by geometric skips. So a batch
      costs time in proportion to the sampled examples and their users, and the stream 8 bytes a user.
    - The state is the key and the position, and the graph's fingerprint: another graph is refused.
    """

    def __init__(
        self,
        scheme: MultiAttributionMinSep,
        iterations: int,
        num_examples: int,
        key: Key,
        *,
        truncation: Truncation | None = None,
        fingerprint: str = "",
    ) -> None:
        self._graph = scheme.check_examples(num_examples)
        self._attribution = scheme
        super().__init__(scheme, iterations, num_examples, key, truncation=truncation, fingerprint=fingerprint)
        self._identity["graph"] = self._graph.fingerprint

    def _restart(self, key: Key) -> None:
        self._key = key
        self._position = 0
        self._guard = Guard()
        self._cuts = KeyedWords(key.derive("cuts"))
        self._steps = KeyedWords(key.derive("coins"))
        self._last = np.full(self._graph.num_users, kernels.LONG_AGO, dtype=np.int64)
        with self._guard:
            for time in range(self._attribution.burn_in):
                self._form(time)

    def _advance(self) -> NDArray[np.int64]:
        with self._guard:
            batch = self._form(self._attribution.burn_in + self._position)
            self._position += 1
        return batch

    def _form(self, time: int) -> NDArray[np.int64]:
        graph, scheme = self._graph, self._attribution
        sampled = self._sample(time)
        batch = np.empty(sampled.size, dtype=np.int64)
        participated = scheme.block == "participated"
        size = kernels.step(graph.offsets, graph.users, sampled, time, scheme.min_sep, participated, self._last, batch)
        return batch[:size]

    def _sample(self, time: int) -> NDArray[np.int64]:
        mean = self._attribution.sampling_prob * self.num_examples
        room = math.ceil(mean + 6 * math.sqrt(mean)) + 16
        while True:
            sampled = np.empty(room, dtype=np.int64)
            words = self._steps.take(time, room)
            count = kernels.sample_by_skips(
                words, kernels.log_miss_of(self._attribution.sampling_prob), self.num_examples, sampled
            )
            if count != kernels.OUT_OF_WORDS:
                return sampled[:count]
            room *= 2  # The words begin the same, so what is sampled does.
