"""An edge file is read as it says, or refused in a sentence: no edge is lost, and no two users become one."""

import csv
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st

import minsep
from tests.fuzz.mutations import Case, Originals, assert_sentences, damaged_bytes, fuzz, memory_limit

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

NUMBERS = [(10, 7), (10, 3), (4, 7), (5, 5)]
TEXTS = [("x1", "Ada"), ("x1", "Bo, C."), ("x2", "Ada"), ("é", 'a "b"')]


def csv_of(rows, header=None):
    text = io.StringIO(newline="")
    csv.writer(text).writerows(([header] if header else []) + rows)
    return text.getvalue().encode()


def parquet_of(**columns):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


CSV = Originals(
    [
        csv_of(NUMBERS),
        csv_of(NUMBERS, ["example", "user"]),
        csv_of(TEXTS, ["example", "user"]),
        csv_of([(year, user, example) for year, (example, user) in enumerate(TEXTS)], ["year", "user", "example"]),
    ]
)
LISTS = [[7, 3], [7], [5]]
PARQUET = Originals(
    [
        parquet_of(example=[example for example, _ in NUMBERS], user=[user for _, user in NUMBERS]),
        parquet_of(example=[example for example, _ in TEXTS], user=[user for _, user in TEXTS]),
        parquet_of(example=[1, 2, 3], user=LISTS),
    ]
)


