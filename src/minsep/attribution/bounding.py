"""Contribution bounding: which examples to keep so that no user has more than a given number of them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from minsep.attribution import kernels
from minsep.attribution.graph import AttributionGraph
from minsep.core import validation as validate
from minsep.core.arrays import IntegerArray
from minsep.randomness import Key, KeyedWords

_LARGEST_BOUND = 2**31 - 1

Order = Literal["ascending", "random"]
ORDERS: tuple[Order, Order] = ("ascending", "random")


@dataclass(frozen=True)
class Bounded:
    """The examples that were kept, their graph, and how much of the original graph they are.

    Attributes:
        graph: The graph of the kept examples: its example k is `examples[k]` of the graph before.
        examples: Kept examples in increasing order, each as often as it was kept.
        user_bound: The most examples of a user that were kept.
        neighbourhood_bound: The most kept examples with which a kept example shares users, including itself, if there
            is such a bound.
        duplicates: Whether an example could be kept more than once.
        examples_before: The number of examples before.
        edges_before: The number of edges before.
        users_before: The number of users with at least one example before.
    """

    graph: AttributionGraph
    examples: IntegerArray
    user_bound: int
    neighbourhood_bound: int | None
    duplicates: bool
    examples_before: int
    edges_before: int
    users_before: int

    @property
    def distinct_examples(self) -> int:
        """Number of different examples that were kept."""
        return int(np.count_nonzero(np.diff(self.examples))) + 1

    @property
    def users_kept(self) -> int:
        """Users with at least one kept example."""
        return int(np.count_nonzero(self.graph.examples_per_user))

    def summary(self) -> dict[str, int | float | None]:
        """Return what was kept, in numbers."""
        sizes = self.graph.neighbourhood_sizes
        return {
            "user_bound": self.user_bound,
            "neighbourhood_bound": self.neighbourhood_bound,
            "examples_before": self.examples_before,
            "examples_kept": self.graph.num_examples,
            "distinct_examples_kept": self.distinct_examples,
            "edges_before": self.edges_before,
            "edges_kept": self.graph.num_edges,
            "users_before": self.users_before,
            "users_kept": self.users_kept,
            "most_examples_of_a_user": self.graph.largest_degree,
            "mean_neighbourhood": float(sizes.mean()),
            "largest_neighbourhood": int(sizes.max()),
        }


def bound_contributions(
    graph: AttributionGraph,
    user_bound: int,
    *,
    duplicates: bool = False,
    neighbourhood_bound: int | None = None,
    order: Order = "ascending",
    seed: int = 0,
) -> Bounded:
    """Keep examples of a graph, greedily in an order, so that no user has more than a bound of them.

    - The selection is maximal: no further example fits.
    - The result uses no data but the graph, which the accounting assumes to be public.

    Args:
        graph: Which examples belong to which users.
        user_bound: The most examples of a user that are kept.
        duplicates: Whether the examples are tried repeatedly in the same order, and another copy of an example is kept
            each time all of its users have room. A copy counts as an example of each of its users.
        neighbourhood_bound: The bound k_e: no kept example shares users with more than this many kept examples,
            including itself. By default there is none.
        order: The order in which examples are tried. "ascending" begins with the examples that share users with the
            fewest others, and keeps more: examples of many users, and of users with many examples, are left out first.
            "random" treats all alike. Either way the choice depends on the graph alone.
        seed: The number from which ties and the random order follow.

    Returns:
        The kept examples, their graph, and how much of the original graph they are.

    Examples:
        >>> graph = AttributionGraph.from_lists([[0, 1], [0], [0, 2], [3]])
        >>> bound_contributions(graph, user_bound=1).examples
        array([2, 3])
        >>> bound_contributions(graph, user_bound=2, duplicates=True).examples
        array([1, 2, 3, 3])
    """
    bound = validate.integer(user_bound=user_bound, at_least=1, at_most=_LARGEST_BOUND)
    most = None
    if neighbourhood_bound is not None:
        most = validate.integer(neighbourhood_bound=neighbourhood_bound, at_least=1, at_most=_LARGEST_BOUND)
    validate.choice(ORDERS, order=order)
    sequence = random_order(graph.num_examples, seed, "bounding")
    if order == "ascending":
        sequence = sequence[np.argsort(graph.neighbourhood_sizes[sequence], kind="stable")]
    keeper = _Keeper(graph, bound, most)
    parts = [keeper.keep(sequence)]
    # Users only fill up, so an example that found no room once will find none later.
    while duplicates and parts[-1].size:
        parts.append(keeper.keep(parts[-1]))
    kept = np.sort(np.concatenate(parts))
    return Bounded(
        graph.take(kept),
        kept,
        bound,
        most,
        duplicates,
        graph.num_examples,
        graph.num_edges,
        int(np.count_nonzero(graph.examples_per_user)),
    )


class _Keeper:
    """Keeps examples in a given order while there is room."""

    def __init__(self, graph: AttributionGraph, bound: int, most: int | None) -> None:
        self._graph, self._bound, self._most = graph, bound, most
        self._used = np.zeros(graph.num_users, dtype=np.int32)
        self._newest = np.full(graph.num_users if most else 0, -1, dtype=np.int64)
        self._sizes, self._before, self._node_copy, self._node_next = (np.empty(0, dtype=np.int64) for _ in range(4))
        self._copies = self._nodes = 0

    def keep(self, order: IntegerArray) -> IntegerArray:
        graph = self._graph
        kept = np.empty(order.size, dtype=np.int64)
        if self._most is None:
            count = kernels.keep_in_order(graph.offsets, graph.users, order, self._bound, self._used, kept)
            return kept[:count]
        edges = int(graph.users_per_example[order].sum())
        self._sizes, self._before = (
            _with_room(array, self._copies, order.size) for array in (self._sizes, self._before)
        )
        self._before[:] = -1
        self._node_copy, self._node_next = (
            _with_room(array, self._nodes, edges) for array in (self._node_copy, self._node_next)
        )
        count, self._copies, self._nodes = kernels.keep_in_order_with_neighbours(
            graph.offsets, graph.users, order, self._bound, self._most, self._used, kept,
            self._sizes, self._before, self._newest, self._node_copy, self._node_next, self._copies, self._nodes,
        )  # fmt: skip
        return kept[:count]


def _with_room(array: IntegerArray, filled: int, more: int) -> IntegerArray:
    return np.concatenate([array[:filled], np.empty(more, dtype=np.int64)])


def fixed_batches(
    graph: AttributionGraph,
    iterations: int,
    batch_size: int,
    min_sep: int,
    participations: int,
    *,
    seed: int = 0,
) -> NDArray[np.int32]:
    """Return batches without any sampling, one per row, for accounting without amplification.

    - A user takes part with at most one example per batch.
    - The search is greedy, cycling through a random order. It may fail although batches exist.
    - The noise needed is that of the Gaussian mechanism with sensitivity `strategy.sensitivity(min_sep,
      participations)`.

    Args:
        graph: Which examples belong to which users.
        iterations: The number of batches.
        batch_size: The number of examples in each batch.
        min_sep: The number of consecutive iterations in which a user takes part at most once.
        participations: The most times that a user takes part in total.
        seed: The number that determines the random order.

    Examples:
        >>> graph = AttributionGraph.from_lists([[0, 1], [2], [1, 3], [4]])
        >>> fixed_batches(graph, iterations=4, batch_size=1, min_sep=3, participations=2)
        array([[3],
               [1],
               [0],
               [3]], dtype=int32)
        >>> fixed_batches(graph, iterations=4, batch_size=2, min_sep=3, participations=2)
        Traceback (most recent call last):
        ValueError: No batches were found: batch 1 of 4 has 1 of 2 examples; lower batch_size (2) or min_sep (3), or \
