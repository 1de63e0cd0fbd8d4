"""Numbers of other examples in the batches, from the size of the pool rather than one coin per example."""

import numba
import numpy as np
from numpy.typing import NDArray

from minsep.randomness import Key, KeyedWords


def draw_batch_sizes(
    examples: int, prob: float, min_sep: int, warm: bool, iterations: int, count: int, key: Key, chunk: int
) -> NDArray[np.int64]:
    """Return the batch sizes of `count` independent runs of b-min-sep sampling, one run per row.

    A batch size depends only on the number of available examples: given that, it is binomial, and its examples are
    available again after `min_sep` iterations. In the warm start an example is barred for each of 1, ..., b - 1
    iterations with the same probability p / (1 + (b - 1) p).
    """
    seed = KeyedWords(key).take(chunk, 2)
    generator = np.random.Generator(np.random.Philox(key=seed))
    back = min(min_sep - 1, iterations)  # an example that is barred for longer never returns
    sizes = np.zeros((count, iterations + back), dtype=np.int64)
    available = np.full(count, examples, dtype=np.int64)
    if warm:
        each = prob / (1 + (min_sep - 1) * prob)
        chances = [*[each] * back, (min_sep - 1 - back) * each, 1 - (min_sep - 1) * each]
        counts = generator.multinomial(examples, chances, size=count)
        sizes[:, :back] = counts[:, :back]
        available = counts[:, -1].astype(np.int64)
    _pool(generator, sizes, available, prob, back)
    return sizes[:, back:]


@numba.njit(nogil=True, cache=True)
def _pool(generator, sizes, available, prob, back):  # type: ignore[no-untyped-def]  # pragma: no cover
    for run in range(sizes.shape[0]):
        row = sizes[run]
        pool = available[run]
        for i in range(back, row.size):
            row[i] = generator.binomial(pool, prob)
            # Examples of b - 1 iterations ago are available again in the next one.
            pool += row[i - back] - row[i]
