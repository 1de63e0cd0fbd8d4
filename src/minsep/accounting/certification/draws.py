"""The values that a sampled proof is made of: a function of (law, epsilon, seed), whoever draws them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from minsep.accounting.importance import BoundedLaw, shared
from minsep.core.arrays import FloatArray
from minsep.engine import Compute
from minsep.randomness import Key

State = TypeVar("State")


def draw_values(law: BoundedLaw, epsilon: float, seed: int, count: int, compute: Compute) -> Iterator[FloatArray]:
    """Yield `count` upward values of a law at an epsilon, in their order, chunk by chunk."""
    return compute.run(*_chunks(law, epsilon, seed, count))


def fold_values(
    law: BoundedLaw,
    epsilon: float,
    seed: int,
    count: int,
    state: State,
    step: Callable[[State, FloatArray], State],
    finished: Callable[[State], bool],
    compute: Compute,
) -> State:
    """Return the state after steps by the same values, chunk by chunk, until one is finished."""
    name = f"values for noise multiplier {law.pair.noise_multiplier:.6g}, {law.direction}"
    return compute.fold(*_chunks(law, epsilon, seed, count), state, step, finished, name)


def _chunks(law: BoundedLaw, epsilon: float, seed: int, count: int) -> tuple[Callable[[int], FloatArray], int]:
    key = Key.from_seed(seed).derive("certificate")
    return partial(_chunk, law, epsilon, key, count), -(-count // law.samples_in_chunk)


def _chunk(law: BoundedLaw, epsilon: float, key: Key, count: int, chunk: int) -> FloatArray:
    values = shared(law).draw_values(key, chunk, epsilon)
    return values[: count - chunk * values.size]
