"""Ledgers that were edited or damaged: each is refused in one sentence, or its unfinished last line is dropped."""

import random

import pytest

import minsep
from minsep.ledger.chain import linked
from tests.ledger.small import EVENT, create


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the bytes of a ledger with six entries."""
    folder = tmp_path_factory.mktemp("whole")
    book = create(folder)
    for place in range(6):
        book.add(EVENT, name=f"entry {place}")
    return (folder / "budget.json").read_bytes()


def corrupted(whole, moments):
    """Return other bytes, and whether they are those of a write that ended within the last line."""
    lines = whole.splitlines(keepends=True)
    place = moments.randrange(len(lines))
    at = moments.randrange(len(whole))
    match moments.randrange(7):
        case 0:  # a byte changes
            changed = whole[:at] + bytes([whole[at] ^ moments.randrange(1, 256)]) + whole[at + 1 :]
            return changed, at == len(whole) - 1
        case 1:
            return whole[:at] + whole[at + moments.randint(1, 50) :], False
        case 2:
            return whole[:at] + moments.randbytes(moments.randint(1, 50)) + whole[at:], False
        case 3:  # not the last line, whose absence only its hash shows
            place = moments.randrange(len(lines) - 1)
            return b"".join(lines[:place] + lines[place + 1 :]), False
        case 4:
            return b"".join([*lines[: place + 1], *lines[place:]]), False
        case 5:
            moments.shuffle(lines)
            return b"".join(lines), False
    cut = moments.randint(len(whole) - len(lines[-1]), len(whole) - 1)
    return whole[:cut], True


def opened(path, head=None):
    """Return the entries of a ledger, or how it is refused."""
    try:
        return minsep.Ledger.open(path, head=head).entries, ""
    except ValueError as error:
        return None, str(error)


def check(whole, folder, count, seed):
    moments, path = random.Random(seed), folder / "budget.json"
    path.write_bytes(whole)
    entries, refused = minsep.Ledger.open(path).entries, 0
    for _ in range(count):
        content, unfinished = corrupted(whole, moments)
        if content == whole:
            continue
        path.write_bytes(content)
        found, refusal = opened(path)
        # Who kept the hash of the last line gets all entries, or none.
        assert opened(path, entries[-1].hash)[0] in (entries, None)
        assert path.read_bytes() == content
        if found is None:
            assert str(path) in refusal
            assert "\n" not in refusal
            refused += 1
            continue
        # All entries are there, or all but one whose line has no end, and none is there twice.
        assert found in (entries, entries[:-1])
        assert found == entries or unfinished or not content.endswith(b"\n")
    assert refused > count // 2


def test_a_hundred_corruptions_are_refused_or_harmless(whole, tmp_path):
    check(whole, tmp_path, 100, seed=1)


@pytest.mark.slow
def test_a_thousand_corruptions_are_refused_or_harmless(whole, tmp_path):
    check(whole, tmp_path, 1000, seed=2)


def test_every_unfinished_last_line_is_dropped_and_written_over(whole, tmp_path):
    path = tmp_path / "budget.json"
    before = whole.rstrip(b"\n").rpartition(b"\n")[0] + b"\n"
    for cut in [len(before), len(before) + 1, len(before) + 40, len(whole) - 2, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        book = minsep.Ledger.open(path)
        complete = cut == len(whole) - 1  # only the end of the line is missing, so the entry counts
        assert len(book.entries) == 5 + complete
        book.add(EVENT, name="next")
        names = [entry.name for entry in minsep.Ledger.open(path).entries]
        assert names == [f"entry {place}" for place in range(5 + complete)] + ["next"]


def test_an_unfinished_first_line_is_no_ledger_yet(whole, tmp_path):
    path = tmp_path / "budget.json"
    for cut in (0, 5, 100):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="its first line is missing: create the ledger again"):
            minsep.Ledger.open(path)
        create(tmp_path)
        assert minsep.Ledger.open(path).entries == ()


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        ({"ledger": 2}, "it has format 2, and this version of minsep reads 1"),
        ({"ledger": 1}, "its first line is invalid"),
        ({"ledger": 1, "dataset": 3}, "its first line is invalid"),
    ],
)
def test_a_first_line_that_no_version_wrote_is_refused(tmp_path, content, refusal):
    (tmp_path / "budget.json").write_bytes(linked(content, 0, "")[0] + b"\n")
    with pytest.raises(ValueError, match=refusal):
        minsep.Ledger.open(tmp_path / "budget.json")


@pytest.mark.parametrize(
    "items", [[], [{"event": {}}], [{"certificate": {}}], [{"dream": 1}], [3], "text", [{"mechanism": []}]]
)
def test_an_entry_that_no_version_wrote_is_refused(tmp_path, items):
    book = create(tmp_path)
    content = {"name": "x", "date": "2026-01-01", "booking": None, "charge": None, "items": items}
    with (tmp_path / "budget.json").open("ab") as file:
        file.write(linked(content, 1, book.head)[0] + b"\n")
    with pytest.raises(ValueError, match="entry 1 is invalid|Entry 1 of the ledger cannot be read") as error:
        book.spent()
    assert "\n" not in str(error.value)
