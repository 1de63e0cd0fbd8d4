"""Whether a certificate may be relied on: one that did not pass, is conditional or does not hold is refused."""

import os
from dataclasses import dataclass

from minsep.accounting.certification.certificate import Certificate
from minsep.accounting.certification.verification import verify as check
from minsep.core.validation import shortened
from minsep.mechanism import Mechanism


@dataclass(frozen=True)
class Accepted:
    """A certificate that may be relied on, as `accept_certificate` returns it: whoever is handed one checks no more."""

    certificate: Certificate

    def __post_init__(self) -> None:
        if not self.certificate.passed:
            raise ValueError(f"certificate did not pass. {self.certificate.statement}")

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that was certified."""
        return self.certificate.mechanism


def accept_certificate(
    certificate: Certificate | str | os.PathLike[str], *, verify: bool = True, accept_assumption: bool = False
) -> Accepted:
    """Return a certificate as one that may be relied on.

    Args:
        certificate: The certificate, or the file that holds it. One that did not pass is refused.
        verify: Whether to draw its samples again, and to refuse a certificate that does not hold.
        accept_assumption: Whether to accept a certificate that rests on something that is not proven.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=100)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=1.0)
        >>> accept_certificate(minsep.certify(mechanism, epsilon=2.0, delta=1e-3)).mechanism == mechanism
        True
    """
    name = ""
    if not isinstance(certificate, Certificate):
        name, certificate = _read(certificate)
    accepted = Accepted(certificate)
    if certificate.conditional and not accept_assumption:
        sentences = " ".join(assumption.sentence for assumption in certificate.assumptions)
        raise ValueError(f"certificate is conditional, but accept_assumption is False. {sentences}")
    if verify:
        result = check(certificate, curve=False)
        if not result.holds:
            raise ValueError(f"{name}: {result.reason}" if name else result.reason)
    return accepted


def _read(path: str | os.PathLike[str]) -> tuple[str, Certificate]:
    try:
        name = os.fspath(path)
    except TypeError:
        raise ValueError(f"certificate is {path!r}, but it must be a minsep.Certificate or a file of one.") from None
    return shortened(name), Certificate.load(name)