def read(content, suffix):
    """Return the edges as pairs of ids, or None if the file is refused as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"edges{suffix}")
        path.write_bytes(content)
        try:
            graph = minsep.AttributionGraph.from_edges(path)
        except ValueError as error:
            assert_sentences(error)
            return None
    return sorted(
        (str(graph.example_ids[example]), str(graph.user_ids[user]))
        for example in range(graph.num_examples)
        for user in graph.users_of(example)
    )


def as_read(rows):
    return sorted((str(example).strip(), str(user).strip()) for example, user in rows)


IDS = st.one_of(
    st.integers(0, 30).map(str),
    st.sampled_from(
        ["Ada", "Bo, C.", 'a "b"', "1.5", "1e3", "+1", "007", "inf", "example", "é", "a\nb", "0x1", "\U0002ff26"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5).filter(
        lambda text: text.strip() and text.strip().lower() != "nan" and text == text.strip()
    ),
)  # fmt: skip


@st.composite
def tables(draw):
    rows = draw(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=12, unique=True))
    header = draw(st.sampled_from([None, ["example", "user"], ["paper", "author"], ["example", "user", "year"]]))
    if header and len(header) == 3:
        rows = [(*row, "2001") for row in rows]
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    ends = draw(st.sampled_from(["\n", "\r\n"]))
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting, lineterminator=ends).writerows(([header] if header else []) + rows)
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return Case(0, (header, [row[:2] for row in rows], (mark + text.getvalue()).encode()), text.getvalue())


def canonical(rows):
    """Read ids as numbers if all of a file are."""
    try:
        return sorted((str(int(example)), str(int(user))) for example, user in rows)
    except ValueError:
        return as_read(rows)


@fuzz(tables(), quick=150, slow=1200)
def test_every_edge_of_a_table_is_read(case):
    _, (header, rows, content) = case
    found = read(content, ".csv")
    if found is not None and found != canonical(rows):
        # Without a header, text in the first row is taken for one: only where all other ids are integers.
        assert header is None
        rest = rows[1:]
        assert found == canonical(rest)
        assert all(number.isdigit() for pair in found for number in pair)


@fuzz(damaged_bytes(CSV), quick=80, slow=600)
def test_damaged_tables_are_refused_or_read(case):
    read(case.content, ".csv")


@fuzz(damaged_bytes(PARQUET), quick=60, slow=600)
def test_damaged_parquet_is_refused_or_read(case):
    with memory_limit():
        read(case.content, ".parquet")


COLUMNS = {
    "numbers": [3, 4, 5],
    "text": ["a", "b", "c"],
    "some missing": ["a", None, "c"],
    "empty text": ["a", "", "c"],
    "fractions": [1.0, 2.5, float("nan")],
    "truth": [True, False, True],
    "bytes": [b"a", b"b", b"c"],
    "objects": [{"a": 1}, {"a": 2}, {"a": 3}],
    "lists": LISTS,
    "lists of lists": [[[1]], [[2]], [[3]]],
    "lists with an empty one": [[1], [], [2]],
    "lists with a missing one": [["a", None], ["b"], ["c"]],
    "missing lists": [["a"], None, ["c"]],
    "large lists": pyarrow.array(LISTS, pyarrow.large_list(pyarrow.int64())),
    "pairs": pyarrow.array([[1, 2], [2, 3], [3, 4]], pyarrow.list_(pyarrow.int64(), 2)),
    "a dictionary": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
    "long text": pyarrow.array(["a", "b", "c"], pyarrow.large_string()),
    "bytes of numbers": pyarrow.array([1, 2, 3], pyarrow.uint8()),
    "dates": pyarrow.array([1, 2, 3], pyarrow.date32()),
    "nothing": pyarrow.nulls(3),
}
PAIRS = st.tuples(st.sampled_from(list(COLUMNS)), st.sampled_from(list(COLUMNS)))


def pairs_of(examples, users):
    """Return the edges that two columns mean, if they mean any."""
    examples, users = (pyarrow.array(column).to_pylist() for column in (examples, users))
    users = [user if isinstance(user, list) else [user] for user in users]
    every = [(example, user) for example, several in zip(examples, users, strict=True) for user in several]
    meant = all(type(one) in (int, str) and one != "" for pair in every for one in pair)
    return as_read(every) if meant and all(users) and len(set(every)) == len(every) else None


@fuzz(PAIRS, quick=100, slow=400)
def test_columns_of_any_type_are_read_as_they_are_meant_or_refused(case):
    examples, users = (COLUMNS[name] for name in case)
    assert read(parquet_of(example=examples, user=users), ".parquet") == pairs_of(examples, users)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1,Ada\nx1,Bo\n", "starts with 'x1,Ada', which may be names or an edge"),
        ("x1,Ada\nx2,Bo\n", "which may be names or an edge"),
        ('1,"2\n3,4\n', "unexpected end of data"),
        ('example,user\n1,"2\n3,4\n', "unexpected end of data"),
        ("example,user\na," + 200_000 * "x", "field larger than field limit"),
        ("example,user\na,b\0\na,b\n", "null character in its user id"),
    ],
)
def test_tables_that_would_lose_an_edge_are_refused(tmp_path, text, message):
    (tmp_path / "edges.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        minsep.AttributionGraph.from_edges(tmp_path / "edges.csv")


def test_a_number_in_the_first_row_makes_it_an_edge(tmp_path):
    assert read(b"+1,2\n1,3\n", ".csv") == [("1", "2"), ("1", "3")]
    assert read(b"1.5,2\n1.7,3\n", ".csv") == [("1.5", "2"), ("1.7", "3")]
    assert read(b"x,2\ny,3\n", ".csv") == [("x", "2"), ("y", "3")]


def test_only_digits_are_numbers(tmp_path):
    assert read("1,196342\n1,\U0002ff26\n".encode(), ".csv") == [("1", "196342"), ("1", "\U0002ff26")]
    assert read("\ufeff1,2,é\n3,4,\U0002ff26\n".encode(), ".csv") == [("1", "2"), ("3", "4")]


def test_quoted_line_ends_are_not_edges(tmp_path):
    assert read(b'example,user,note\n1,2,"a\n3,4,b"\n5,6,c\n', ".csv") == [("1", "2"), ("5", "6")]


def test_two_columns_of_one_name_are_refused():
    file = io.BytesIO()
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    parquet.write_table(table, file)
    assert read(file.getvalue(), ".parquet") is None
