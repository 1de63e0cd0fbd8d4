"""The sections of a statement, as plain text that every format renders."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from minsep.accounting import Certificate, Composition, Curve
from minsep.mechanism import Mechanism

FALSE_POSITIVES = (0.001, 0.01, 0.1)


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings; the first cell of a row names it."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A heading, then paragraphs, a table and a list, each if there is one; `code` is to be copied."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    table: Table | None = None
    items: tuple[str, ...] = ()
    code: str = ""


def people(unit: str) -> str:
    """Return whom a unit of privacy protects."""
    return {"example": "every example", "user": "every user, with all of their examples"}[unit]


def protected(unit: str) -> Section:
    """Say who is protected, from whom, and in which outputs."""
    return Section("Who is protected", table=Table(("", ""), protected_rows(unit)))


def protected_rows(unit: str) -> tuple[tuple[str, str], ...]:
    """Return who is protected, from whom, and in which outputs: the unit first, then the neighbouring datasets."""
    return (
        ("Unit of privacy", f"one {unit}" + (", with all of their examples" if unit == "user" else "")),
        (
            "Neighbouring datasets",
            f"they differ in one {unit}, whose gradients are replaced by zero (zero-out; REPLACE_SPECIAL in the terms "
            "of dp_accounting)",
        ),
        ("Trust model", "central: whoever runs the training sees the data; everybody else sees the output"),
        ("Output that is protected", "all noisy gradients of the run, so all weights after every step"),
        ("Use of the data that is covered", "the gradients of one training run"),
    )


def meaning(certificate: Certificate, estimates: list[float | None] | None) -> Section:
    """Say what the parameters mean for an attacker."""
    epsilon, delta = certificate.epsilon, certificate.delta
    return Section(
        "What it means",
        (*attacker_of(certificate.unit, f"{epsilon:g}", f"{delta:g}", times(epsilon)), *_beyond_the_point(certificate)),
        attackers(certificate.curve, estimates),
    )


def attacker_of(unit: str, epsilon: str, delta: str, factor: str) -> tuple[str, str]:
    """Say who the attacker is, and what the parameters mean for what it concludes."""
    return (
        f"An attacker sees the output, knows all the data but one {unit}, and has unlimited computing power. The "
        f"attacker wants to know whether that {unit} was used. Guessing gives as many true positives as false "
        "positives. The table says how much better any attacker can do.",
        f"Epsilon is {epsilon}: whatever an attacker concludes from the output, the conclusion is at most {factor} "
        f"times as likely with the {unit} as without, plus delta = {delta}; and the reverse.",
    )


def attackers(curve: Curve, estimates: list[float | None] | None = None) -> Table:
    """Return how many true positives an attacker can have at rates of false positives."""
    headings = ["false positives of the attacker", "true positives, at most (certified)"]
    if estimates is not None:
        headings.append("true positives of the best attacker (estimate, no guarantee)")
    rows = []
    for place, rate in enumerate(FALSE_POSITIVES):
        row = [f"{100 * rate:g} %", percentage(curve.true_positives(rate))]
        if estimates is not None:
            found = estimates[place]
            row.append("not resolved" if found is None else f"about {100 * found:.3g} %")
        rows.append(tuple(row))
    return Table(tuple(headings), tuple(rows))


def _beyond_the_point(certificate: Certificate) -> tuple[str, ...]:
    """Say what was proven beside the certified point, if anything was."""
    if not certificate.has_curve:
        return ()
    curve = certificate.curve
    return (
        "More was proven than this one point: delta is certified at every epsilon, and the table uses all of it. Up to "
        f"epsilon {curve.mu_reach:.6g}, the output tells no more than one Gaussian mechanism with sensitivity "
        f"{rounded_up(curve.mu)} and standard deviation 1.",
    )


def proof(certificate: Certificate, mechanism: Mechanism, verified: bool) -> Section:
    """Say how it was shown, and how likely the proof errs."""
    bound = _user_bound(mechanism)
    rows = [
        ("Mechanism", mechanism.name),
        *(() if bound is None else (("Examples of a user", f"at most {bound}"),)),
        *_examples(certificate),
        ("Iterations", f"{mechanism.iterations:,}"),
        ("Noise multiplier", f"{mechanism.noise_multiplier:.6g}"),
        *((f"Proof of '{each.direction}'", each.summary()) for each in certificate.proofs),
        ("Chance that the proof errs", _chance(certificate)),
        ("Kept for rounding in the run", _reserve(certificate)),
        ("Certified on", certificate.date),
        (
            "Verified for this statement",
            "yes: all proofs were rebuilt and all samples drawn again" if verified else "no",
        ),
    ]
    return Section("How it was proven", (certificate.statement,), Table(("", ""), tuple(rows)))


def _examples(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    """Return for how many examples the certificate was made, as a row, where it says so."""
    return () if certificate.num_examples is None else (("Examples planned for", f"{certificate.num_examples:,}"),)


def _chance(certificate: Certificate) -> str:
    if certificate.failure_probability == 0:
        return "none: the proof needs no samples"
    return (
        f"at most {certificate.failure_probability:.3g}; it is part of delta, which is "
        f"{certificate.level:.6g} without it"
    )


def _reserve(certificate: Certificate) -> str:
    reserve = certificate.reserve
    if reserve.values == 0:
        return "nothing: the certificate is of a version that did not account for rounding"
    return (
        f"epsilon {reserve.epsilon:g} and delta {reserve.delta:g}, for a run that releases up to {reserve.values:.3g} "
        "values (model size times iterations)"
    )


def assumptions(certificate: Certificate, mechanism: Mechanism) -> list[str]:
    """Return everything that is taken for granted."""
    items = [assumption.sentence for assumption in mechanism.scheme.assumptions]
    bound = _user_bound(mechanism)
    if bound is not None:
        more = "example" if bound == 1 else "examples"
        items.append(f"No user has more than {bound} {more} in the training data, shared ones included.")
    items += [
        "The run follows the mechanism: it uses each of its batches once and in order, clips each gradient, adds its "
        "noise, and divides by a fixed number. The training adapters of minsep check this.",
        "Keys, seeds, checkpoints and batches stay as secret as the data.",
        "Released sums are those of `minsep.release`, as in the training adapters of minsep: floating-point noise that "
        "is added in another way reveals the data in the lowest bits. On a device other than the CPU, logarithms, "
        "sines and cosines are right to four units in the last place.",
        "Nobody can tell the output of AES-256, ChaCha20, BLAKE2 and Philox from random numbers.",
        "The number of examples, the clip norm, the learning rates and all other settings are public: they were "
        "chosen without looking at the data, or the choice is accounted for elsewhere.",
    ]
    if certificate.failure_probability > 0:
        tested = "one mechanism was" if certificate.attempts == 1 else f"{certificate.attempts} mechanisms were"
        items.append(
            f"The seed of the proof was drawn once, at most {tested} tested, and the mechanism was run only because it "
            "passed."
        )
    return items


def not_covered(certificate: Certificate, *, replaced: bool = False) -> Section:
    """Say what the guarantee is not about; `replaced` if the statement is about replacing a unit as well."""
    return Section(
        "What is not covered",
        items=(
            "Tuning: choosing settings by results on the same data.",
            "Other runs on the same data, released or not, unless they are listed here.",
            "Other uses of the data: deduplication, vocabularies, statistics, evaluation on training examples.",
            *beyond_privacy(certificate.unit, replaced=replaced),
        ),
    )


def beyond_privacy(unit: str, *, replaced: bool) -> tuple[str, ...]:
    """Return what no guarantee of this kind is about; `replaced` if the statement is about replacing a unit as well."""
    doubled = (
        f"Replacing one {unit} by another: for that, epsilon doubles and delta becomes (1 + exp(epsilon)) delta, or "
        "less: `minsep statement --adjacency replace-one` says what was proven.",
    )
    return (
        "Leaks outside training: access to the data, logs, caches, checkpoints, and side channels such as the duration "
        "of a step.",
        *(() if replaced else doubled),
        "What is learned about people in general, which holds for those who took no part as well.",
        "Whether the model is fair, correct or fit for its use.",
    )


def versions(certificates: Iterable[Certificate]) -> Section:
    """Say which versions of packages made certificates."""
    found: dict[str, set[str]] = {}
    for certificate in certificates:
        for name, used in certificate.versions.items():
            found.setdefault(name, set()).add(used)
    rows = tuple((name, ", ".join(sorted(seen))) for name, seen in found.items())
    return Section("Versions", table=Table(("package", "version"), rows))


def together(composition: Composition) -> Section:
    """Say what several certificates guarantee together."""
    chance = composition.curve.chance
    errs = f" Delta includes the chance that a certificate is wrong, {chance:.3g}, once." if chance else ""
    return Section(
        "All runs together",
        (
            f"The {composition.count} runs on the same data are together ({rounded_up(composition.epsilon)}, "
            f"{rounded_up(composition.delta)})-DP, for the same unit and adjacency, even if each was chosen by the "
            "outputs of those before it. Each run draws keys of its own, and its certificate and delta were fixed "
            "before the first. What each certificate proves at all epsilons is composed: the privacy losses of the "
            f"pairs of distributions that dominate the runs add up.{errs}",
            f"The sums of the parameters, ({rounded_up(composition.sum_of_epsilons)}, "
            f"{rounded_up(sum_of_deltas(composition))}), hold "
            "as well, by basic composition (Dwork and others 2006).",
        ),
        attackers(composition.curve),
    )


def sum_of_deltas(composition: Composition) -> float:
    """Return the delta of all runs together by basic composition."""
    return math.fsum(part.count * part.certificate.delta for part in composition.parts if part.certificate is not None)


def rounded_up(value: float) -> str:
    """Return a number of at least 0 with six digits, no smaller than it.

    >>> rounded_up(4.0), rounded_up(1e-5), rounded_up(4.99988123), rounded_up(0.0)
    ('4', '1e-05', '4.99989', '0')
    """
    if value == 0:
        return "0"
    shown = f"{value:.6g}"
    step = 10.0 ** (math.floor(math.log10(value)) - 5)
    return shown if float(shown) >= value else f"{value + step / 2:.6g}"


def percentage(rate: float) -> str:
    """Return an upper bound in percent, rounded up.

    >>> percentage(0.054598), percentage(1.0), percentage(0.99985)
    ('5.46 %', '100 %', '99.99 %')
    """
    return f"{min(-(-rate * 1e4 // 1) / 1e2, 100.0):g} %"


def times(epsilon: float) -> str:
    """Return e^epsilon, rounded up."""
    factor = math.exp(epsilon)
    return f"{math.ceil(10 * factor) / 10:,.1f}" if factor < 1e6 else rounded_up(factor)


def _user_bound(mechanism: Mechanism) -> int | None:
    """Return how many examples a user has at most, if users are protected."""
    return getattr(mechanism.scheme, "user_bound", None)
