"""Books runs in a ledger, as a process of its own: `python -m tests.ledger.booking LEDGER WAIT IDENTIFIER...`.

It waits until the file WAIT is gone, and prints the identifier of each entry that `add` returned.
"""

import sys
import time
from pathlib import Path

import minsep
from minsep.ledger import OverBudgetError
from tests.ledger.small import EVENT


def book_all(path, wait, identifiers):
    book = minsep.Ledger.open(path)
    book.can_add(EVENT)  # compiles what composing needs
    print("ready", flush=True)
    while Path(wait).exists():
        time.sleep(0.001)
    for identifier in identifiers:
        try:
            print(book.add(EVENT, booking=identifier).booking, flush=True)
        except OverBudgetError:
            print("refused", flush=True)


if __name__ == "__main__":
    path, wait, *identifiers = sys.argv[1:]
    book_all(path, wait, identifiers)
