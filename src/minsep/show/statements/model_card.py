"""A statement as the block of a model card: Markdown for the README of a repository on Hugging Face.

The metadata between the dashes are those of the Hub (https://huggingface.co/docs/hub/model-cards), which has no field
for privacy: `differential-privacy` is a tag.
"""

import math
from typing import TYPE_CHECKING

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
    parts = [
        _METADATA,
        "## Privacy",
        f"**{plain(stated.summary)}**",
        *(plain(assumption.sentence) for assumption in _not_proven(stated)),
        table(content.Table(("", ""), tuple(_rows(stated)))),
        plain(
            f"Whatever an attacker concludes from the model, the conclusion is at most {_times(stated.epsilon)} times "
            f"as likely with one {stated.unit} in the training data as without, plus delta = "
            f"{content.rounded_up(stated.delta)}; and the reverse. The guarantee covers the gradients of {runs}. It "
            "does not cover other uses of the same data, such as choosing settings by results, other runs, or "
            "evaluation."
        ),
        plain("Anybody can check the certificate, without the data. `minsep statement` lists all assumptions."),
        f"```bash\n{stated.commands}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _rows(stated: "Statement") -> list[tuple[str, str]]:
    rows = [
        ("Epsilon", content.rounded_up(stated.epsilon)),
        ("Delta", content.rounded_up(stated.delta)),
        *((name, what) for name, what in content.protected_rows(stated.unit)[:2]),
        (
            f"True positives of an attacker with {content.percentage(_FALSE_POSITIVES)} false positives, at most",
            content.percentage(stated.curve.true_positives(_FALSE_POSITIVES)),
        ),
    ]
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
    return rows


def _not_proven(stated: "Statement") -> list[Assumption]:
    return list(dict.fromkeys(each for run in stated.runs for each in run.certificate.assumptions))


def _times(epsilon: float) -> str:
    return content.times(epsilon) if epsilon < math.log(1e300) else "any number of"
