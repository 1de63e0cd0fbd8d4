"""Certificates: a proof of (epsilon, delta)-DP that a third party can check.

A certificate states that both directions of a mechanism were proven. A mechanism that is not (epsilon, level)-DP passes
the tests with probability at most `failure_probability`. So a mechanism that is run only because it passed is
(epsilon, delta)-DP with delta = level + failure_probability (1 - level). A certificate holds no data of any person.

The format fixes every number that a check depends on: the grid of bets, the streams of samples, the margins for
rounding. Whatever changes one of them is another format. A version of minsep that knows the format checks the
certificate, whichever version made it.
"""

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

from minsep.accounting.certification.curve_proof import CurveProof
from minsep.accounting.certification.proofs import ExactProof, ImmediateProof, Proof
from minsep.accounting.curves import Curve, Point, PointCurve, RoundedRuns
from minsep.accounting.exact import DeltaCurve, spacing_for
from minsep.accounting.reduction import Alongside
from minsep.accounting.schemes import exact_curve
from minsep.core.budget import Budget
from minsep.core.files import write_whole
from minsep.core.identity import Description
from minsep.core.plain import from_plain, to_plain
from minsep.core.validation import in_short, integer, shortened
from minsep.mechanism import Mechanism
from minsep.noise.rounding_reserve import Reserve
from minsep.participation import Assumption

FORMAT = 3
_WITHOUT_RESERVE = 2  # a format that kept nothing for rounding
ADJACENCY = "zero-out"
_MOST_BYTES = 2**30
_DERIVED = ("passed", "conditional", "statement")
# Fields that a file need not have, with their values then.
_OPTIONAL: dict[str, Any] = {"num_examples": None, "curve_proof": None, "alongside": []}
_DESCRIPTION = "mechanism"  # the name of the description in a file


class ChangedCertificateError(ValueError):
    """The refusal of a certificate whose parts do not belong together."""


