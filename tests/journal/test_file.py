"""Journals of a small program: whatever becomes of the file, the outcome is identical or the refusal a sentence."""

import errno
import itertools
import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minsep
from minsep.journal import call as journal_call
from minsep.journal import file as journal_file
from minsep.journal.file import JournalFile
from minsep.journal.lines import FIRST, sealed
from tests.journal.program import CHUNKS, Drawn, program

SENTENCE = re.compile(r"journal is '[^\n]*', but [^\n]*\.")


@pytest.fixture(autouse=True)
def every_state(monkeypatch):
    """Write down every state, without waiting for the disk."""
    monkeypatch.setattr("minsep.journal.compute._SECONDS", 0.0)
    monkeypatch.setattr("minsep.journal.compute._SHARE", 0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A journal of the whole program with a state for every chunk, and its outcome."""
    path = tmp_path_factory.mktemp("journal") / "whole.journal"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minsep.journal.compute._SECONDS", 0.0)
        patch.setattr("minsep.journal.compute._SHARE", 0.0)
        outcome = program(path)
    return path.read_bytes(), outcome


def refusal(path, **options):
    """Return the sentence by which a program refuses a journal, which it leaves as it is."""
    before = path.read_bytes()
    with pytest.raises((ValueError, OSError)) as refused:
        program(path, **options)
    assert SENTENCE.fullmatch(str(refused.value)), str(refused.value)
    assert path.read_bytes() == before
    return str(refused.value)


def test_a_journal_changes_no_number(tmp_path):
    assert program(tmp_path / "a.journal", seed=5)[2] == program(None, seed=5)[2]


def test_a_finished_program_draws_nothing(whole, tmp_path):
    content, outcome = whole
    path = tmp_path / "again.journal"
    path.write_bytes(content)
    drawn = Drawn()
    assert program(path, drawn=drawn) == outcome
    assert drawn.chunks == []
    assert path.read_bytes() == content


@pytest.mark.parametrize("stop_at", range(0, 2 * CHUNKS, 3))
def test_no_chunk_is_drawn_twice_after_its_state_was_written(tmp_path, stop_at):
    path, first, second = tmp_path / "a.journal", Drawn(), Drawn()
    with pytest.raises(KeyboardInterrupt):
        program(path, seed=3, stop_at=stop_at, drawn=first, compute=minsep.Compute(workers=1))
    found = program(path, seed=3, drawn=second, compute=minsep.Compute(workers=1))
    assert found[2] == program(None, seed=3)[2]
    # Only the chunk in hand when it crashed is drawn again.
    assert len(set(first.chunks) & set(second.chunks)) == 1
    assert len(second.chunks) == len(set(second.chunks))


def states(path):
    """Return of each fold the numbers of chunks that were written, in order."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    folds = [entry for entry in entries if entry.get("kind") == "fold"]
    return [[entry["chunks"] for entry in group] for _, group in itertools.groupby(folds, lambda entry: entry["of"])]


def test_states_of_a_journal_never_go_back(tmp_path):
    path = tmp_path / "a.journal"
    for stop_at in (2, 1, 3, 0, 4, 5, 2, 2, 2):
        drawn = Drawn()
        try:
            program(path, seed=3, stop_at=stop_at, drawn=drawn)
        except KeyboardInterrupt:
            continue
    program(path, seed=3)
    assert len(states(path)) == 3
    for chunks in states(path):
        assert chunks == sorted(set(chunks))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_journal_cut_anywhere_goes_on(whole, tmp_path_factory, data):
    content, outcome = whole
    header = content.index(b"\n") + 1
    path = tmp_path_factory.mktemp("cut") / "cut.journal"
    path.write_bytes(content[: data.draw(st.integers(header, len(content)))])
    assert program(path) == outcome
    assert program(path) == outcome


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_journal_without_its_first_line_is_a_new_one(whole, tmp_path_factory, data):
    content, _ = whole
    path = tmp_path_factory.mktemp("cut") / "cut.journal"
    path.write_bytes(content[: data.draw(st.integers(0, content.index(b"\n")))])
    assert program(path, seed=4)[2] == program(None, seed=4)[2]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_changed_byte_is_refused_or_torn(whole, tmp_path_factory, data):
    content, outcome = whole
    path = tmp_path_factory.mktemp("flip") / "flip.journal"
    # A torn line after the last whole one, in some of the cases.
    end = len(content) - data.draw(st.sampled_from([0, 1, 10, 30]))
    changed = bytearray(content[:end])
    place = data.draw(st.integers(0, end - 1))
    changed[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(changed)
    last = content[:end].rfind(b"\n", 0, len(content) - 1) + 1
    torn = place >= last and b"\n" not in bytes(changed[last:])
    if torn:
        assert program(path) == outcome
    else:
        refusal(path)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_lines_that_moved_are_refused(whole, tmp_path_factory, data):
    content, _ = whole
    lines = content.splitlines(keepends=True)
    path = tmp_path_factory.mktemp("moved") / "moved.journal"
    # The last line may be missing: that is a shorter journal.
    first, second = sorted(data.draw(st.lists(st.integers(0, len(lines) - 2), min_size=2, max_size=2, unique=True)))
    match data.draw(st.sampled_from(["swap", "delete", "repeat"])):
        case "swap":
            lines[first], lines[second] = lines[second], lines[first]
        case "delete":
            del lines[first]
        case "repeat":
            lines.insert(second, lines[first])
    path.write_bytes(b"".join(lines))
    refusal(path)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(min_size=1) | st.text(min_size=1).map(str.encode))
def test_other_files_are_refused_and_left_alone(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("other") / "other.txt"
    path.write_bytes(content)
    if b'{"journal": 2'.startswith(content):
        return
    assert "another kind of file" in refusal(path)


@pytest.mark.parametrize("content", ['{"journal": "Nature", "year": 1905}', '{"journal": 2}', '{"journal": 3, "a": 2}'])
def test_one_line_about_another_journal_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    assert "another kind of file" in refusal(path)


def test_a_refusal_leaves_a_torn_line(whole, tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(whole[0][:-5])
    assert "folds is 4 here" in refusal(path, folds=4)
    assert program(path) == whole[1]
    assert path.read_bytes() == whole[0]


def test_lines_before_a_damaged_one_can_be_kept(whole, tmp_path):
    path = tmp_path / "a.journal"
    lines = whole[0].splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], lines[9].replace(b"0", b"1"), *lines[10:]]))
    assert f"line 10 of {len(lines)} is damaged" in refusal(path)
    path.write_bytes(b"".join(lines[:9]))
    assert program(path) == whole[1]


