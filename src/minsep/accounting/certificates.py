"""Certificates: a proof of (epsilon, delta)-DP that a third party can check.

A certificate states that a test accepted the mechanism in both directions. A mechanism that is not (epsilon, level)-DP
is accepted with probability at most `failure_probability`, so a mechanism that is run only if it is certified is
(epsilon, delta)-DP with delta = level + failure_probability (1 - level). It holds no data of any person. That the seed
was drawn once, and that no more than `attempts` mechanisms were tested, is the prover's word.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from minsep.accounting.pairs import Direction
from minsep.attribution import assumptions
from minsep.identity import Description

FORMAT = 1


class ChangedCertificateError(ValueError):
    """The refusal of a certificate whose parts do not belong together."""


@dataclass(frozen=True)
class DirectionProof:
    """How one direction was proven, or why it was not."""

    direction: Direction
    method: str
    passed: bool
    reason: str
    noise_multiplier: float
    """That of the mechanism, or a smaller one: more noise is never less private."""
    seed: int
    epsilon: float
    level: float
    truncation_terms: float = 0.0
    copies: int = 0
    scale: float = 0.0
    log_constant: float = 0.0
    bound: float = 0.0
    samples: int = 0
    log_wealth: float = 0.0
    mean: float = 0.0
    """Average of the values of a fixed number of samples."""
    distance: float = 0.0
    """Where the tangent touches, for noise that is moved along one."""
    tested: str = ""
    """Fingerprint of the mechanism with this noise multiplier."""
    chance: float = 0.0
    """Of this test to pass although it should not."""


@dataclass(frozen=True)
class Certificate:
    """The outcome of a test of one mechanism at one (epsilon, delta), with all that is needed to repeat it."""

    mechanism: Description
    epsilon: float
    delta: float
    failure_probability: float
    level: float
    test: str
    attempts: int
    max_samples: int | None
    memory: int
    seed: int
    proofs: tuple[DirectionProof, DirectionProof]
    versions: dict[str, str]
    format: int = FORMAT

    @property
    def passed(self) -> bool:
        """Whether the mechanism is certified."""
        return all(proof.passed for proof in self.proofs)

    @property
    def samples(self) -> int:
        """Number of samples of both directions."""
        return sum(proof.samples for proof in self.proofs)

    @property
    def statement(self) -> str:
        """What the certificate says, in words."""
        if not self.passed:
            reasons = "; ".join(f"{proof.direction}: {proof.reason}" for proof in self.proofs if not proof.passed)
            return f"Not certified as ({self.epsilon:g}, {self.delta:g})-DP: {reasons}."
        conditions = "".join(f" {sentence}" for sentence in [assumptions(self.mechanism["scheme"])] if sentence)
        if self.failure_probability == 0:
            return f"The mechanism is ({self.epsilon:g}, {self.delta:g})-DP.{conditions}"
        return (
            f"Run only because it is certified, the mechanism is ({self.epsilon:g}, {self.delta:g})-DP: a mechanism "
            f"that is not ({self.epsilon:g}, {self.level:.6g})-DP passes with probability at most "
            f"{self.failure_probability:.3g}.{conditions}"
        )

    def to_json(self) -> str:
        """Return the certificate as JSON."""
        content = {**asdict(self), "passed": self.passed, "statement": self.statement}
        return json.dumps(content, indent=2, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file."""
        Path(path).write_text(self.to_json() + "\n")

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate; whether it holds is for `verify` to say."""
        try:
            content = json.loads(text)
            found = content["format"]
        except (KeyError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"This is not a certificate of minsep: {error}.") from None
        if found != FORMAT:
            raise ValueError(f"The certificate has format {found!r}, but this version of minsep reads {FORMAT}.")
        try:
            passed, statement = content.pop("passed"), content.pop("statement")
            first, second = (DirectionProof(**proof) for proof in content.pop("proofs"))
            certificate = cls(**content, proofs=(first, second))
            unchanged = (passed, statement) == (certificate.passed, certificate.statement)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ChangedCertificateError(f"The certificate does not hold: the file was changed ({error}).") from None
        if not unchanged:
            raise ChangedCertificateError(
                "The certificate's statement does not follow from its numbers: the file was changed."
            )
        return certificate

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Certificate":
        """Read a certificate from a file."""
        return cls.from_json(Path(path).read_text())
