"""`minsep export`: the curve of a certificate, for other tools."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.help import OUTPUT
from minsep.cli.options import Force, Json, command, counting
from minsep.cli.output import Files, print_json, print_table, say
from minsep.core.files import write_whole

_COLUMNS = ("epsilon", "delta_remove", "delta_add")
_LARGEST = 2.0  # in epsilons of the certificate


@command
def export(
    certificate: Annotated[Path, typer.Argument(help="A certificate. It is not verified: use `minsep verify`.")],
    points: Annotated[int, counting("Number of epsilons, from 0 to twice the certified one.")] = 201,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the curve to this .csv or .json file.", rich_help_panel=OUTPUT),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Export the curve of a certificate: the deltas that it proves at other epsilons, as CSV or JSON.

    Example: `minsep export certificate.json -o curve.csv`
    """
    import minsep
    from minsep.core import validation as validate

    files = Files(output=output, force=force)
    validate.all_of(
        lambda: validate.integer(points=points, at_least=2, at_most=100_000),
        lambda: _check_suffix(output),
        *files.checks(),
    )
    one = minsep.Certificate.load(certificate)
    found = _found(one, points)
    as_json = json or (output is not None and output.suffix == ".json")
    text = json_module.dumps(found, indent=2, allow_nan=False) + "\n" if as_json else _csv(found["curve"])
    files.write("output", lambda path: write_whole(path, text.encode()))
    if output is None:
        print(text, end="")
    elif json:
        print_json({"output": str(output)} if files.rows() else {})
    else:
        print_table(f"Curve of {certificate}", {"Points": f"{points:,}", **files.rows()})
    say(
        "Every delta is an upper bound, and includes the chance of an error. In Python, "
        f'minsep.Certificate.load("{certificate}").curve.privacy_loss_distribution() is a PrivacyLossDistribution of '
        f"dp_accounting; add the chance of an error, {one.curve.chance:.3g}, to what comes out, once.",
        to_error=json or output is None,
    )
    files.finish()


def _check_suffix(output: Path | None) -> None:
    if output is not None and output.suffix not in (".csv", ".json"):
        raise ValueError(f"output is {str(output)!r}, but its name must end with .csv or .json.")


def _found(certificate: Any, points: int) -> dict[str, Any]:
    curve = certificate.curve
    epsilons = [_LARGEST * certificate.epsilon * place / (points - 1) for place in range(points)]
    rows = [(epsilon, curve.delta(epsilon, "remove"), curve.delta(epsilon, "add")) for epsilon in epsilons]
    return {
        "unit": certificate.unit,
        "adjacency": certificate.adjacency,
        "chance_of_an_error": curve.chance,
        "curve": [dict(zip(_COLUMNS, row, strict=True)) for row in rows],
    }


def _csv(rows: list[dict[str, float]]) -> str:
    lines = [",".join(_COLUMNS), *(",".join(repr(row[name]) for name in _COLUMNS) for row in rows)]
    return "\n".join(lines) + "\n"
