"""Which example belongs to which users: a bipartite graph in compressed rows."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minsep.attribution import kernels
from minsep.attribution.edges import read_edges, whole_numbers
from minsep.core import validation as validate
from minsep.core.arrays import IntegerArray

_MOST_ITEMS = 2**31 - 1


class AttributionGraph:
    """Examples and the users that each is attributed to: papers and their authors, messages and their members.

    - Examples and users are numbered from 0. Every example has at least one user, and no edge occurs twice.
    - Create one with `from_edges`, `from_lists` or `from_sparse`. The constructor does not check its arrays.
    - Immutable: arrays are read-only.

    Args:
        offsets: Where the users of each example begin in `users`, and the size of `users` at the end.
        users: The users of all examples, one example after the other, in increasing order within each.
        num_users: The number of users.
        example_ids: What a file calls the examples, if the graph came from one.
        user_ids: What a file calls the users, if the graph came from one.

    Examples:
        >>> graph = AttributionGraph.from_lists([[0, 1], [1], [2]])
        >>> graph
        AttributionGraph(3 examples, 3 users, 4 edges)
        >>> graph.examples_per_user
        array([1, 2, 1])
        >>> graph.neighbourhood_sizes
        array([2, 2, 1])
    """

    def __init__(
        self,
        offsets: IntegerArray,
        users: NDArray[np.int32],
        num_users: int,
        example_ids: NDArray[Any] | None = None,
        user_ids: NDArray[Any] | None = None,
    ) -> None:
        self.offsets = offsets
        """Where the users of each example begin in `users`, and one more."""
        self.users = users
        """Users of all examples, one example after the other, in increasing order within each."""
        self.num_users = num_users
        self.example_ids = example_ids
        """What a file calls the examples, if the graph came from one."""
        self.user_ids = user_ids
        """What a file calls the users, if the graph came from one."""
        for array in (offsets, users, example_ids, user_ids):
            if array is not None:
                array.flags.writeable = False

    def check_user_bound(self, user_bound: int) -> None:
        """Refuse a graph in which a user has too many examples.

        Args:
            user_bound: The most examples that a user may have.
        """
        if self.largest_degree > user_bound:
            raise ValueError(
                f"user_bound is {user_bound}, but user {int(self.examples_per_user.argmax())} has "
                f"{self.largest_degree:,} examples: bound contributions first, by minsep.bound_contributions."
            )

    @property
    def has_shared_examples(self) -> bool:
        """Whether an example belongs to several users."""
        return int(np.diff(self.offsets).max(initial=0)) > 1

    def check_one_owner(self) -> None:
        """Refuse a graph in which an example belongs to several users."""
        if self.has_shared_examples:
            owners = np.diff(self.offsets)
            example = int(owners.argmax())
            raise ValueError(f"shared is False, but example {example} belongs to {owners[example]} users.")

    @classmethod
    def from_edges(
        cls,
        examples: "ArrayLike | str | os.PathLike[str]",
        users: ArrayLike | None = None,
        *,
        num_examples: int | None = None,
        num_users: int | None = None,
    ) -> "AttributionGraph":
        """Return the graph of an edge list: two arrays of indices, one array of two columns, or a file.

        A file is .csv or .parquet and has the columns `example` and `user`; otherwise its first two columns are used.
        Its ids are non-negative integers or text, and are kept as `example_ids` and `user_ids`. A .csv file of text
        must name these columns, unless its first row has a number: other names could be an edge.

        Args:
            examples: The example of each edge as an index, an array with the examples and users of the edges in two
                columns, or the path of a file.
            users: The user of each edge as an index, if `examples` are the examples alone.
            num_examples: The number of examples: every index below it must have an edge. By default it is inferred.
            num_users: The number of users: every user is below it. By default it is inferred.

        Examples:
            >>> AttributionGraph.from_edges([0, 0, 1], [5, 6, 6])
            AttributionGraph(2 examples, 7 users, 3 edges)
            >>> AttributionGraph.from_edges([0, 2], [5, 6])
            Traceback (most recent call last):
            ValueError: Example 1 has no user, but every example must belong to at least one.
            >>> AttributionGraph.from_edges([0, 1, 0], [5, 6, 5])
            Traceback (most recent call last):
            ValueError: Row 2 repeats the edge of example 0 and user 5, but every edge must be given once.
        """
        if isinstance(examples, str | os.PathLike):
            if users is not None or num_examples is not None or num_users is not None:
                raise ValueError("A file of edges takes no further arguments: they are determined by its ids.")
            edges = read_edges(examples)
            return cls._from_pairs(
                edges.examples,
                edges.users,
                edges.example_ids.size,
                edges.user_ids.size,
                first_row=edges.first_row,
                example_ids=edges.example_ids,
                user_ids=edges.user_ids,
            )
        if users is None:
            both = np.asarray(examples)
            if both.ndim != 2 or both.shape[1] != 2:
                raise ValueError(
                    f"examples has the shape {both.shape}, but if users is omitted it must have two columns."
                )
            examples, users = both[:, 0], both[:, 1]
        rows, columns = whole_numbers(examples=examples), whole_numbers(users=users)
        if rows.size != columns.size:
            raise ValueError(
                f"examples has {rows.size:,} rows and users has {columns.size:,}, but these must be equal."
            )
        return cls._from_pairs(
            rows, columns, _count(rows, num_examples=num_examples), _count(columns, num_users=num_users)
        )

    @classmethod
    def from_lists(cls, lists: Iterable[Sequence[int]], *, num_users: int | None = None) -> "AttributionGraph":
        """Return the graph in which the k-th example belongs to the users in the k-th list.

        Args:
            lists: The users of each example.
            num_users: The number of users. By default it is one more than the largest user.

        Examples:
            >>> AttributionGraph.from_lists([[0, 1], []])
            Traceback (most recent call last):
            ValueError: Example 1 has no user, but every example must belong to at least one.
        """
        lists = list(lists)
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        rows = np.repeat(np.arange(lengths.size), lengths)
        columns = whole_numbers(users=list(chain.from_iterable(lists)), rows=rows)
        return cls._from_pairs(rows, columns, lengths.size, _count(columns, num_users=num_users), by_example=True)

    @classmethod
    def from_sparse(cls, matrix: Any) -> "AttributionGraph":
        """Return the graph of a SciPy sparse matrix.

        Args:
            matrix: The matrix, examples x users, with a one for each edge.

        Examples:
            >>> from scipy.sparse import csr_array
            >>> AttributionGraph.from_sparse(csr_array([[1, 1, 0], [0, 1, 0]]))
            AttributionGraph(2 examples, 3 users, 3 edges)
        """
        if not hasattr(matrix, "tocoo") or len(matrix.shape) != 2:
            raise ValueError(f"matrix is a {type(matrix).__name__}, but it must be a SciPy sparse matrix.")
        entries = matrix.tocoo()
        rows, columns = entries.coords if hasattr(entries, "coords") else (entries.row, entries.col)
        stored = entries.data != 0
        wrong = np.flatnonzero(stored & (entries.data != 1))
        if wrong.size:
            at = wrong[np.lexsort((columns[wrong], rows[wrong]))[0]]
            raise ValueError(
                f"matrix has the value {entries.data[at]!s} at [{rows[at]}, {columns[at]}], but every entry must be 0 "
                "or 1."
            )
        return cls._from_pairs(
            rows[stored].astype(np.int64), columns[stored].astype(np.int64), *matrix.shape, by_example=True
        )

    @classmethod
    def _from_pairs(
        cls,
        rows: IntegerArray,
        columns: IntegerArray,
        num_examples: int,
        num_users: int,
        *,
        first_row: int = 0,
        by_example: bool = False,
        example_ids: NDArray[Any] | None = None,
        user_ids: NDArray[Any] | None = None,
    ) -> "AttributionGraph":
        """Build the graph of edges whose indices are within bounds."""
        if num_examples == 0:
            raise ValueError("The graph has no examples, but it must have at least one.")
        codes = rows * max(num_users, 1) + columns
        sorted_codes = np.sort(codes)
        if (sorted_codes[1:] == sorted_codes[:-1]).any():
            order = np.argsort(codes, kind="stable")
            again = order[1:][codes[order[1:]] == codes[order[:-1]]].min()
            place = f"Example {rows[again]}" if by_example else f"Row {first_row + again}"
            example = rows[again] if example_ids is None else example_ids[rows[again]]
            user = columns[again] if user_ids is None else user_ids[columns[again]]
            edge = f"user {user}" if by_example else f"the edge of example {example} and user {user}"
            raise ValueError(f"{place} repeats {edge}, but every edge must be given once.")
        counts = np.bincount(rows, minlength=num_examples)
        if not counts.all():
            raise ValueError(
                f"Example {int(np.argmin(counts > 0))} has no user, but every example must belong to at least one."
            )
        offsets = np.concatenate([[0], np.cumsum(counts)])
        users = (sorted_codes % max(num_users, 1)).astype(np.int32)
        return cls(offsets, users, num_users, example_ids, user_ids)

    def __repr__(self) -> str:
        return f"AttributionGraph({self.num_examples:,} examples, {self.num_users:,} users, {self.num_edges:,} edges)"

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return self.offsets.size - 1

    @property
    def num_edges(self) -> int:
        """Number of edges: pairs of an example and one of its users."""
        return self.users.size

    def users_of(self, example: int) -> NDArray[np.int32]:
        """Return the users of an example.

        Args:
            example: The index of the example.
        """
        return self.users[self.offsets[example] : self.offsets[example + 1]]

    @cached_property
    def users_per_example(self) -> IntegerArray:
        """Number of users of each example."""
        return np.diff(self.offsets)

    @cached_property
    def examples_per_user(self) -> IntegerArray:
        """Number of examples of each user: 0 for a user who has none."""
        return np.bincount(self.users, minlength=self.num_users)

    @property
    def largest_degree(self) -> int:
        """Largest number of examples of one user."""
        return int(self.examples_per_user.max())

    @cached_property
    def neighbourhood_sizes(self) -> IntegerArray:
        """Number of examples with which each example shares a user, including itself: |N(e)|.

        Computed edge by edge; the example-to-example graph is never built.
        """
        sizes = np.empty(self.num_examples, dtype=np.int64)
        kernels.neighbourhood_sizes(self.offsets, self.users, *self._by_user, sizes)
        return sizes

    @cached_property
    def _by_user(self) -> tuple[IntegerArray, NDArray[np.int32]]:
        """The transposed graph: where the examples of each user start, and the examples."""
        user_offsets = np.concatenate([[0], np.cumsum(self.examples_per_user)])
        examples = np.empty(self.num_edges, dtype=np.int32)
        kernels.transpose(self.offsets, self.users, user_offsets[:-1].copy(), examples)
        return user_offsets, examples

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the edges. It identifies the graph, so it is as private as the graph."""
        digest = hashlib.sha256(f"{self.num_users} ".encode())
        digest.update(self.offsets.astype("<i8").tobytes())
        digest.update(self.users.astype("<i4").tobytes())
        return digest.hexdigest()

    def take(self, examples: ArrayLike) -> "AttributionGraph":
        """Return the graph of some of the examples, with the same users.

        Args:
            examples: The indices of the examples, in the order of the new graph and with repetitions.

        Examples:
            >>> AttributionGraph.from_lists([[0, 1], [1], [2]]).take([2, 0, 0])
            AttributionGraph(3 examples, 3 users, 5 edges)
        """
        chosen = whole_numbers(examples=examples)
        if chosen.size == 0:
            raise ValueError("examples is empty, but it must have at least one index.")
        if chosen.max() >= self.num_examples:
            raise ValueError(
                f"examples has the index {chosen.max()}, but the graph has {self.num_examples:,} examples."
            )
        counts = self.users_per_example[chosen]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], counts)
        ids = None if self.example_ids is None else self.example_ids[chosen]
        users_ids = None if self.user_ids is None else self.user_ids.copy()
        return AttributionGraph(offsets, self.users[places], self.num_users, ids, users_ids)


def _count(indices: IntegerArray, **parameter: int | None) -> int:
    """Return the number of indexed items: as given, or one more than the largest index."""
    ((name, given),) = parameter.items()
    least = int(indices.max()) + 1 if indices.size else 0
    if given is None:
        return validate.integer(**{name: least}, at_most=_MOST_ITEMS)
    number = validate.integer(**{name: given}, at_least=1, at_most=_MOST_ITEMS)
    if number < least:
        raise ValueError(f"{name} is {number}, but it must be at least {least}, because there is an index {least - 1}.")
    return number
