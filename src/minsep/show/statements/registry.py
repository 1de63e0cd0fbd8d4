"""A statement as an entry of the OpenDP deployments registry.

The fields, and the words that some of them may hold, are those of `schemas/deployments-schema.yaml` in
https://github.com/opendp/deployments-registry-data at commit 3e9c812 of 15 July 2026. A certificate knows the variant,
the unit, the parameters and the mechanism. What only the curator knows says TODO, with a comment, in a form that the
schema allows: the entry is a draft.
"""

import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from minsep.accounting import Curve
from minsep.show.statements import content
from minsep.show.statements.markdown import plain

if TYPE_CHECKING:
    from minsep.show.statements.document import Statement

_NOT_YET = "1900-01-01"  # what the registry's own template says for a date that is to be filled in


@dataclass(frozen=True)
class Todo:
    """A field that the curator fills in."""

    what: str
    value: Any = "TODO"


@dataclass(frozen=True)
class Facts:
    """What a statement knows of the fields of an entry.

    Attributes:
        name: What was released, in words. The curator fills it in where it is empty.
        description: What it is, in a sentence.
        domain: Which datasets it is about.
        product: Which kind of product it is.
        unit: Whose privacy is protected.
        epsilon: The epsilon of all releases.
        delta: The delta of all releases.
        details: What is proven, in sentences.
        several: Whether there are many releases.
        post_processing: What the guarantee covers as well, because it is computed from the releases.
        composition: How the parts compose.
        mechanisms: What added noise.
        notes: How to check it, and what is assumed.
    """

    name: str
    description: str
    domain: str
    product: str | Todo
    unit: str
    epsilon: float
    delta: float
    details: list[str]
    several: bool
    post_processing: str
    composition: str | list[str]
    mechanisms: list[str]
    notes: list[str]


def as_registry_entry(facts: Facts) -> str:
    """Return the YAML of the entry."""
    return "\n".join(_lines(_entry(facts), 0)) + "\n"


def facts_of(stated: "Statement") -> Facts:
    """Return what a statement of certificates knows."""
    on = f" on {plain(stated.data)}" if stated.data else ""
    return Facts(
        name=plain(stated.model),
        description=f"A model trained with differential privacy{on}.",
        domain=_domain(stated),
        product="Machine learning model",
        unit=stated.unit,
        epsilon=stated.epsilon,
        delta=stated.delta,
        details=[
            plain(stated.summary),
            *attackers(stated.curve),
            *(plain(run.certificate.statement) for run in stated.runs),
        ],
        several=len(stated.runs) > 1,
        post_processing="Whatever is computed from the noisy gradients: the weights after every step, and all outputs "
        "of the model.",
        composition=_composition(stated),
        mechanisms=_mechanisms(stated),
        notes=_notes(stated),
    )


def attackers(curve: Curve) -> list[str]:
    """Return what attackers can have, in sentences."""
    rates = ((content.percentage(rate), curve.true_positives(rate)) for rate in content.FALSE_POSITIVES)
    return [
        f"An attacker with {false_positives} false positives has at most {content.percentage(rate)} true positives."
        for false_positives, rate in rates
    ]


def _entry(facts: Facts) -> dict[str, Any]:
    _, adjacent = content.protected_rows(facts.unit)[1]
    return {
        "url_slug": Todo("update_slug.py of the registry writes it"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": facts.name or Todo("the name of the model"),
                "data_curators": Todo("who publishes the model", ["TODO"]),
                "intended_use": Todo("what the model is for"),
                "data_product_type": facts.product,
                "data_product_region": Todo("the region of the data, or whose laws apply"),
                "description": Todo("describe the model", f"{facts.description} TODO"),
                "publication_date": Todo("the date of publication", _NOT_YET),
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": facts.domain,
                "unprotected_quantities": "The number of examples, the clip norm, the learning rates and all other "
                "settings of the training are public.",
            },
            "privacy_loss": {
                "privacy_unit": facts.unit.capitalize(),
                "privacy_unit_details": plain(f"Neighbouring datasets: {adjacent}."),
                "privacy_parameters": {
                    "epsilon": float(content.rounded_up(facts.epsilon)),
                    "delta": float(content.rounded_up(facts.delta)),
                },
                "privacy_parameters_details": facts.details,
            },
            "deployment_model": _deployment_model(facts),
            "accounting": {"post_processing": facts.post_processing, "composition": facts.composition},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": Todo(
                    "say what was done, and whether it was accounted for",
                    "Uses of the data before or beside the training, such as tuning and preprocessing, are not part of "
                    "the guarantee. TODO",
                ),
                "mechanisms": facts.mechanisms,
                "justification": Todo("why these choices"),
            },
            "administrative": {
                "sources": Todo("links to the model, the certificate and a description"),
                "notes": facts.notes,
                "registry_authors": Todo("who fills in this entry", ["TODO"]),
            },
        },
    }


