"""SIGKILL at random moments, and two processes at once: nothing that was reported is lost, nothing is there twice."""

import os
import random
import signal
import time

import pytest

import minsep
from tests.ledger.killing import add_entries
from tests.ledger.small import EVENT, create


def forked(path, report, name, count):
    child = os.fork()
    if child == 0:
        try:
            add_entries(path, report, name, count)
        finally:
            os._exit(0)
    return child


def check_kills(folder, kills, seed):
    book, moments, report = create(folder, epsilon=600.0), random.Random(seed), folder / "report"
    book.add(EVENT, name="first")  # and compiles everything before processes are forked
    report.touch()
    killed = 0
    for number in range(kills):
        child = forked(book.path, report, f"child {number}", 1000)
        time.sleep(moments.uniform(0.0, 0.25))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        names = [entry.name for entry in minsep.Ledger.open(book.path).entries]
        reported = report.read_text().split("\n")[:-1]
        assert len(set(names)) == len(names)
        assert set(reported) <= set(names)
        # At most what the killed process was adding is there without a report.
        assert len(names) - len(reported) <= 1 + 2 * (number + 1)
        book.add(EVENT, name=f"after {number}")
        assert book.entries[-1].name == f"after {number}"
    assert killed == kills
    return report.read_text().count("\n")


def test_ten_kills_lose_nothing(tmp_path):
    assert check_kills(tmp_path, kills=10, seed=1) > 0


@pytest.mark.slow
def test_fifty_kills_lose_nothing(tmp_path):
    assert check_kills(tmp_path, kills=50, seed=2) > 0


def test_a_write_that_is_killed_within_a_line_loses_nothing(tmp_path, monkeypatch):
    book = create(tmp_path)
    book.add(EVENT, name="first")
    for size in (1, 50, 200):
        child = os.fork()
        if child == 0:
            write = os.write

            def torn(descriptor, content, size=size, write=write):
                write(descriptor, content[:size])
                os.kill(os.getpid(), signal.SIGKILL)

            os.write = torn
            book.add(EVENT, name="torn")
        os.waitpid(child, 0)
        assert [entry.name for entry in book.entries] == ["first"]
        assert not (tmp_path / "budget.json").read_bytes().endswith(b"\n")
    book.add(EVENT, name="second")
    assert [entry.name for entry in book.entries] == ["first", "second"]
    assert (tmp_path / "budget.json").read_bytes().endswith(b"\n")


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    book = create(tmp_path)
    before = (tmp_path / "budget.json").read_bytes()
    write, calls = os.write, []

    def full(descriptor, content):
        calls.append(content)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, content[:20])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="could not be written to: No space left on device; nothing was added"):
        book.add(EVENT)
    assert (tmp_path / "budget.json").read_bytes() == before


def test_processes_that_add_at_once_take_turns(tmp_path):
    book = create(tmp_path, epsilon=600.0)
    book.add(EVENT, name="first")
    children = [forked(book.path, tmp_path / f"report {number}", f"child {number}", 8) for number in range(3)]
    for child in children:
        os.waitpid(child, 0)
    names = [entry.name for entry in book.entries]
    assert sorted(names) == sorted(["first", *(f"child {child} {place}" for child in range(3) for place in range(8))])


def test_processes_that_add_at_once_stay_within_the_total(tmp_path):
    book = create(tmp_path, epsilon=2.0)
    fit, composed = 0, 0.0
    while composed <= 2.0:
        fit += 1
        composed = minsep.compose([EVENT] * (fit + 1), 1e-5).epsilon
    children = [forked(book.path, tmp_path / f"report {number}", f"child {number}", 100) for number in range(3)]
    for child in children:
        os.waitpid(child, 0)
    assert len(book.entries) == fit
