"""Batch sizes of all the other examples: the dynamics of the pool, not one coin for each example."""

import numba
import numpy as np
from numpy.typing import NDArray

from minsep.randomness import Key, KeyedWords


def draw_batch_sizes(
    examples: int, prob: float, min_sep: int, warm: bool, iterations: int, count: int, key: Key, chunk: int
) -> NDArray[np.int64]:
    """Return the batch sizes of `count` independent runs of b-min-sep sampling, one run in each row.

    The number of available examples is all that a batch size depends on: it is binomial given them, and its examples
    are back after `min_sep` iterations. In the warm start an example is barred for each of 1, ..., b - 1 iterations
    with the same probability p / (1 + (b - 1) p).
    """
    seed = KeyedWords(key).take(chunk, 2)
    generator = np.random.Generator(np.random.Philox(key=seed))
    sizes = np.zeros((count, iterations + min_sep - 1), dtype=np.int64)
    if warm:
        each = prob / (1 + (min_sep - 1) * prob)
        counts = generator.multinomial(examples, [*[each] * (min_sep - 1), 1 - (min_sep - 1) * each], size=count)
        sizes[:, : min_sep - 1] = counts[:, :-1]
    _pool(generator, sizes, examples, prob, min_sep)
    return sizes[:, min_sep - 1 :]


@numba.njit(nogil=True, cache=True)
def _pool(generator, sizes, examples, prob, min_sep):  # type: ignore[no-untyped-def]  # pragma: no cover
    for run in range(sizes.shape[0]):
        row = sizes[run]
        available = examples - row[: min_sep - 1].sum()
        for i in range(min_sep - 1, row.size):
            row[i] = generator.binomial(available, prob)
            available += row[i - min_sep + 1] - row[i]
