import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

import minsep
from minsep.attribution.edges import write_examples

LISTS = [[2, 0], [1], [1, 3, 0], [5]]


def users_of(graph):
    return [graph.users_of(k).tolist() for k in range(graph.num_examples)]


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_every_door_gives_the_same_graph(tmp_path):
    edges = [(e, u) for e, users in enumerate(LISTS) for u in users]
    rows, columns = zip(*edges, strict=True)
    matrix = sparse.coo_array((np.ones(len(edges)), (rows, columns)))
    graphs = [
        minsep.AttributionGraph.from_lists(LISTS),
        minsep.AttributionGraph.from_edges(rows, columns),
        minsep.AttributionGraph.from_edges(edges[::-1]),
        minsep.AttributionGraph.from_edges(np.array(rows, float), np.array(columns, np.uint8)),
        minsep.AttributionGraph.from_sparse(matrix),
        minsep.AttributionGraph.from_sparse(matrix.tocsr().astype(bool)),
        minsep.AttributionGraph.from_sparse(sparse.csc_matrix(matrix)),
    ]
    for graph in graphs:
        assert users_of(graph) == [sorted(users) for users in LISTS]
        assert graph.num_users == 6
        assert graph.fingerprint == graphs[0].fingerprint
    assert graphs[0].users_per_example.tolist() == [2, 1, 3, 1]
    assert graphs[0].examples_per_user.tolist() == [2, 2, 1, 1, 0, 1]
    assert graphs[0].largest_degree == 2
    assert minsep.AttributionGraph.from_lists(LISTS[:3]).fingerprint != graphs[0].fingerprint
    assert not graphs[0].users.flags.writeable


@pytest.mark.parametrize("header", [["example", "user"], ["paper", "author"], None])
def test_csv_of_numbers(tmp_path, header):
    edges = [[10, 7], [10, 3], [4, 7]]
    path = write_csv(tmp_path / "edges.csv", ([header] if header else []) + edges)
    graph = minsep.AttributionGraph.from_edges(path)
    assert graph.example_ids.tolist() == [4, 10]
    assert graph.user_ids.tolist() == [3, 7]
    assert users_of(graph) == [[1], [0, 1]]


