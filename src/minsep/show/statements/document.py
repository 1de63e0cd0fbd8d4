"""A statement of privacy: all that certificates say, and all that they do not."""

import hashlib
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from minsep.accounting import Certificate, Composition, Curve, compose, read_certificate
from minsep.accounting import verify as verify_certificate
from minsep.core.validation import choice
from minsep.engine import LOCAL, Compute
from minsep.ledger import Ledger, is_ledger
from minsep.mechanism import Mechanism
from minsep.show.statements import content, neighbours
from minsep.show.statements.booked import Booked, booked_in
from minsep.show.statements.content import Section, rounded_up
from minsep.show.statements.formats import Formatted
from minsep.show.statements.model_card import as_model_card
from minsep.show.statements.odds import estimated_true_positives
from minsep.show.statements.registry import as_registry_entry, facts_of

_UNNAMED = "certificate.json"


@dataclass(frozen=True)
class CertifiedRun:
    """One certified run of a statement.

    Attributes:
        certificate: The certificate of the run.
        name: The name of the certificate's file.
        digest: The SHA-256 of the certificate's text.
        verified: Whether the certificate was verified for this statement.
        estimates: The rates of true positives, as far as estimates show them. None if none were requested.
    """

    certificate: Certificate
    name: str
    digest: str
    verified: bool
    estimates: list[float | None] | None

    @property
    def mechanism(self) -> Mechanism:
        """What was certified."""
        return self.certificate.mechanism


@dataclass(frozen=True)
class Statement(Formatted):
    """What certificates guarantee, to whom, under which assumptions, and what they do not.

    Attributes:
        runs: The certified runs.
        model: What was trained, in words.
        data: What it was trained on, in words.
        composition: The privacy of all runs together. None if there is one run.
        adjacency: Which datasets the statement is about, beside those that certificates call neighbours.
        booked: Where the runs are booked, if a ledger was given.
    """

    runs: tuple[CertifiedRun, ...]
    model: str
    data: str
    composition: Composition | None
    adjacency: str = "zero-out"
    booked: Booked | None = None

    @property
    def title(self) -> str:
        """The first line."""
        return f"Privacy statement: {self.model}" if self.model else "Privacy statement"

    @property
    def epsilon(self) -> float:
        """The epsilon of all runs together."""
        return (self.composition or self.runs[0].certificate).epsilon

    @property
    def delta(self) -> float:
        """The delta of all runs together."""
        return (self.composition or self.runs[0].certificate).delta

    @property
    def curve(self) -> Curve:
        """What is proven of all runs together at every epsilon."""
        return (self.composition or self.runs[0].certificate).curve

    @property
    def for_other_neighbours(self) -> str:
        """The guarantee for other neighbours in a sentence, if the statement is about them."""
        return neighbours.sentence(self.adjacency, self.curve, self.epsilon, self.delta, self.unit)

    @property
    def unit(self) -> str:
        """Whose privacy it is, which is the same in all runs: an example or a user."""
        return self.runs[0].certificate.unit

    @property
    def verified(self) -> bool:
        """Whether all certificates were verified for this statement."""
        return all(run.verified for run in self.runs)

    @property
    def summary(self) -> str:
        """The guarantee in a sentence or two."""
        on = f" on {self.data}" if self.data else ""
        what = f"This training run{on} is" if self.composition is None else f"These training runs{on} are together"
        conditional = any(run.certificate.conditional for run in self.runs)
        start = "CONDITIONAL on the assumptions below that are not proven. " if conditional else ""
        unverified = "" if self.verified else " Not verified for this statement."
        other = f" {self.for_other_neighbours}" if self.for_other_neighbours else ""
        return (
            f"{start}{what} ({rounded_up(self.epsilon)}, {rounded_up(self.delta)})-differentially "
            f"private for {content.people(self.unit)}.{other}{unverified}"
        )

    @property
    def sections(self) -> tuple[Section, ...]:
        """All sections, in their order."""
        first = self.runs[0]
        sections = [content.protected(first.certificate.unit)]
        if self.composition is not None:
            sections.append(content.together(self.composition))
        for place, run in enumerate(self.runs):
            parts = (
                content.meaning(run.certificate, run.estimates),
                content.proof(run.certificate, run.mechanism, run.verified),
            )
            number = f"Run {place + 1}: " if len(self.runs) > 1 else ""
            sections += [Section(f"{number}{part.heading}", part.paragraphs, part.table) for part in parts]
        other = neighbours.section(self.adjacency, self.curve, self.epsilon, self.delta, self.unit)
        sections += [other] if other is not None else []
        sections += [self.booked.section] if self.booked is not None else []
        sections += [self._assumptions(), self._not_covered(), self._check()]
        sections.append(content.versions(run.certificate for run in self.runs))
        return tuple(sections)

    def _not_covered(self) -> Section:
        return content.not_covered(self.runs[0].certificate, replaced=self.adjacency == "replace-one")

    def _assumptions(self) -> Section:
        items = (item for run in self.runs for item in content.assumptions(run.certificate, run.mechanism))
        return Section("Assumptions", items=tuple(dict.fromkeys(items)))

    def _check(self) -> Section:
        many = len(self.runs) > 1
        digests = tuple(
            (f"{name} (run {place})" if many else name, run.digest)
            for place, (name, run) in enumerate(zip(self.file_names, self.runs, strict=True), 1)
        )
        return Section(
            "How to check it",
            (
                "Anybody can check a certificate, without the data: the check rebuilds every proof and draws every "
                f"sample again. It needs minsep {version('minsep')}. `minsep audit` tests a training loop against its "
                "certificate.",
            ),
            content.Table(("certificate", "SHA-256"), digests),
            code=self.commands,
        )

    @property
    def file_names(self) -> list[str]:
        """The names of the certificates' files, or the usual name where a certificate has no file."""
        return [run.name or _UNNAMED for run in self.runs]

    @property
    def commands(self) -> str:
        """The commands that verify the certificates, one a line."""
        return "\n".join(f"minsep verify {shlex.quote(name)}" for name in dict.fromkeys(self.file_names))

    def to_registry(self) -> str:
        """Return an entry for the OpenDP deployments registry as YAML. What only the curator knows says TODO."""
        return as_registry_entry(facts_of(self))

    def to_model_card(self) -> str:
        """Return the block of a model card for the README of a repository on Hugging Face, as Markdown."""
        return as_model_card(self)

    def as_data(self) -> dict[str, Any]:
        """Return the statement as plain data."""
        return {
            "title": self.title,
            "summary": self.summary,
            "model": self.model,
            "data": self.data,
            "runs": [_run_as_data(run) for run in self.runs],
            "composition": None if self.composition is None else _composition_as_data(self.composition),
            "adjacency": self.adjacency,
            "for_other_neighbours": self.for_other_neighbours or None,
            "ledger": None if self.booked is None else self.booked.as_data(),
            "assumptions": list(self._assumptions().items),
            "not_covered": list(self._not_covered().items),
        }