def test_lines_of_another_program_are_refused_though_their_seals_are_right(whole, tmp_path):
    header, *entries = [json.loads(line) for line in whole[0].splitlines()]
    for entry in (header, *entries):
        entry.pop("seal")
    path = tmp_path / "a.journal"
    fold = next(place for place, entry in enumerate(entries) if entry["kind"] == "fold")
    for changed in (
        [header, *entries[1:]],
        [header, *entries, {"kind": "note", "of": "", "note": "more"}],
        [header, *entries[:fold], entries[fold] | {"state": {"count": 1, "sums": [0.0]}}],
        [header, *entries[:fold], entries[fold] | {"state": {"count": 1, "sums": [[0.0, 0.0]]}}],
        [header, *entries[:fold], entries[fold] | {"state": [1, [0.0, 0.0]]}],
        [header, *entries[:fold], entries[fold] | {"state": None}],
        [header, *entries[:fold], {"kind": "fold", "of": entries[fold]["of"]}],
        [header, *entries[:fold], entries[fold] | {"chunks": "1"}],
        [header, *entries[:fold], entries[fold] | {"chunks": CHUNKS + 1}],
        [header, *entries[:fold], entries[fold] | {"chunks": -1}],
        [header, *entries[:fold], entries[fold] | {"of": "0" * 32}],
        [header, {}],
        [{"journal": 1}],
        [{"journal": 2}],
        [header | {"seed": "1"}],
        [header | {"task": []}],
    ):
        seal, lines = FIRST, []
        for entry in changed:
            line, seal = sealed(entry, seal)
            lines.append(line)
        path.write_bytes(b"".join(lines))
        refusal(path)