def _domain(stated: "Statement") -> str:
    numbers = {run.certificate.num_examples for run in stated.runs}
    return domain(numbers.pop() if len(numbers) == 1 else None, stated.data)


def domain(num_examples: int | None, data: str) -> str:
    """Return which datasets an entry is about."""
    size = "a fixed, public number of examples" if num_examples is None else f"{num_examples:,} examples"
    return f"Training datasets of {size}" + (f": {plain(data)}." if data else ".")


def _deployment_model(facts: Facts) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "actors": Todo(
            "name the actors, and say why they are trusted",
            "Whoever runs the training sees the data and keeps keys, seeds, checkpoints and batches secret. Everybody "
            "else sees the output, and is not trusted. TODO",
        ),
        "release_type": Todo("check it", "Many releases" if facts.several else "One release"),
        "release_type_details": Todo("say whether the data will be used again"),
        "data_source_type": Todo("check it", "Static"),
        "access_type": Todo("check it", "Non-interactive"),
    }


def _composition(stated: "Statement") -> str | list[str]:
    within = (
        "The guarantee covers all iterations of a run together: the mechanism is accounted for as a whole, for an "
        "adaptive choice of each step by the ones before."
    )
    if stated.composition is None:
        return within
    return [within, *map(plain, content.together(stated.composition).paragraphs)]


def _mechanisms(stated: "Statement") -> list[str]:
    items = []
    for run in stated.runs:
        mechanism = run.mechanism
        items.append(
            f"Gradients are clipped, summed, and released with Gaussian noise: {mechanism.name}, "
            f"{mechanism.iterations:,} iterations, noise multiplier {mechanism.noise_multiplier:.6g} (the standard "
            f"deviation divided by the clip norm). The fingerprint of the mechanism is {mechanism.fingerprint}."
        )
    items += [
        f"The guarantee was certified with minsep {version('minsep')}.",
        "Floating point: a part of the budget is kept for rounding, for runs that release their sums with "
        "minsep.release.",
    ]
    return [plain(item) for item in dict.fromkeys(items)]


def _notes(stated: "Statement") -> list[str]:
    files = [
        f"The certificate {name} has the SHA-256 {run.digest}. It "
        + ("was verified for this entry." if run.verified else "was not verified for this entry.")
        for name, run in zip(stated.file_names, stated.runs, strict=True)
    ]
    assumptions = (item for run in stated.runs for item in content.assumptions(run.certificate, run.mechanism))
    check = "Anybody can check a certificate without the data, with the command `minsep verify`."
    booked = () if stated.booked is None else stated.booked.sentences
    return [
        plain(item)
        for item in (*files, check, *booked, *(f"Assumption: {item}" for item in dict.fromkeys(assumptions)))
    ]


def _lines(value: dict[str, Any], depth: int) -> list[str]:
    """Return the lines of a YAML mapping."""
    lines = []
    for name, item in value.items():
        comment = ""
        if isinstance(item, Todo):
            item, comment = item.value, f"  # TODO: {item.what}"
        start = f"{'  ' * depth}{name}:"
        if isinstance(item, dict):
            lines += [start, *_lines(item, depth + 1)]
        elif isinstance(item, list) and comment:
            lines += [f"{start}{comment}", *(f"{'  ' * (depth + 1)}- {_scalar(each)}" for each in item)]
        elif isinstance(item, list):
            lines += [f"{start} |", *(f"{'  ' * (depth + 1)}- {_printable(each)}" for each in item)]
        else:
            lines.append(f"{start} {_scalar(item)}{comment}")
    return lines


def _scalar(value: str | float) -> str:
    """Return a scalar of YAML 1.1, in which 1e-05 would be a text.

    >>> _scalar(1e-05), _scalar(3), _scalar("yes")
    ('1.0e-05', '3', '"yes"')
    """
    if isinstance(value, str):
        return json.dumps(_printable(value), ensure_ascii=False)
    mantissa, exponent, power = repr(value).partition("e")
    return (mantissa if "." in mantissa or not exponent else f"{mantissa}.0") + exponent + power


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
