"""Adds entries to a ledger until it is killed: `python -m tests.ledger.killing LEDGER REPORT NAME COUNT`.

It writes the name of every entry to the report after `add` returned.
"""

import os
import sys

import minsep
from tests.ledger.small import EVENT


def add_entries(path, report, name, count):
    book = minsep.Ledger.open(path)
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(count):
        book.add(EVENT, name=f"{name} {number}")
        os.write(descriptor, f"{name} {number}\n".encode())


if __name__ == "__main__":
    path, report, name, count = sys.argv[1:]
    add_entries(path, report, name, int(count))
