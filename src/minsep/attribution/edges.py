"""Edge lists from files and arrays, checked in bulk; an error names the first row that is wrong."""

import codecs
import csv
import io
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minsep.core import validation as validate
from minsep.core.arrays import IntegerArray
from minsep.core.files import write_whole
from minsep.core.install import install_command

_LARGEST_INDEX = 2**31 - 2


@dataclass(frozen=True)
class Edges:
    """Edges as pairs of indices, and the ids in the file that the indices stand for."""

    examples: IntegerArray
    users: IntegerArray
    example_ids: NDArray[Any]
    user_ids: NDArray[Any]
    first_row: int
    """Number of the first edge as the file counts it: its line, or row."""


def whole_numbers(rows: IntegerArray | None = None, **parameter: ArrayLike) -> IntegerArray:
    """Return the one keyword argument as indices; `rows` are the row numbers for error messages.

    >>> whole_numbers(users=[3, None, 4])
    Traceback (most recent call last):
    ValueError: Row 1 has no users id (None), but every row must have an integer of at least 0.
    >>> whole_numbers(users=[3, -1])
    Traceback (most recent call last):
    ValueError: Row 1 has the users id -1, but every row must have an integer of at least 0.
    """
    ((name, value),) = parameter.items()
    given = np.asarray(value)
    if given.ndim != 1:
        raise ValueError(f"{name} has the shape {given.shape}, but it must be an array of one dimension.")
    if given.size == 0:
        return np.empty(0, dtype=np.int64)
    if given.dtype.kind in "iu":
        wrong = (given < 0) | (given > _LARGEST_INDEX)
    elif given.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            wrong = ~((given >= 0) & (given <= _LARGEST_INDEX) & (given == np.floor(given)))
    else:
        wrong = np.array([not _is_index(item) for item in given.tolist()])
    if wrong.any():
        place = int(np.argmax(wrong))
        item = given.tolist()[place]
        row = f"Row {place}" if rows is None else f"Example {rows[place]}"
        missing = item is None or item != item
        found = f"no {name} id ({item})" if missing else f"the {name} id {item!r}"
        raise ValueError(f"{row} has {found}, but every row must have an integer of at least 0.")
    return given.astype(np.int64)


