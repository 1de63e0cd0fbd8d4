"""A statement as the block of a model card: Markdown for the README of a repository on Hugging Face.

The metadata between the dashes are those of the Hub (https://huggingface.co/docs/hub/model-cards), which has no field
for privacy: `differential-privacy` is a tag.
"""

import math
from typing import TYPE_CHECKING

from minsep.accounting import Curve
from minsep.participation import Assumption
from minsep.show.statements import content
from minsep.show.statements.markdown import plain, table

if TYPE_CHECKING:
    from minsep.show.statements.document import Statement

_FALSE_POSITIVES = 0.01
_METADATA = "---\ntags:\n- differential-privacy\n---"


def as_model_card(stated: "Statement") -> str:
    """Return the whole block."""
    runs = "this run" if len(stated.runs) == 1 else "these runs"
    return card(
        stated.summary,
        [plain(assumption.sentence) for assumption in _not_proven(stated)],
        _rows(stated),
        f"{conclusion(stated.epsilon, stated.delta, stated.unit)} The guarantee covers the gradients of {runs}. It "
        "does not cover other uses of the same data, such as choosing settings by results, other runs, or evaluation.",
        "Anybody can check the certificate, without the data. `minsep statement` lists all assumptions.",
        stated.commands,
    )


def card(
    summary: str, not_proven: list[str], rows: list[tuple[str, str]], meaning: str, closing: str, commands: str
) -> str:
    """Return the block of what is stated.

    Args:
        summary: The guarantee.
        not_proven: What it rests on that is not proven.
        rows: The numbers, by name.
        meaning: What the guarantee means, and what it does not cover.
        closing: How to check it.
        commands: The commands that check it.
    """
    parts = [
        _METADATA,
        "## Privacy",
        f"**{plain(summary)}**",
        *not_proven,
        table(content.Table(("", ""), tuple(rows))),
        plain(meaning),
        plain(closing),
        f"```bash\n{commands}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def conclusion(epsilon: float, delta: float, unit: str) -> str:
    """Return what the parameters mean for an attacker, in a sentence."""
    return (
        f"Whatever an attacker concludes from the model, the conclusion is at most {_times(epsilon)} times as likely "
        f"with one {unit} in the training data as without, plus delta = {content.rounded_up(delta)}; and the reverse."
    )


def main_rows(epsilon: float, delta: float, unit: str, curve: Curve) -> list[tuple[str, str]]:
    """Return the numbers that every block has."""
    return [
        ("Epsilon", content.rounded_up(epsilon)),
        ("Delta", content.rounded_up(delta)),
        *content.protected_rows(unit)[:2],
        (
            f"True positives of an attacker with {content.percentage(_FALSE_POSITIVES)} false positives, at most",
            content.percentage(curve.true_positives(_FALSE_POSITIVES)),
        ),
    ]


def _rows(stated: "Statement") -> list[tuple[str, str]]:
    rows = main_rows(stated.epsilon, stated.delta, stated.unit, stated.curve)
    for place, (run, name) in enumerate(zip(stated.runs, stated.file_names, strict=True), 1):
        number = f" of run {place}" if len(stated.runs) > 1 else ""
        mechanism = run.mechanism
        rows += [
            (
                f"Mechanism{number}",
                f"{mechanism.name}, {mechanism.iterations:,} iterations, noise multiplier "
                f"{mechanism.noise_multiplier:.6g}",
            ),
            (f"Fingerprint of the mechanism{number}", mechanism.fingerprint),
            (f"Certificate{number}", f"{name}, SHA-256 {run.digest}"),
        ]
    if stated.booked is not None:
        rows.append(("Ledger of the dataset", " ".join(stated.booked.sentences)))
    return rows


def _not_proven(stated: "Statement") -> list[Assumption]:
    return list(dict.fromkeys(each for run in stated.runs for each in run.certificate.assumptions))


def _times(epsilon: float) -> str:
    return content.times(epsilon) if epsilon < math.log(1e300) else "any number of"
