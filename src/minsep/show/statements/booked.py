"""Where the runs of a statement are booked: their entries in the ledger of the dataset."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minsep.accounting import Certificate
from minsep.ledger import Balance, Entry, Ledger
from minsep.show.statements.content import Section, Table
from minsep.show.statements.ledger_content import point


@dataclass(frozen=True)
class Booked:
    """The entries of runs in a ledger.

    Attributes:
        balance: What the ledger holds.
        entries: The entries that hold the certificate of each run, at least as many as there are runs with it.
    """

    balance: Balance
    entries: tuple[tuple[Entry, ...], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """In which entry each run is booked, and what all entries cost together."""
        balance, total = self.balance, self.balance.total
        spent = balance.spent
        assert spent is not None
        many = len(self.entries) > 1
        booked = tuple(
            f"{f'Run {place}' if many else 'This run'} is booked in the ledger of the dataset {total.dataset}: "
            f"{_in_words(entries)}."
            for place, entries in enumerate(self.entries, 1)
        )
        count = len(balance.entries)
        all_entries = "The only entry is" if count == 1 else f"All {count} entries together are"
        return (
            *booked,
            f"{all_entries} {point(spent.epsilon, spent.delta)}-DP, of a total of {total.budget}. {balance.promise}",
        )

    @property
    def section(self) -> Section:
        """Where the runs are booked, with the hashes of the lines."""
        known = {entry.index: entry for entries in self.entries for entry in entries}
        rows = tuple((f"entry {index}", entry.hash) for index, entry in sorted(known.items()))
        return Section(
            "Where it is booked",
            (*self.sentences, "`minsep statement` states the ledger itself, with everything that it lists."),
            Table(("line of the ledger", "SHA-256"), (*rows, ("the last one", self.balance.head))),
        )

    def as_data(self) -> dict[str, Any]:
        """Return the entries as plain data."""
        total, spent = self.balance.total, self.balance.spent
        assert spent is not None
        return {
            "dataset": total.dataset,
            "epsilon": total.epsilon,
            "delta": total.delta,
            "adaptive": total.adaptive,
            "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
            "entries": [
                [{"index": one.index, "name": one.name, "date": one.date, "hash": one.hash} for one in entries]
                for entries in self.entries
            ],
            "head": self.balance.head,
        }


def booked_in(ledger: Ledger | str | os.PathLike[str], certificates: Sequence[tuple[Certificate, str]]) -> Booked:
    """Return where runs are booked, and refuse one that is not.

    Args:
        ledger: The ledger, or its file.
        certificates: The certificates of the runs, with the names of their files.
    """
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    balance = book.verify(certificates=False)
    plain = [json.loads(certificate.to_json()) for certificate, _ in certificates]
    found = []
    for one, (_, name) in zip(plain, certificates, strict=True):
        times = [(entry, _times(one, list(entry.content))) for entry in balance.entries]
        booked, runs = sum(count for _, count in times), plain.count(one)
        if booked < runs:
            what = name or "this certificate"
            entries = f"only {booked:,} of {runs:,} entries" if booked else "no entry"
            raise ValueError(
                f"ledger is {balance.path!r}, but it has {entries} with {what}: add what is missing, or omit the "
                "ledger."
            )
        found.append(tuple(entry for entry, count in times if count))
    return Booked(balance, tuple(found))


def _times(certificate: dict[str, Any], content: Any) -> int:
    """Return how many times plain data hold a certificate, at any depth."""
    if content == certificate:
        return 1
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return sum(_times(certificate, part) for part in parts)


def _in_words(entries: tuple[Entry, ...]) -> str:
    named = [f"entry {one.index}, {one.name} ({one.kind}), added on {one.date}" for one in entries]
    return named[0] if len(named) == 1 else f"in one of {len(named)} entries with its certificate ({'; '.join(named)})"
