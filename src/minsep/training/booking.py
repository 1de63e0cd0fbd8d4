"""The entry of a run in a ledger: it is booked before the first batch is drawn, and once."""

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

# Accounting takes seconds to import, and a run without a certificate does not need it.
if TYPE_CHECKING:
    from minsep.accounting import Certificate
    from minsep.ledger import Ledger

_UNBOOKED = (
    "The checkpoint is of a run that was not booked in a ledger: add its certificate to the ledger, and resume the run "
    "without ledger."
)


@dataclass(frozen=True)
class Resumed:
    """The ledger of a run that resumes: the checkpoint says under which identifier it was booked.

    Args:
        ledger: The ledger, or its file.
    """

    ledger: "Ledger | str | os.PathLike[str]"


class Booking:
    """What books a run.

    Args:
        ledger: The ledger, or its file. None books nothing.
        certificate: The certificate of the run. A run without one cannot be booked.
        num_examples: Size of the dataset, which must be that of the ledger if the ledger says.
        verify: Whether to verify the certificate. One with a curve is always verified: whoever accepts a certificate
            for a run checks its budget alone, but the ledger relies on the whole curve.
    """

    def __init__(
        self,
        ledger: "Ledger | Resumed | str | os.PathLike[str] | None",
        certificate: "Certificate | None",
        num_examples: int,
        verify: bool,
    ) -> None:
        self.identifier: str | None = None
        """The identifier of the entry, which checkpoints hold; None before it is booked."""
        self._resumes = isinstance(ledger, Resumed)
        self._verify = verify or (certificate is not None and certificate.curve_proof is not None)
        given = ledger.ledger if isinstance(ledger, Resumed) else ledger
        self._ledger = None if given is None else _opened(given)
        if self._ledger is None:
            return
        if certificate is None and not self._resumes:
            raise ValueError("ledger is given, but only a run with a certificate can be booked: pass certificate.")
        total = self._ledger.total
        if total.num_examples not in (None, num_examples):
            raise ValueError(
                f"num_examples is {num_examples:,}, but the dataset of the ledger {self._ledger.path!r} has "
                f"{total.num_examples:,} examples: is it another dataset?"
            )

    def book(self, certificate: "Certificate | None") -> None:
        """Book a new run. One that resumes is booked by `book_resumed`, once its checkpoint is read."""
        if self._ledger is not None and certificate is not None and not self._resumes:
            identifier = secrets.token_hex(16)
            self._ledger.add(certificate, booking=identifier, verify=self._verify)
            self.identifier = identifier

    def book_resumed(self, certificate: "Certificate | None") -> None:
        """Book a run that resumes: nothing new, unless the ledger lacks its entry."""
        if self._ledger is None:
            return
        if self.identifier is None or certificate is None:
            raise ValueError(_UNBOOKED)
        self._ledger.add(certificate, booking=self.identifier, verify=self._verify)


def _opened(ledger: "Ledger | str | os.PathLike[str]") -> "Ledger":
    from minsep.ledger import Ledger

    return ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