@dataclass(frozen=True)
class Certificate:
    """The outcome of a test of one mechanism at one (epsilon, delta), with all that is needed to repeat it.

    What the prover was given repeats its work: `test`, `seed`, `max_samples` and `memory`.

    Attributes:
        description: The mechanism that was tested, as plain data.
        epsilon: The epsilon at which it was tested.
        delta: The delta at which it was tested.
        unit: Whose privacy it is.
        adjacency: Which datasets are neighbours: those in which one unit's gradients are zero or not.
        assumptions: What is not proven. It is empty for most schemes.
        reserve: The part of epsilon and delta that is kept for rounding in the run, and the number of released values
            that it covers. The mechanism itself is tested at what is left.
        level: The delta that each direction is tested against.
        failure_probability: A bound on the probability that any of the tests passes although it should not.
        attempts: The most mechanisms that were tested.
        proofs: One proof for each direction.
        test: The kind of test that the prover was given.
        seed: The seed that the prover was given.
        max_samples: The limit on the samples of a test that the prover was given, if any.
        memory: The most bytes of a table of a sampling distribution that the prover was given.
        date: The day on which the work began, for information.
        versions: The versions of the libraries, for information.
        format: The number of the format of certificates.
        num_examples: The number of examples that it was planned or calibrated for, where that is known. No proof
            depends on it.
        curve_proof: What was proven at other epsilons, if it was asked for.
        alongside: What runs beside the mechanism on the same data, as plain data. All that is proven is of both
            together.
    """

    description: Description
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    assumptions: tuple[Assumption, ...]
    reserve: Reserve
    level: float
    failure_probability: float
    attempts: int
    proofs: tuple[Proof, Proof]
    test: str
    seed: int
    max_samples: int | None
    memory: int
    date: str = field(compare=False)
    versions: dict[str, str] = field(compare=False)
    format: int = FORMAT
    num_examples: int | None = None
    curve_proof: CurveProof | None = None
    alongside: tuple[Description, ...] = ()

    def __post_init__(self) -> None:
        if self.num_examples is not None:
            object.__setattr__(self, "num_examples", integer(num_examples=self.num_examples, at_least=1))

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism that was tested. A description that was forged, or that nobody here can read, is refused."""
        try:
            return Mechanism.from_description(self.description)
        except Exception as error:  # whatever a forged description may lead to
            raise ValueError(
                f"certificate describes no mechanism of this version of minsep: {shortened(str(error))}"
            ) from None

    @property
    def passed(self) -> bool:
        """Whether the mechanism is certified."""
        return all(proof.passed for proof in self.proofs)

    @property
    def conditional(self) -> bool:
        """Whether what is certified rests on something that is not proven."""
        return bool(self.assumptions)

    @property
    def tested(self) -> Budget:
        """What the proofs show of the mechanism in exact numbers: epsilon and delta without the reserve."""
        return self.reserve.left(Budget(self.epsilon, self.delta))

    @property
    def samples(self) -> int:
        """Number of samples of both directions, and of the curve."""
        return sum(proof.samples for proof in self.proofs) + (self.curve_proof.drawn if self.curve_proof else 0)

    @property
    def has_curve(self) -> bool:
        """Whether more than the certified point was proven: `curve` says more than the point then."""
        return self.passed and (self.curve_proof is not None or self._proven_exactly)

    @cached_property
    def curve(self) -> Curve:
        """What is proven at every epsilon, from the proofs of this certificate. One that did not pass has no curve.

        If both directions were proven exactly, it is the exact curve. Otherwise it goes through the points that were
        proven: many with `curve=True`, and the certified one alone without.
        """
        if not self.passed:
            raise ValueError("certificate did not pass, so it has no curve.")
        runs = RoundedRuns(((self.mechanism.strategy, self.reserve.values),) if self.reserve.values else ())
        promised = (Budget(self.epsilon, self.delta),)
        return Curve(self._exact_curve or self._proven_points, runs, self.failure_probability, promised)

    @property
    def _proven_exactly(self) -> bool:
        return all(isinstance(proof, ExactProof) for proof in self.proofs)

    @property
    def _exact_curve(self) -> DeltaCurve | None:
        if not self._proven_exactly:
            return None
        curve = exact_curve(self.mechanism, spacing_for(self.tested.epsilon))
        return Alongside.read(self.alongside).with_curve(curve)

    @property
    def _proven_points(self) -> PointCurve:
        return PointCurve(*(self._points(proof) for proof in self.proofs))

    def _points(self, proof: Proof) -> tuple[Point, ...]:
        # Beside the closed form of truncation, what is immediate adds nothing.
        level = proof.claim.truncation_terms if isinstance(proof, ImmediateProof) else self.level
        points = self.curve_proof.points(proof.direction) if self.curve_proof else ()
        return (*points, (self.tested.epsilon, level))

    @property
    def statement(self) -> str:
        """What the certificate says, in words."""
        budget = f"({self.epsilon:g}, {self.delta:g})-DP"
        if self.alongside:
            budget = f"{budget} together with {Alongside.read(self.alongside).words}"
        if not self.passed:
            reasons = "; ".join(f"{proof.direction}: {proof.summary()}" for proof in self.proofs if not proof.passed)
            return f"Not certified as {budget}: {reasons}."
        sentences = " ".join(assumption.sentence for assumption in self.assumptions)
        first = f"CONDITIONAL. {sentences} If that holds: certified" if self.conditional else "Certified"
        rounding = (
            f" The budget includes epsilon {self.reserve.epsilon:g} and delta {self.reserve.delta:g} for rounding in a "
            f"run that releases up to {self.reserve.values:.3g} values."
            if self.reserve.values
            else " It includes nothing for rounding, so no run can rely on it: certify the mechanism again."
        )
        return f"{first} {budget}{'.' if self.failure_probability == 0 else self._condition}{rounding}"

    @property
    def _earlier_statement(self) -> str:
        """The statement as it was worded when the first certificates of this format were written."""
        earlier = (
            f", if you run it only because it passed: a mechanism that is not ({self.tested.epsilon:.6g}, "
            f"{self.level:.6g})-DP passes this test with probability at most {self.failure_probability:.3g}."
        )
        return self.statement.replace(self._condition, earlier).replace(" The budget includes", " This includes")

    @property
    def _condition(self) -> str:
        """What a certificate by samples depends on."""
        return (
            ", provided you run it only if it passes. Delta includes the "
            f"{self.failure_probability:.3g} chance of a false pass."
        )

    def to_json(self) -> str:
        """Return the certificate as JSON."""
        recorded = to_plain(self)
        content = {
            "passed": self.passed,
            "conditional": self.conditional,
            "statement": self.statement,
            _DESCRIPTION: recorded.pop("description"),
            **recorded,
        }
        if self.format == _WITHOUT_RESERVE:
            del content["reserve"]
        for name, value in _OPTIONAL.items():
            if content[name] == value:
                del content[name]
        return json.dumps(content, indent=2, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate to a file, whole or not at all.

        Args:
            path: The path of the file.
        """
        write_whole(path, (self.to_json() + "\n").encode())

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate from JSON; whether it holds is for `verify` to say.

        Args:
            text: The text that `to_json` returned.
        """
        try:
            content = json.loads(text, object_pairs_hook=_without_repetition)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"This is not a certificate of minsep: {error}.") from None
        found = content.get("format") if isinstance(content, dict) else None
        if found is None:
            raise ValueError("This is not a certificate of minsep: it has no format.")
        if found == _WITHOUT_RESERVE:
            content["reserve"] = to_plain(Reserve(0, 0.0, 0.0))
        elif found != FORMAT:
            advice = "certify the mechanism again" if found == 1 else "use a version that reads it"
            raise ValueError(
                f"The certificate has format {in_short(found)}, but this version of minsep reads format {FORMAT}: "
                f"{advice}."
            )
        try:
            derived = {name: content.pop(name) for name in _DERIVED}
            certificate = from_plain(cls, {**_OPTIONAL, **_by_field(content)}, "The certificate")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ChangedCertificateError(f"The certificate does not hold: the file was changed ({error})") from None
        if (derived["passed"], derived["conditional"]) != (certificate.passed, certificate.conditional):
            raise ChangedCertificateError(
                "The certificate's outcome does not follow from its proofs: the file was changed."
            )
        here = content["versions"].get("minsep") == version("minsep")
        if (
            here
            and found == FORMAT
            and derived["statement"] not in (certificate.statement, certificate._earlier_statement)
        ):
            raise ChangedCertificateError(
                "The certificate's statement does not follow from its numbers: the file was changed."
            )
        return certificate

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Certificate":
        """Read a certificate from a file; whether it holds is for `verify` to say.

        Args:
            path: The path of the file that `save` wrote.
        """
        name = os.fspath(path)
        try:
            with open(path, "rb") as file:
                content = file.read(_MOST_BYTES + 1)  # a device may have no end
        except OSError as error:
            raise ValueError(f"certificate is {name!r}, but the file cannot be read: {error.strerror}.") from None
        if len(content) > _MOST_BYTES:
            raise ValueError(f"The file {name!r} is not a certificate of minsep: it is too large.")
        try:
            return cls.from_json(content.decode())
        except UnicodeDecodeError:
            raise ValueError(f"The file {name!r} is not a certificate of minsep: it is not text.") from None
        except ValueError as error:
            raise type(error)(f"{shortened(name)}: {error}") from None


def _by_field(content: dict[str, Any]) -> dict[str, Any]:
    """Return what a file holds by the names of a certificate's fields."""
    if "description" in content:
        raise ValueError("it has a description beside its mechanism")
    return {"description" if name == _DESCRIPTION else name: value for name, value in content.items()}


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that occurs twice: people and programs might read different values."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return content