def _composition_as_data(composition: Composition) -> dict[str, Any]:
    return {
        "epsilon": composition.epsilon,
        "delta": composition.delta,
        "sum_of_epsilons": composition.sum_of_epsilons,
        "sum_of_deltas": content.sum_of_deltas(composition),
        "chance_of_an_error": composition.curve.chance,
        "attacker": [
            {"false_positives": rate, "most_true_positives": composition.curve.true_positives(rate)}
            for rate in content.FALSE_POSITIVES
        ],
    }


def _run_as_data(run: CertifiedRun) -> dict[str, Any]:
    certificate, mechanism = run.certificate, run.mechanism
    return {
        "certificate": run.name,
        "sha256": run.digest,
        "verified": run.verified,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "unit": certificate.unit,
        "adjacency": certificate.adjacency,
        "conditional": certificate.conditional,
        "failure_probability": certificate.failure_probability,
        "reserve": vars(certificate.reserve),
        "mechanism": mechanism.name,
        "fingerprint": mechanism.fingerprint,
        "noise_multiplier": mechanism.noise_multiplier,
        "iterations": mechanism.iterations,
        "attacker": [
            {
                "false_positives": rate,
                "most_true_positives": certificate.curve.true_positives(rate),
                "estimated_true_positives": None if run.estimates is None else run.estimates[place],
            }
            for place, rate in enumerate(content.FALSE_POSITIVES)
        ],
        "date": certificate.date,
        "versions": certificate.versions,
    }


