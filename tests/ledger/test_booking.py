"""Two processes that book at once, started like those of two people."""

import secrets
import subprocess
import sys

import pytest

import minsep
from tests.ledger.small import EVENT, certificate, create


def booked_by_two(folder, book, identifiers):
    """Return what two processes said of their bookings, which they began at the same moment."""
    wait = folder / "wait"
    wait.touch()
    command = [sys.executable, "-m", "tests.ledger.booking", book.path, str(wait)]
    processes = [
        subprocess.Popen([*command, *one], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for one in identifiers
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    wait.unlink()
    said = []
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        said.append(out.split())
    return said


def fresh(count):
    return [secrets.token_hex(16) for _ in range(count)]


def test_two_processes_book_exactly_what_fits(tmp_path):
    """Each process books ten runs; thirteen of the twenty fit."""
    most = minsep.compose([EVENT] * 13, 1e-5).epsilon
    assert most < minsep.compose([EVENT] * 14, 1e-5).epsilon
    book = create(tmp_path, epsilon=most * (1 + 1e-6))
    said = booked_by_two(tmp_path, book, [fresh(10), fresh(10)])
    assert [len(one) for one in said] == [10, 10]
    told = [one for each in said for one in each if one != "refused"]
    assert len(told) == 13
    # What a process was told is there, nothing else is, and nothing is there twice.
    assert sorted(entry.booking for entry in book.entries) == sorted(told)
    book.verify()


@pytest.mark.slow
def test_two_processes_that_book_the_same_runs_book_each_once(tmp_path):
    book = create(tmp_path, epsilon=600.0)
    same = fresh(10)
    said = booked_by_two(tmp_path, book, [same, same[::-1]])
    assert [sorted(one) for one in said] == [sorted(same)] * 2
    assert sorted(entry.booking for entry in book.entries) == sorted(same)


@pytest.mark.slow
def test_commands_that_add_at_once_add_exactly_what_fits(tmp_path):
    book = create(tmp_path)
    assert book.left_like(certificate()) == 4
    certificate().save(tmp_path / "certificate.json")
    command = [sys.executable, "-m", "minsep", "ledger", book.path, "--add", str(tmp_path / "certificate.json")]
    processes = [
        subprocess.Popen([*command, "--again", "--name", f"run {number}"], stdout=subprocess.DEVNULL)
        for number in range(6)
    ]
    codes = {number: process.wait(300) for number, process in enumerate(processes)}
    assert sorted(codes.values()) == [0, 0, 0, 0, 1, 1]
    names = [f"run {number}" for number, code in codes.items() if code == 0]
    assert sorted(entry.name for entry in book.entries) == names
