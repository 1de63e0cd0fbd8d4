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

from minsep.show.statements import content
from minsep.show.statements.markdown import plain

if TYPE_CHECKING:
    from minsep.show.statements.document import Statement

_NOT_YET = "1900-01-01"  # what the registry's own template says for a date that is to be filled in


@dataclass(frozen=True)
class _Todo:
    """A field that the curator fills in."""

    what: str
    value: Any = "TODO"


def as_registry_entry(stated: "Statement") -> str:
    """Return the YAML of the entry."""
    return "\n".join(_lines(_entry(stated), 0)) + "\n"


def _entry(stated: "Statement") -> dict[str, Any]:
    return {
        "url_slug": _Todo("update_slug.py of the registry writes it"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(stated),
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": _domain(stated),
                "unprotected_quantities": "The number of examples, the clip norm, the learning rates and all other "
                "settings of the training are public.",
            },
            "privacy_loss": _privacy_loss(stated),
            "deployment_model": _deployment_model(stated),
            "accounting": {
                "post_processing": "Whatever is computed from the noisy gradients: the weights after every step, and "
                "all outputs of the model.",
                "composition": _composition(stated),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _Todo(
                    "say what was done, and whether it was accounted for",
                    "Uses of the data before or beside the training, such as tuning and preprocessing, are not part of "
                    "the guarantee. TODO",
                ),
                "mechanisms": _mechanisms(stated),
                "justification": _Todo("why these choices"),
            },
            "administrative": {
                "sources": _Todo("links to the model, the certificate and a description"),
                "notes": _notes(stated),
                "registry_authors": _Todo("who fills in this entry", ["TODO"]),
            },
        },
    }


def _basic(stated: "Statement") -> dict[str, Any]:
    on = f" on {plain(stated.data)}" if stated.data else ""
    return {
        "name": plain(stated.model) if stated.model else _Todo("the name of the model"),
        "data_curators": _Todo("who publishes the model", ["TODO"]),
        "intended_use": _Todo("what the model is for"),
        "data_product_type": "Machine learning model",
        "data_product_region": _Todo("the region of the data, or whose laws apply"),
        "description": _Todo("describe the model", f"A model trained with differential privacy{on}. TODO"),
        "publication_date": _Todo("the date of publication", _NOT_YET),
    }


def _domain(stated: "Statement") -> str:
    numbers = {run.certificate.num_examples for run in stated.runs}
    known = [f"{number:,}" for number in numbers if number is not None]
    size = f"{known[0]} examples" if len(numbers) == len(known) == 1 else "a fixed, public number of examples"
    return f"Training datasets of {size}" + (f": {plain(stated.data)}." if stated.data else ".")


def _privacy_loss(stated: "Statement") -> dict[str, Any]:
    _, adjacent = content.protected_rows(stated.unit)[1]
    return {
        "privacy_unit": stated.unit.capitalize(),
        "privacy_unit_details": plain(f"Neighbouring datasets: {adjacent}."),
        "privacy_parameters": {
            "epsilon": float(content.rounded_up(stated.epsilon)),
            "delta": float(content.rounded_up(stated.delta)),
        },
        "privacy_parameters_details": [
            plain(stated.summary),
            *_attackers(stated),
            *(plain(run.certificate.statement) for run in stated.runs),
        ],
    }


def _attackers(stated: "Statement") -> list[str]:
    rates = ((content.percentage(rate), stated.curve.true_positives(rate)) for rate in content.FALSE_POSITIVES)
    return [
        f"An attacker with {false_positives} false positives has at most {content.percentage(rate)} true positives."
        for false_positives, rate in rates
    ]


def _deployment_model(stated: "Statement") -> dict[str, Any]:
    return {
        "model_name": "Central",
        "actors": _Todo(
            "name the actors, and say why they are trusted",
            "Whoever runs the training sees the data and keeps keys, seeds, checkpoints and batches secret. Everybody "
            "else sees the output, and is not trusted. TODO",
        ),
        "release_type": _Todo("check it", "One release" if len(stated.runs) == 1 else "Many releases"),
        "release_type_details": _Todo("say whether the data will be used again"),
        "data_source_type": _Todo("check it", "Static"),
        "access_type": _Todo("check it", "Non-interactive"),
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
    return [plain(item) for item in (*files, check, *(f"Assumption: {item}" for item in dict.fromkeys(assumptions)))]


def _lines(value: dict[str, Any], depth: int) -> list[str]:
    """Return the lines of a YAML mapping."""
    lines = []
    for name, item in value.items():
        comment = ""
        if isinstance(item, _Todo):
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