def test_another_task_is_refused_by_what_differs(whole, tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(whole[0])
    assert "folds is 4 here and 3 there, size is 2 here and 1 there, seed is 7 here" in refusal(
        path, folds=4, size=2, seed=7
    )


def test_equal_inputs_are_the_same_whatever_their_type(whole, tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(whole[0])
    assert program(path, size=np.int64(1)) == whole[1]
    first = program(tmp_path / "b.journal", size=(2.0, 4.0))
    assert program(tmp_path / "b.journal", size=[np.float64(2.0), 4]) == first
    assert "size is " in refusal(tmp_path / "b.journal", size=(2.0, 5.0))


def test_another_version_is_refused(whole, tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    path.write_bytes(whole[0])
    here = journal_call.library_versions()
    for name in here:
        monkeypatch.setattr(journal_call, "library_versions", lambda name=name: here | {name: "9.9"})
        assert f"{name} {here[name]}, and this is 9.9" in refusal(path)


def test_the_date_is_that_of_the_beginning(whole, tmp_path, monkeypatch):
    content, outcome = whole
    path = tmp_path / "a.journal"
    for day in ("1970-01-01", "2999-12-31"):
        path.write_bytes(content[: len(content) // 2])
        monkeypatch.setattr(journal_call, "today", lambda day=day: day)
        assert program(path) == outcome


def test_the_number_of_workers_and_the_executor_do_not_matter(whole, tmp_path):
    content, outcome = whole
    for cut, workers in itertools.product((1, 2, 3), (1, 2, None)):
        path = tmp_path / "a.journal"
        path.write_bytes(content[: len(content) * cut // 4])
        with ThreadPoolExecutor(2) as executor:
            compute = minsep.Compute(workers=workers) if workers else minsep.Compute(executor=executor)
            assert program(path, compute=compute) == outcome


def test_two_calls_cannot_write_to_one_journal(tmp_path):
    path = tmp_path / "a.journal"
    file = JournalFile(path)
    assert "another call is writing to it" in refusal(path)
    file.close()
    program(path)


@pytest.mark.parametrize("meanwhile", ["begun", "replaced"])
def test_who_comes_second_leaves_the_journal_of_the_first(tmp_path, monkeypatch, meanwhile):
    """Where locks exclude nobody, as on some network file systems."""
    monkeypatch.setattr(JournalFile, "_lock", lambda self: None)
    path = tmp_path / "a.journal"
    second = JournalFile(path)
    if meanwhile == "replaced":
        path.rename(tmp_path / "moved.journal")
    first = JournalFile(path)
    if meanwhile == "begun":
        first.begin({"journal": 1})
    content = path.read_bytes()
    with pytest.raises(OSError, match="while the call was running"):
        second.begin({"journal": 1})
    assert path.read_bytes() == content
    first.close()
    second.close()


def test_a_journal_is_for_its_owner_alone(tmp_path):
    program(tmp_path / "a.journal")
    assert (tmp_path / "a.journal").stat().st_mode & 0o777 == 0o600


def test_work_that_stays_in_this_process_is_done_where_the_call_does_it(tmp_path):
    cluster, two = minsep.Compute(cluster="tcp://127.0.0.1:1"), minsep.Compute(workers=2)
    for compute, local in ((cluster, minsep.Compute()), (two, two)):
        with journal_call.begin(tmp_path / f"{compute.workers}.journal", "call", {}, 1, compute, None) as run:
            assert run.compute.local == local


def test_a_forked_process_neither_writes_nor_keeps_the_lock(tmp_path):
    path = tmp_path / "a.journal"
    file = JournalFile(path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            file.append({"note": "from a copy"})
            os.write(writing, b"it was written")
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            signal.pause()
    try:
        assert "this process is a copy of the one that opened it" in os.read(reading, 1000).decode()
        assert "another call" in refusal(path)
        file.close()
        program(path)  # although the copy is still there
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_full_disk_loses_nothing(whole, tmp_path, monkeypatch):
    content, outcome = whole
    written = os.write
    for room in range(500, len(content), 997):
        path = tmp_path / f"{room}.journal"
        path.write_bytes(content[: content.index(b"\n") + 1])

        def write(descriptor, data, path=path, room=room):
            free = room - path.stat().st_size
            if free <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return written(descriptor, data[:free])

        with monkeypatch.context() as full:
            full.setattr(journal_file.os, "write", write)
            with pytest.raises(OSError, match="could not be written to: No space left on device") as refused:
                program(path)
        assert SENTENCE.fullmatch(str(refused.value))
        assert path.read_bytes() == b"" or path.read_bytes().endswith(b"\n")
        assert program(path) == outcome


def test_a_disk_that_is_full_from_the_start_leaves_no_file(tmp_path, monkeypatch):
    def write(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(journal_file.os, "write", write)
        with pytest.raises(OSError, match="No space left"):
            program(tmp_path / "a.journal")
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_the_size_of_files_loses_nothing(whole, tmp_path):
    resource = pytest.importorskip("resource")
    content, outcome = whole
    path = tmp_path / "a.journal"
    path.write_bytes(content[: content.index(b"\n") + 1])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="could not be written to: File too large"):
            program(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert program(path) == outcome


def test_a_disk_that_fails_loses_nothing(whole, tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    path.write_bytes(whole[0][: len(whole[0]) // 2])

    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as failing:
        failing.setattr(journal_file.os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            program(path)
    assert program(path) == whole[1]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(journal_file.os, "open", refuse)
    with pytest.raises(OSError, match=f"cannot be opened: {os.strerror(code)}"):
        program(tmp_path / "a.journal")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced", "written to", "cut"])
def test_a_file_that_is_changed_meanwhile_ends_the_call(tmp_path, how):
    path, kept = tmp_path / "a.journal", tmp_path / "kept.journal"

    def meddle(count):
        if count != 5:
            return
        match how:
            case "deleted":
                path.unlink()
            case "moved":
                path.rename(kept)
            case "replaced":
                kept.write_bytes(path.read_bytes())
                kept.rename(path)
            case "written to":
                with path.open("ab") as file:
                    file.write(b"x")
            case "cut":
                os.truncate(path, 10)

    with pytest.raises(OSError, match="while the call was running") as refused:
        program(path, seed=1, drawn=Drawn(meddle), compute=minsep.Compute(workers=1))
    assert SENTENCE.fullmatch(str(refused.value))
    if how in ("moved", "written to"):
        assert program(kept if how == "moved" else path, seed=1)[2] == program(None, seed=1)[2]


@pytest.mark.parametrize("journal", ["", 7, b"bytes", "no/such/folder/a.journal", ".", "/dev/null", "a\0b"])
def test_paths_that_cannot_be_a_journal_are_refused(journal):
    with pytest.raises((ValueError, OSError), match="journal is .*, but .*"):
        program(journal)


def test_a_link_is_followed(whole, tmp_path):
    target, link = tmp_path / "target.journal", tmp_path / "link.journal"
    target.write_bytes(whole[0][:2000])
    link.symlink_to(target)
    assert program(link) == whole[1]
    assert target.read_bytes().count(b"\n") == whole[0].count(b"\n") or Path(target).stat().st_size > 2000


def test_states_are_written_now_and_then(tmp_path, monkeypatch):
    """A state costs next to nothing, and a run of days does not fill the disk."""
    monkeypatch.undo()
    path = tmp_path / "a.journal"
    program(path)
    assert [len(chunks) for chunks in states(path)] == [1, 1, 1]
