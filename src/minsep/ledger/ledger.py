"""A ledger: what a dataset's budget is, what was spent of it, and what is left."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from minsep.accounting import Certificate, Composition, TuningCertificate
from minsep.accounting import verify as check
from minsep.core.validation import choice, in_short
from minsep.engine import LOCAL, Compute
from minsep.journal import today
from minsep.ledger.accounts import Left, charge_of, charged, charges_of, runs_that_fit, sums_within, together, within
from minsep.ledger.balance import Balance
from minsep.ledger.chain import check_hash
from minsep.ledger.entry import Entry, Item, as_items, check_booking, check_item, examples_of, plain_item, words_of
from minsep.ledger.file import LedgerFile, Lines
from minsep.ledger.total import UNITS, Total, name_of

_CLOSE = 1e-6  # relative, for a charge that is computed again


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
        lines = self._file.read()
        self._total = self._total_of(lines)
        if head is not None and check_hash(head=head) not in lines.hashes:
            raise self._file.refuse(f"it does not contain the line with the hash {head}: an entry is missing")

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
        return self._file.read().last

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

    def balance(self) -> Balance:
        """Return what the ledger holds now: entries, what they cost, what is left, and the hash of the last line."""
        lines = self._file.read()
        return Balance(self.path, self._total_of(lines), self._entries(lines), lines.last)

    def verify(self, *, certificates: bool = True, compute: Compute = LOCAL) -> Balance:
        """Check every entry again, as `add` did, and return what the ledger holds.

        A ledger is refused if one of its entries is about something else or does not hold, if an entry costs more than
        it was charged, or if all of them exceed the total.

        Args:
            certificates: Whether to verify the certificates, which takes as long as `minsep.verify` for each of them.
            compute: Where samples are drawn.
        """
        balance = self.balance()
        verified: set[str] = set()
        for entry in balance.entries:
            new = [item for item, plain in zip(entry.items, entry.content, strict=True) if f"{plain}" not in verified]
            try:
                self._check_entry(entry)
                if certificates:
                    _verify(new, compute)
            except ValueError as error:
                raise self._file.refuse(f"entry {entry.index} does not hold: {error}".rstrip(".")) from None
            verified.update(map(str, entry.content))
        if balance.entries and (excess := self._excess(balance.entries)):
            raise self._file.refuse(f"its entries exceed its total of {self._total.budget}: {excess}")
        return balance

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
        if delta is None:
            return self.balance().spent
        if self._total.adaptive:
            raise ValueError(f"delta is {delta!r}, but in an adaptive ledger the deltas of entries add up: omit it.")
        return self.balance().spent_at(delta)

    def left(self) -> Left:
        """Return what is left of the total.

        It is the one Gaussian mechanism with the most information that `add` would still accept. In an adaptive ledger,
        it is the epsilon and the delta that were not charged yet. Of either ledger, `any_run` is a budget with which a
        run surely fits.
        """
        return self.balance().left

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
            spent = charges_of(entries)
            return runs_that_fit(lambda count: sums_within(self._total, [*spent, *(charge,) * count]))
        return runs_that_fit(lambda count: not self._excess(entries, items * count))

    def _prepared(self, items: tuple[Item, ...], delta: float | None) -> Any:
        """Refuse items that do not belong to this ledger; return what they are charged, if charges count here."""
        for one in items:
            check_item(one, self._total)
        if self._total.adaptive:
            return charge_of(items, delta)
        if delta is not None:
            raise ValueError(f"delta is {delta!r}, but only an adaptive ledger charges a delta: omit it.")
        return None

    def _check_entry(self, entry: Entry) -> None:
        """Refuse an entry that does not belong to this ledger, or costs more than it was charged."""
        for one in entry.items:
            check_item(one, self._total)
        charge = entry.charge
        if charge is None or (entry.kind == "certificate" and charge == charge_of(entry.items, None)):
            return
        cost = charge_of(entry.items, charge.delta)
        if cost.epsilon > charge.epsilon * (1 + _CLOSE):
            raise ValueError(f"It was charged {charge}, but it costs epsilon {cost.epsilon:.6g} at that delta.")

    def _refuse_excess(self, entries: Sequence[Entry], items: tuple[Item, ...], charge: Any) -> None:
        if excess := self._excess(entries, items, charge):
            raise OverBudgetError(
                f"The ledger {self.path!r} has a total of {self._total.budget}, but with this entry {excess}: nothing "
                "was added."
            )

    def _excess(self, entries: Sequence[Entry], items: tuple[Item, ...] = (), charge: Any = None) -> str:
        """Return by how much entries and items exceed the total, in words; nothing if they do not."""
        total = self._total
        every = [*(one for entry in entries for one in entry.items), *items]
        sizes = dict.fromkeys(size for one in every if (size := examples_of(one)) is not None)
        if len(sizes) > 1:
            raise ValueError(
                f"The entries of the ledger {self.path!r} would be for {' and '.join(f'{size:,}' for size in sizes)} "
                "examples, but all must be about one dataset: is this another one?"
            )
        composed = together(entries, items)  # what does not compose is refused in an adaptive ledger as well
        if not total.adaptive:
            if within(total, composed):
                return ""
            return f"at epsilon {total.epsilon:g} delta would be {composed.curve.delta(total.epsilon):.4g}"
        charges = [*charges_of(entries), *([] if charge is None else [charge])]
        if sums_within(total, charges):
            return ""
        epsilon, delta = charged(charges)
        return f"the sums would be epsilon {epsilon:.6g} and delta {delta:.4g}"

    def _booked(self, entries: Sequence[Entry], booking: str, plain: list[dict[str, Any]]) -> Entry | None:
        """Return the entry of a run, if it is booked already; one of other items is refused."""
        found = next((entry for entry in entries if entry.booking == booking), None)
        if found is not None and list(found.content) != plain:
            raise self._file.refuse(f"its entry {found.index} has the same booking and is about something else")
        return found

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
            if (self._known[digest].charge is None) == self._total.adaptive:
                why = "has no charge" if self._total.adaptive else "has a charge, which only adaptive ledgers have"
                raise self._file.refuse(f"entry {index} is invalid (it {why})")
            found.append(self._known[digest])
        return tuple(found)


def _verify(items: Sequence[Item], compute: Compute) -> None:
    for one in items:
        if isinstance(one, Certificate | TuningCertificate):
            result = check(one, compute=compute) if isinstance(one, Certificate) else one.verify(compute=compute)
            if not result.holds:
                raise ValueError(result.reason)
