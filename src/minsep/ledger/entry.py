"""The entries of a ledger: certificates, tunings, mechanisms and events, each with all that its curve needs."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dp_accounting import DpEvent

from minsep.accounting import Certificate, TuningCertificate, plain_event, read_certificate, read_event
from minsep.core.budget import Budget
from minsep.core.validation import in_short, shortened
from minsep.ledger.total import Total, name_of
from minsep.mechanism import Mechanism

Item = Certificate | TuningCertificate | Mechanism | Any
"""One thing that happened to the data. The last is a DpEvent of dp_accounting, which has no types."""
_BOOKING_DIGITS = 32


@dataclass(frozen=True)
class Entry:
    """An entry of a ledger.

    Attributes:
        index: Its number, from 1.
        name: What it is, in the words of whoever added it, or of minsep.
        date: The day on which it was added.
        booking: The identifier of the run that booked it, if it was a run.
        charge: What it costs of an adaptive ledger; None in others, where curves are composed.
        hash: The hash of its line, which covers all lines before it.
        content: Its items, as plain data.
    """

    index: int
    name: str
    date: str
    booking: str | None
    charge: Budget | None
    hash: str
    content: tuple[dict[str, Any], ...] = field(repr=False)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The certificates, tunings, mechanisms and events of this entry."""
        try:
            return tuple(read_item(one) for one in self.content)
        except Exception as error:  # whatever a forged content may lead to
            raise ValueError(
                f"Entry {self.index} of the ledger cannot be read: {shortened(str(error)).rstrip('.')}."
            ) from None

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates of this entry."""
        return tuple(item for item in self.items if isinstance(item, Certificate))

    @property
    def kind(self) -> str:
        """What its items are: "certificate", "tuning", "mechanism" or "event", or several of them."""
        return ", ".join(dict.fromkeys(str(next(iter(one))) for one in self.content))

    @classmethod
    def from_line(cls, index: int, content: dict[str, Any], digest: str) -> "Entry":
        """Read the content of a line."""
        try:
            charge = content["charge"]
            items = content["items"]
            if content.keys() != {"name", "date", "booking", "charge", "items"} or not isinstance(items, list):
                raise ValueError("it has missing or unexpected fields")
            if not items or not all(isinstance(one, dict) and len(one) == 1 for one in items):
                raise ValueError("it has no items")
            return cls(
                index,
                name_of(name=content["name"]),
                name_of(date=content["date"]),
                None if content["booking"] is None else check_booking(content["booking"]),
                None if charge is None else Budget(charge["epsilon"], charge["delta"]),
                digest,
                tuple(items),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"entry {index} is invalid ({shortened(str(error)).rstrip('.')})") from None


def as_items(given: Any) -> tuple[Item, ...]:
    """Return what is to be added as a tuple of items; files of certificates are read."""
    if isinstance(given, str | os.PathLike):
        return (read_certificate(given),)
    if isinstance(given, Certificate | TuningCertificate | Mechanism | DpEvent):
        return (given,)
    if isinstance(given, Iterable):
        items = tuple(one for each in given for one in as_items(each))
        if items:
            return items
    raise ValueError(
        f"item is {in_short(given)}, but it must be a certificate of a run or a tuning or the file of one, a mechanism "
        "with an exact curve, an event of dp_accounting, or a list of these."
    )


def check_item(item: Item, total: Total) -> None:
    """Refuse an item that is not about the dataset and the unit of a ledger, or proves nothing."""
    if isinstance(item, DpEvent):  # it says nothing about either
        return
    if isinstance(item, TuningCertificate):
        for certificate in item.certificates:
            check_item(certificate, total)
        return
    unit = item.unit if isinstance(item, Certificate) else item.scheme.unit
    if unit != total.unit:
        what = "certificate" if isinstance(item, Certificate) else "mechanism"
        raise ValueError(f"The {what} protects the unit {unit!r}, but this ledger is about the unit {total.unit!r}.")
    if not isinstance(item, Certificate):
        return
    if not item.passed:
        raise ValueError(f"The certificate did not pass, so nothing can be booked with it. {item.statement}")
    if item.adjacency != total.adjacency:
        raise ValueError(
            f"The certificate is about the neighbours {in_short(item.adjacency)}, but this ledger is about "
            f"{total.adjacency!r}."
        )
    if None not in (item.num_examples, total.num_examples) and item.num_examples != total.num_examples:
        raise ValueError(
            f"The certificate was made for {item.num_examples:,} examples, but the dataset of this ledger has "
            f"{total.num_examples:,}: is it another dataset?"
        )


def plain_item(item: Item) -> dict[str, Any]:
    """Return an item as plain data, under the name of its kind."""
    if isinstance(item, Certificate):
        return {"certificate": json.loads(item.to_json())}
    if isinstance(item, TuningCertificate):
        return {"tuning": json.loads(item.to_json())}
    if isinstance(item, Mechanism):
        return {"mechanism": json.loads(json.dumps(item.describe()))}
    return {"event": plain_event(item)}


def read_item(content: dict[str, Any]) -> Item:
    """Return the item that plain data stand for."""
    ((kind, plain),) = content.items()
    match kind:
        case "certificate":
            return Certificate.from_json(json.dumps(plain))
        case "tuning":
            return TuningCertificate.from_json(json.dumps(plain))
        case "mechanism":
            return Mechanism.from_description(plain)
        case "event":
            event: Item = read_event(plain)
            return event
    raise ValueError(f"this version of minsep knows no {in_short(kind)}")


def words_of(items: tuple[Item, ...]) -> str:
    """Return what items are, in words."""
    first = items[0]
    if isinstance(first, Certificate):
        name = first.mechanism.name
    elif isinstance(first, Mechanism | TuningCertificate):
        name = first.name
    else:
        name = shortened(f"{first}")[:200]
    return name if len(items) == 1 else f"{name} and {len(items) - 1} more"


def check_booking(booking: object) -> str:
    """Return the identifier of a run: 128 bits in hexadecimal digits."""
    if isinstance(booking, str) and len(booking) == _BOOKING_DIGITS and set(booking) <= set("0123456789abcdef"):
        return booking
    raise ValueError(
        f"booking is {in_short(booking)}, but it must be {_BOOKING_DIGITS} hexadecimal digits, such as "
        "secrets.token_hex(16)."
    )