def _is_index(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _LARGEST_INDEX


def read_edges(path: str | os.PathLike[str]) -> Edges:
    """Read the edges of a .csv or .parquet file."""
    readers: dict[str, Callable[[Path], tuple[NDArray[Any], NDArray[Any], int]]] = {
        ".csv": _read_csv,
        ".parquet": _read_parquet,
    }
    path = Path(path)
    if path.suffix.lower() not in readers:
        raise ValueError(f"The file of edges is {str(path)!r}, but its name must end in {' or '.join(readers)}.")
    try:
        examples, users, first_row = readers[path.suffix.lower()](path)
    except UnicodeDecodeError:
        raise ValueError(f"The file {str(path)!r} is not text in UTF-8.") from None
    except csv.Error as error:
        raise ValueError(f"The file {str(path)!r} is not a table of comma-separated values: {error}.") from None
    if examples.size == 0:
        raise ValueError(f"The file {str(path)!r} contains no edges.")
    example_ids, example_indices = np.unique(examples, return_inverse=True)
    user_ids, user_indices = np.unique(users, return_inverse=True)
    return Edges(example_indices.astype(np.int64), user_indices.astype(np.int64), example_ids, user_ids, first_row)


def _read_csv(path: Path) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Read two columns; lines are counted from 1, including a header."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        head = [cell.strip() for cell in next(csv.reader(file, strict=True), [])]
    if len(head) < 2:
        raise ValueError(
            f"The file {str(path)!r} starts with {validate.in_short(head)}, but it must have two columns: example and "
            "user."
        )
    named = "example" in head and "user" in head
    header = named or not any(_is_number(cell) for cell in head[:2])
    columns = _columns(head) if header else (0, 1)
    try:
        table = _integers(path, header, columns)
    except ValueError:
        examples, users, first_row = _read_csv_text(path, header, columns)
        if header and not named and examples.size:
            raise ValueError(
                f"The file {str(path)!r} starts with {validate.in_short(','.join(head))}, which may be names or an "
                "edge: where ids are text, the first line must name the columns example and user."
            ) from None
        return examples, users, first_row
    first_row = 1 + int(header)
    _refuse_negative(table[:, 0], "example", first_row)
    _refuse_negative(table[:, 1], "user", first_row)
    return table[:, 0], table[:, 1], first_row


def _integers(path: Path, header: bool, columns: tuple[int, int]) -> NDArray[np.int64]:
    """Read two columns of integers, in ASCII: NumPy takes some other characters for digits."""
    with open(path, "rb") as raw, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a file without edges is refused later
        raw.seek(len(codecs.BOM_UTF8) if raw.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0)
        text = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
        return np.loadtxt(
            text, dtype=np.int64, delimiter=",", skiprows=int(header), usecols=columns, ndmin=2, comments=None,
            quotechar='"',
        )  # fmt: skip


def _read_csv_text(path: Path, header: bool, columns: tuple[int, int]) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Read ids that are not all integers: as text."""
    found: tuple[list[str], list[str]] = [], []
    with open(path, newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.reader(file, strict=True), start=1):
            if (header and number == 1) or not row:
                continue
            for name, column, ids in zip(("example", "user"), columns, found, strict=True):
                cell = row[column].strip() if column < len(row) else ""
                if not cell or cell.lower() == "nan":
                    raise ValueError(
                        f"Row {number} of {str(path)!r} has no {name} id: {validate.in_short(','.join(row))}."
                    )
                if "\0" in cell:  # arrays of text drop it at the end
                    raise ValueError(f"Row {number} of {str(path)!r} has a null character in its {name} id.")
                ids.append(cell)
    return np.array(found[0]), np.array(found[1]), 1 + int(header)


def _read_parquet(path: Path) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Read two columns; rows are counted from 0. If users are lists, there is one row per example."""
    pyarrow, parquet = pyarrow_modules()
    try:
        with open(path, "rb") as file:
            names = parquet.read_schema(file).names
            pair = [names[k] for k in _columns(names)] if len(names) > 1 else []
            if len(pair) < 2 or any(names.count(name) > 1 for name in pair):
                raise ValueError(
                    f"The file {str(path)!r} has the columns {validate.in_short(names)}, but it must have two of "
                    "different names: example and user."
                )
            table = parquet.read_table(file, columns=pair).combine_chunks()
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk, not the content
        reason = validate.shortened(str(error)).rstrip(".")
        raise ValueError(f"The file {str(path)!r} cannot be read as .parquet: {reason}.") from None
    columns = [table.column(name) for name in pair]
    for name, column in zip(("example", "user"), columns, strict=True):
        if column.null_count:
            missing = int(np.argmax(column.is_null().to_numpy()))
            raise ValueError(f"Row {missing} of {str(path)!r} has no {name} id.")
    examples, users = columns[0], columns[1]
    types = pyarrow.types
    if types.is_list(users.type) or types.is_large_list(users.type) or types.is_fixed_size_list(users.type):
        lists = users.combine_chunks()
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        if not lengths.all():
            empty = int(np.argmin(lengths > 0))
            raise ValueError(f"Example {empty} of {str(path)!r} has no user, but every example must have at least one.")
        users = lists.flatten()
        if users.null_count:
            missing = int(np.repeat(np.arange(lengths.size), lengths)[np.argmax(users.is_null().to_numpy(False))])
            raise ValueError(f"Example {missing} of {str(path)!r} has no user id in its list.")
        examples = examples.take(pyarrow.array(np.repeat(np.arange(lengths.size), lengths)))
    return _ids(examples, "example", path), _ids(users, "user", path), 0


def _ids(column: Any, name: str, path: Path) -> NDArray[Any]:
    """Return a column of integers, or of text, as an array."""
    pyarrow, _ = pyarrow_modules()
    kind = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
    if pyarrow.types.is_integer(kind):
        ids: NDArray[Any] = np.asarray(column.cast(kind))
        _refuse_negative(ids, name, 0)
        return ids
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise ValueError(f"The file {str(path)!r} has {name} ids of type {kind}, but they must be integers or text.")
    try:
        text = np.asarray(column.cast(kind)).astype(str)
    except (pyarrow.ArrowException, UnicodeDecodeError):
        raise ValueError(f"The file {str(path)!r} has {name} ids that are not valid text.") from None
    if (np.char.str_len(text) == 0).any():
        raise ValueError(f"Row {int(np.argmin(np.char.str_len(text)))} of {str(path)!r} has no {name} id.")
    return text


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _columns(names: list[str]) -> tuple[int, int]:
    """Return the positions of the columns `example` and `user`, or else the first two."""
    if "example" in names and "user" in names:
        return names.index("example"), names.index("user")
    return 0, 1


def _refuse_negative(ids: NDArray[Any], name: str, first_row: int) -> None:
    if ids.dtype.kind != "i":
        return
    negative = ids < 0
    if negative.any():
        place = int(np.argmax(negative))
        raise ValueError(
            f"Row {first_row + place} has the {name} id {ids[place]}, but every row must have an integer of at least 0."
        )


def check_format(path: Path) -> None:
    """Refuse an output file whose format cannot be written, before any work is done."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"output is {str(path)!r}, but its name must end in .csv or .parquet.")
    if path.suffix.lower() == ".parquet":
        pyarrow_modules()


def write_examples(path: Path, ids: NDArray[Any]) -> None:
    """Write the ids of examples, in their order, as a column `example`; whole or not at all."""
    if path.suffix.lower() == ".parquet":
        pyarrow, parquet = pyarrow_modules()
        write_whole(path, lambda file: parquet.write_table(pyarrow.table({"example": ids}), file))
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["example"])
    writer.writerows([item] for item in ids.tolist())
    write_whole(path, text.getvalue().encode())


def pyarrow_modules() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, or say how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"A .parquet file needs pyarrow: {install_command('parquet')}, or use .csv.") from None
    return pyarrow, pyarrow.parquet