raise participations (2).
    """
    iterations = validate.integer(iterations=iterations, at_least=1)
    size = validate.integer(batch_size=batch_size, at_least=1, at_most=graph.num_examples)
    separation = validate.integer(min_sep=min_sep, at_least=1)
    most = validate.integer(participations=participations, at_least=1)
    batches = np.empty((iterations, size), dtype=np.int32)
    order = random_order(graph.num_examples, seed, "fixed batches")
    last = np.full(graph.num_users, kernels.LONG_AGO, dtype=np.int64)
    used = np.zeros(graph.num_users, dtype=np.int64)
    full, rest = kernels.fill_batches(graph.offsets, graph.users, order, separation, most, batches, last, used)
    if full < iterations:
        raise ValueError(
            f"No batches were found: batch {full} of {iterations:,} has {rest:,} of {size:,} examples; lower "
            f"batch_size ({size}) or min_sep ({separation}), or raise participations ({most})."
        )
    batches.sort(axis=1)
    return batches


def random_order(count: int, seed: int, purpose: str) -> IntegerArray:
    """Return the numbers below `count` in an order determined by the seed."""
    seed = validate.integer(seed=seed, at_least=0)
    words = KeyedWords(Key.from_seed(seed).derive(purpose)).take(0, count)
    return np.argsort(words, kind="stable")