def statement(
    *certificates: Certificate | str | os.PathLike[str],
    model: str = "",
    data: str = "",
    delta: float | None = None,
    adjacency: str = "zero-out",
    verify: bool = True,
    estimate: bool = True,
    accept_other_num_examples: bool = False,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    compute: Compute = LOCAL,
) -> Statement:
    """Return the statement of privacy of one certified run, or of several on the same data.

    Args:
        certificates: The certificates of the runs, or their files. Give one certificate twice if it is for two runs.
            One that was refused, or does not hold, is an error.
        model: What was trained, in words that are printed as they are.
        data: What it was trained on, in words that are printed as they are.
        delta: The delta of several runs together. By default it is the sum of theirs.
        adjacency: Which datasets the statement is about, beside those that certificates call neighbours. "zero-out"
            adds nothing, "replace-one" is for those that differ in one example, and "add-or-remove" for those of which
            one lacks an example.
        verify: Whether to verify the certificates. If they are not verified, the statement says so.
        estimate: Whether to include what the best attacker can do by estimates.
        accept_other_num_examples: As for `minsep.compose`, if there are several certificates.
        ledger: The ledger in which the runs are booked, or its file: the statement names their entries. A run that has
            none is an error.
        compute: Where samples are drawn, which does not change the result.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=100)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-3)
        >>> print(statement(certificate).summary)
        This training run is (2, 0.001)-differentially private for every example.
    """
    choice(neighbours.ADJACENCIES, adjacency=adjacency)
    if not certificates:
        raise ValueError("certificates is empty, but a statement needs at least one.")
    read = [_read(each) for each in certificates]
    _check(read, delta)
    booked = None if ledger is None else booked_in(ledger, [(certificate, name) for certificate, name, _ in read])
    runs = tuple(
        CertifiedRun(
            certificate,
            name,
            digest,
            _verified(certificate, name, compute) if verify else False,
            _estimates(certificate, compute) if estimate else None,
        )
        for certificate, name, digest in read
    )
    composition = None
    if len(runs) > 1:  # they were verified one by one
        together = [run.certificate for run in runs]
        composition = compose(together, delta, verify=False, accept_other_num_examples=accept_other_num_examples)
    return Statement(runs, model, data, composition, adjacency, booked)


def _read(given: Certificate | str | os.PathLike[str]) -> tuple[Certificate, str, str]:
    if isinstance(given, Certificate):
        certificate, name, text = given, "", (given.to_json() + "\n").encode()
    else:
        if is_ledger(given):
            raise ValueError(f"certificate is {os.fspath(given)!r}, but it is a ledger: use minsep.ledger_statement.")
        found, name = read_certificate(given), Path(given).name
        if not isinstance(found, Certificate):
            raise ValueError(
                f"certificate is {os.fspath(given)!r}, but it is of a tuning: book it in a ledger, and state that."
            )
        certificate = found
        text = Path(given).read_bytes()
    return certificate, name, hashlib.sha256(text).hexdigest()


def _check(read: Sequence[tuple[Certificate, str, str]], delta: float | None) -> None:
    for certificate, name, _ in read:
        if not certificate.passed:
            raise ValueError(f"{name or 'The certificate'} proves nothing: {certificate.statement}")
    units = {(certificate.unit, certificate.adjacency) for certificate, _, _ in read}
    if len(units) > 1:
        found = " and ".join(sorted(f"one {unit} ({adjacency})" for unit, adjacency in units))
        raise ValueError(
            f"The certificates protect {found}, but their composition is known only if all protect the same: state "
            "them one by one."
        )
    if delta is not None and len(read) == 1:
        raise ValueError(f"delta is {delta:g}, but it is for several certificates: with one, omit it.")


def _verified(certificate: Certificate, name: str, compute: Compute) -> bool:
    result = verify_certificate(certificate, compute=compute)
    if not result.holds:
        raise ValueError(f"{name}: {result.reason}" if name else result.reason)
    return True


def _estimates(certificate: Certificate, compute: Compute) -> list[float | None]:
    mechanism = certificate.mechanism
    try:
        found = estimated_true_positives(mechanism, list(content.FALSE_POSITIVES), certificate.epsilon, compute=compute)
    except ValueError:  # no estimate is known for every mechanism that has a proof
        return [None] * len(content.FALSE_POSITIVES)
    return found
