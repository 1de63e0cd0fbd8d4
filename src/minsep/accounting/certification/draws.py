"""The values that a sampled proof is made of: a function of (law, epsilon, seed), whoever draws them."""

from collections.abc import Iterator
from functools import partial

from minsep.accounting.importance import BoundedLaw, shared
from minsep.arrays import FloatArray
from minsep.engine import Compute
from minsep.randomness import Key


def draw_values(law: BoundedLaw, epsilon: float, seed: int, count: int, compute: Compute) -> Iterator[FloatArray]:
    """Yield `count` upward values of a law at an epsilon, in their order, chunk by chunk."""
    key = Key.from_seed(seed).derive("certificate")
    return compute.run(partial(_chunk, law, epsilon, key, count), -(-count // law.samples_in_chunk))


def _chunk(law: BoundedLaw, epsilon: float, key: Key, count: int, chunk: int) -> FloatArray:
    values = shared(law).draw_values(key, chunk, epsilon)
    return values[: count - chunk * values.size]
