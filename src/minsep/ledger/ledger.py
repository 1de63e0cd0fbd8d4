"""A ledger: what a dataset's budget is, what was spent of it, and what is left."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from minsep.accounting import Certificate, Composition, TuningCertificate
from minsep.accounting import verify as check
from minsep.core.validation import choice, in_short, real
from minsep.engine import LOCAL, Compute
from minsep.journal import today
from minsep.ledger.accounts import (
    Left,
    charge_of,
    charged,
    room,
    runs_that_fit,
    sums_within,
    together,
    within,
)
from minsep.ledger.entry import Entry, Item, as_items, check_booking, check_item, plain_item, words_of
from minsep.ledger.file import LedgerFile, Lines
from minsep.ledger.total import UNITS, Total, name_of


class OverBudgetError(ValueError):
    """The refusal of what would exceed the total of a ledger. Nothing was added."""


class Ledger:
    """The privacy budget of a dataset, and every run and release that spent some of it.

    A ledger is one file, which only grows. Each line holds the hash of the line before it, so that a ledger that was
    edited is refused. Processes that add at once take turns, and an entry is on disk before `add` returns.

    - **Fixed plans** (the default): all entries together are (epsilon, delta)-DP with the total of the ledger, if what
      is run was decided without looking at what earlier entries released. A run may use earlier results, such as a
      model to start with; its certificate may not depend on them.
    - **Adaptive ledgers**: what is run next may depend on everything that was released before. Then only the sums of
      epsilons and deltas count, and these stay within the total.

    `Ledger.create` makes a new ledger, and `Ledger.open` returns one that exists.

    Args:
        path: The file.
        head: A hash that the ledger must contain, as for `open`.

    Examples:
        >>> import minsep, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "budget.json")
        >>> book = Ledger.create(path, dataset="digits", epsilon=4.0, delta=1e-5)
        >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.5, delta=1e-6)
        >>> entry = book.add(certificate, name="first model")
        >>> entry.index, round(book.spent().epsilon, 2), book.left_like(certificate)
        (1, 1.83, 3)
    """

    def __init__(self, path: str | os.PathLike[str], head: str | None = None) -> None:
        self._file = LedgerFile(path)
        self._known: dict[str, Entry] = {}
        self._total = self._total_of(self._file.read())
        if head is not None and head not in self._hashes:
            raise self._file.refuse(f"it does not contain the line with the hash {in_short(head)}: an entry is missing")

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        dataset: str,
        unit: str = "example",
        epsilon: float,
        delta: float,
        num_examples: int | None = None,
        adaptive: bool = False,
    ) -> "Ledger":
        """Create the file of a ledger, and return the ledger. A file that exists is refused.

        Args:
            path: The file.
            dataset: The name of the dataset.
            unit: Whose privacy is protected: "example" or "user".
            epsilon: The epsilon of all entries together. It can never be changed.
            delta: The delta of all entries together.
            num_examples: Size of the dataset. Certificates that were made for another size are refused.
            adaptive: Whether entries may be chosen after what earlier ones released. Then sums of epsilons and deltas
                count, instead of composed curves.
        """
        total = Total(dataset, choice(UNITS, unit=unit), epsilon, delta, num_examples, adaptive, today())
        file = LedgerFile(path)
        with file.locked(create=True) as locked:
            if locked.lines.contents:
                raise file.refuse("that ledger exists already: choose another name, or add to it")
            locked.append(total.to_content())
        return cls(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, head: str | None = None) -> "Ledger":
        """Return the ledger that a file holds.

        Args:
            path: The file.
            head: A hash that you kept elsewhere: the `head` of the ledger at some time. A ledger that does not contain
                it has lost entries, and is refused.
        """
        return cls(path, head)

    @property
    def path(self) -> str:
        """The file of this ledger."""
        return str(self._file.path)

    @property
    def total(self) -> Total:
        """The dataset, the unit, and the epsilon and delta of all entries together."""
        return self._total

    @property
    def head(self) -> str:
        """The hash of the last line, which covers the whole ledger. Keep it elsewhere to notice lost entries."""
        return self._hashes[-1]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, as the file holds them now."""
        return self._entries(self._file.read())

    def add(
        self,
        item: Item | str | os.PathLike[str] | Iterable[Item | str | os.PathLike[str]],
        *,
        name: str = "",
        verify: bool = True,
        booking: str | None = None,
        delta: float | None = None,
        compute: Compute = LOCAL,
    ) -> Entry:
        """Add an entry, and return it. It is on disk before this returns.

        An `OverBudgetError` says that the total would be exceeded. Certificates that did not pass, do not hold, protect
        another unit or were made for another dataset are refused as well. What is refused changes nothing.

        Args:
            item: What is to be run: a certificate of a run or a tuning or its file, a mechanism with an exact curve, an
                event of dp_accounting, or a list of these as one entry.
            name: What it is, in words. By default it is the name of the mechanism or event.
            verify: Whether to verify certificates, which takes as long as `minsep.verify`.
            booking: The identifier of a run, such as `secrets.token_hex(16)`. If the ledger has an entry with this
                identifier, that entry is returned and nothing is added.
            delta: The delta that the entry is charged in an adaptive ledger. By default a certificate is charged what
                it certifies; anything else needs this delta. Other ledgers refuse it.
            compute: Where samples of a verification are drawn.
        """
        items = as_items(item)
        if booking is not None:
            check_booking(booking)
        plain = [plain_item(one) for one in items]
        content: dict[str, Any] = {
            "name": name_of(name=name or words_of(items)),
            "date": today(),
            "booking": booking,
            "charge": None,
            "items": plain,
        }
        if booking is not None and (booked := self._booked(self.entries, booking, plain)):
            return booked
        charge = self._prepared(items, delta)
        if charge is not None:
            content["charge"] = {"epsilon": charge.epsilon, "delta": charge.delta}
        if verify:
            _verify(items, compute)
        with self._file.locked() as locked:
            self._total_of(locked.lines)
            entries = self._entries(locked.lines)
            if booking is not None and (booked := self._booked(entries, booking, plain)):
                return booked
            self._refuse_excess(entries, items, charge)
            locked.append(content)
        return self._entries(self._file.read())[len(entries)]

    def can_add(self, item: Item | str | os.PathLike[str] | Iterable[Any], *, delta: float | None = None) -> bool:
        """Return whether `add` would stay within the total now.

        Args:
            item: What is to be run, as for `add`.
            delta: The delta that it is charged in an adaptive ledger, as for `add`.
        """
        items = as_items(item)
        charge = self._prepared(items, delta)
        try:
            self._refuse_excess(self.entries, items, charge)
        except OverBudgetError:
            return False
        return True

    def spent(self, delta: float | None = None) -> Composition | None:
        """Return what all entries cost together; None if there are none.

        In an adaptive ledger, its epsilon and delta are the sums that count, and its curve is what would be spent if
        all mechanisms had been fixed beforehand.

        Args:
            delta: The delta. By default it is that of the total. An adaptive ledger takes none.
        """
        entries = self.entries
        if not entries:
            return None
        if self._total.adaptive:
            if delta is not None:
                raise ValueError(
                    f"delta is {delta!r}, but in an adaptive ledger the deltas of entries add up: omit it."
                )
            epsilon, summed = charged(_charges(entries))
            return replace(together(entries), epsilon=epsilon, delta=summed)
        delta = self._total.delta if delta is None else real(delta=delta, above=0, below=1)
        composed = together(entries, delta=delta)
        # An epsilon is found up to rounding, but what was added was within the total.
        exceeds = composed.delta == self._total.delta and composed.epsilon > self._total.epsilon
        return replace(composed, epsilon=self._total.epsilon) if exceeds and within(self._total, composed) else composed

    def left(self) -> Left:
        """Return what is left of the total.

        It is the one Gaussian mechanism with the most information that `add` would still accept. In an adaptive ledger,
        it is the epsilon and the delta that were not charged yet.
        """
        entries = self.entries
        if self._total.adaptive:
            epsilon, delta = charged(_charges(entries))
            return Left(max(self._total.epsilon - epsilon, 0.0), max(self._total.delta - delta, 0.0))
        return room(self._total, lambda items: within(self._total, together(entries, items)))

    def left_like(self, certificate: Certificate | TuningCertificate | str | os.PathLike[str]) -> int:
        """Return how many more runs or tunings with this certificate would fit, at most 1,000.

        Args:
            certificate: The certificate, or its file.
        """
        items = as_items(certificate)
        if not all(isinstance(one, Certificate | TuningCertificate) for one in items):
            raise ValueError(
                f"certificate is {in_short(certificate)}, but it must be a minsep.Certificate or its file."
            )
        charge = self._prepared(items, None)
        entries = self.entries
        if charge is not None:
            spent = _charges(entries)
            return runs_that_fit(lambda count: sums_within(self._total, [*spent, *(charge,) * count]))
        return runs_that_fit(lambda count: within(self._total, together(entries, items * count)))

    def _prepared(self, items: tuple[Item, ...], delta: float | None) -> Any:
        """Refuse items that do not belong to this ledger; return what they are charged, if charges count here."""
        for one in items:
            check_item(one, self._total)
        if self._total.adaptive:
            return charge_of(items, delta)
        if delta is not None:
            raise ValueError(f"delta is {delta!r}, but only an adaptive ledger charges a delta: omit it.")
        return None

    def _refuse_excess(self, entries: Sequence[Entry], items: tuple[Item, ...], charge: Any) -> None:
        total = self._total
        if charge is not None:
            charges = [*_charges(entries), charge]
            if sums_within(total, charges):
                return
            epsilon, delta = charged(charges)
            spent = f"the sums would be epsilon {epsilon:.6g} and delta {delta:.4g}"
        else:
            composed = together(entries, items)
            if within(total, composed):
                return
            spent = f"at epsilon {total.epsilon:g} delta would be {composed.curve.delta(total.epsilon):.4g}"
        raise OverBudgetError(
            f"The ledger {str(self._file.path)!r} has a total of {total.budget}, but with this entry {spent}: nothing "
            "was added."
        )

    def _booked(self, entries: Sequence[Entry], booking: str, plain: list[dict[str, Any]]) -> Entry | None:
        """Return the entry of a run, if it is booked already; one of other items is refused."""
        found = next((entry for entry in entries if entry.booking == booking), None)
        if found is not None and list(found.content) != plain:
            raise self._file.refuse(f"its entry {found.index} has the same booking and is about something else")
        return found

    @property
    def _hashes(self) -> tuple[str, ...]:
        return self._file.read().hashes

    def _total_of(self, lines: Lines) -> Total:
        """Return the total of a file, which must be that of this ledger once it is open."""
        if not lines.contents:
            raise self._file.refuse("its first line is missing: create the ledger again")
        try:
            total = Total.from_content(lines.contents[0])
        except ValueError as error:
            raise self._file.refuse(str(error)) from None
        if total != getattr(self, "_total", total):
            raise self._file.refuse("it was replaced by another ledger: open that one")
        return total

    def _entries(self, lines: Lines) -> tuple[Entry, ...]:
        """Return the entries of a file. What was read before is kept, because certificates are long."""
        found = []
        for index, (content, digest) in enumerate(zip(lines.contents[1:], lines.hashes[1:], strict=True), 1):
            if digest not in self._known:
                try:
                    self._known[digest] = Entry.from_line(index, content, digest)
                except ValueError as error:
                    raise self._file.refuse(str(error)) from None
            found.append(self._known[digest])
        return tuple(found)


def _charges(entries: Sequence[Entry]) -> list[Any]:
    return [entry.charge for entry in entries]


def _verify(items: Sequence[Item], compute: Compute) -> None:
    for one in items:
        if isinstance(one, Certificate | TuningCertificate):
            result = check(one, compute=compute) if isinstance(one, Certificate) else one.verify(compute=compute)
            if not result.holds:
                raise ValueError(result.reason)