def test_csv_of_text_and_columns_by_name(tmp_path):
    path = write_csv(tmp_path / "edges.csv", [["year", "user", "example"], [1999, "Ada", "x1"], [2001, "Bo, C.", "x1"]])
    graph = minsep.AttributionGraph.from_edges(str(path))
    assert graph.example_ids.tolist() == ["x1"]
    assert graph.user_ids.tolist() == ["Ada", "Bo, C."]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"example": [10, 10, 4], "user": ["b", "a", "b"]}), tmp_path / "edges.parquet")
    graph = minsep.AttributionGraph.from_edges(tmp_path / "edges.parquet")
    assert graph.example_ids.tolist() == [4, 10]
    assert users_of(graph) == [[1], [0, 1]]
    parquet.write_table(pyarrow.table({"id": ["y", "x"], "authors": [[7, 3], [7]]}), tmp_path / "lists.parquet")
    graph = minsep.AttributionGraph.from_edges(tmp_path / "lists.parquet")
    assert graph.example_ids.tolist() == ["x", "y"]
    assert users_of(graph) == [[1], [0, 1]]
    for table, message in [
        ({"example": [1, 2], "user": [3, None]}, "Row 1 of .* has no user id"),
        ({"example": [1, 2], "user": [3, -4]}, "Row 1 has the user id -4"),
        ({"example": [1, 2], "user": [[3], []]}, "Example 1 of .* has no user"),
        ({"example": [1, 2], "user": [[3], [None, 2]]}, "has no user id"),
        ({"example": [1, 1], "user": [3, 3]}, "Row 1 repeats the edge of example 1 and user 3"),
    ]:
        parquet.write_table(pyarrow.table(table), tmp_path / "bad.parquet")
        with pytest.raises(ValueError, match=message):
            minsep.AttributionGraph.from_edges(tmp_path / "bad.parquet")
    write_examples(tmp_path / "kept.parquet", np.array([4, 4, 10]))
    assert parquet.read_table(tmp_path / "kept.parquet").to_pydict() == {"example": [4, 4, 10]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2], [3, ""]], "Row 2 of .* has no user id: '3,'"),
        ([["e", "u"], [1, 2], ["", 4]], "Row 3 of .* has no example id"),
        ([["e", "u"], [1, 2], [5]], "Row 3 of .* has no user id"),
        ([["e", "u"], [1, 2], [5, "nan"]], "Row 3 of .* has no user id"),
        ([[1, 2], [3, -4]], "Row 2 has the user id -4"),
        ([[-1, 2], [3, 4]], "Row 1 has the example id -1"),
        ([["e", "u"], [8, 2], [8, 2]], "Row 3 repeats the edge of example 8 and user 2"),
        ([["e", "u"]], "contains no edges"),
        ([["x1", "Ada"], ["x2", "Bo"]], "starts with 'x1,Ada', which may be names or an edge"),
        ([["paper", "author"], [1, "Ada"]], "the first line must name the columns example and user"),
        ([["e"], [1]], "must have two columns"),
        ([], "must have two columns"),
    ],
)
def test_bad_csv_is_refused_by_its_first_bad_row(tmp_path, rows, message):
    path = write_csv(tmp_path / "edges.csv", rows)
    with pytest.raises(ValueError, match=message):
        minsep.AttributionGraph.from_edges(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: g.from_edges([0, 1, 2], [0, -1, -2]), "Row 1 has the users id -1"),
        (lambda g: g.from_edges([0, None], [0, 1]), r"Row 1 has no examples id \(None\)"),
        (lambda g: g.from_edges([0, 1], [0, float("nan")]), r"Row 1 has no users id \(nan\)"),
        (lambda g: g.from_edges([0, 1], [0, 1.5]), "Row 1 has the users id 1.5"),
        (lambda g: g.from_edges([0, 1], ["a", "b"]), "Row 0 has the users id 'a'"),
        (lambda g: g.from_edges([0, 1], [True, False]), "Row 0 has the users id True"),
        (lambda g: g.from_edges([0, 1], [0]), "2 rows and users has 1"),
        (lambda g: g.from_edges([0, 1]), "must have two columns"),
        (lambda g: g.from_edges([0, 2], [0, 0]), "Example 1 has no user"),
        (lambda g: g.from_edges([0], [0], num_examples=3), "Example 1 has no user"),
        (lambda g: g.from_edges([0, 3], [0, 0], num_examples=3), "num_examples is 3, but it must be at least 4"),
        (lambda g: g.from_edges([], []), "no examples"),
        (lambda g: g.from_edges("edges.txt"), "must end in .csv or .parquet"),
        (lambda g: g.from_edges("edges.csv", [1]), "takes no further arguments"),
        (lambda g: g.from_lists([[0], [1, 1]]), "Example 1 repeats user 1"),
        (lambda g: g.from_lists([[0], [], []]), "Example 1 has no user"),
        (lambda g: g.from_lists([[0], [3, None]]), "Example 1 has no users id"),
        (lambda g: g.from_sparse([[1, 0]]), "matrix is a list"),
        (lambda g: g.from_sparse(sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(1, 2))), "repeats"),
        (lambda g: g.from_sparse(sparse.csr_array([[1, 0], [2, 1]])), r"value 2 at \[1, 0\]"),
        (lambda g: g.from_lists([[0]]).take([]), "at least one"),
        (lambda g: g.from_lists([[0]]).take([1]), "index 1, but the graph has 1"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(minsep.AttributionGraph)


GRAPHS = st.lists(st.sets(st.integers(0, 12), min_size=1, max_size=5).map(sorted), min_size=1, max_size=25)


@settings(max_examples=100, deadline=None)
@given(GRAPHS)
def test_degrees_and_neighbourhoods_equal_their_definitions(lists):
    graph = minsep.AttributionGraph.from_lists(lists)
    sets = [set(users) for users in lists]
    assert graph.neighbourhood_sizes.tolist() == [sum(bool(one & two) for two in sets) for one in sets]
    assert graph.examples_per_user.tolist() == [sum(u in one for one in sets) for u in range(graph.num_users)]
    chosen = np.random.default_rng(0).integers(0, len(lists), size=7)
    assert users_of(graph.take(chosen)) == [lists[k] for k in chosen]
    assert_array_equal(graph.take(chosen).offsets, np.concatenate([[0], np.cumsum([len(lists[k]) for k in chosen])]))
