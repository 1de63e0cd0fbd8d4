"""`minsep statement`: what certificates and ledgers say, for a model card, a reviewer or a lawyer."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from minsep.cli.help import OUTPUT
from minsep.cli.numbers import number
from minsep.cli.options import Force, Workers, command
from minsep.cli.output import Files, print_table, say
from minsep.cli.progress import Bar
from minsep.core.files import write_whole


@command
def statement(
    certificates: Annotated[
        list[Path],
        typer.Argument(help="A certificate, or those of several runs on the same data; or a ledger."),
    ],
    booked_in: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="Say in which entries of this ledger the runs are booked. A run that is not booked is refused.",
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="The name of the model, for the title.", metavar="TEXT")] = "",
    data: Annotated[str, typer.Option(help="What it was trained on, in words.", metavar="TEXT")] = "",
    delta: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="Delta of several runs together (default: their sum)."),
    ] = None,
    adjacency: Annotated[
        Literal["zero-out", "replace-one", "add-or-remove"],
        typer.Option(
            help="Which datasets it is about: zero-out is what certificates prove; replace-one and add-or-remove add "
            "what that means for datasets that differ so."
        ),
    ] = "zero-out",
    format: Annotated[
        Literal["markdown", "html", "json", "registry", "model-card"] | None,
        typer.Option(
            help="The format (default: that of the output's name, or markdown). registry is an entry for the OpenDP "
            "deployments registry, model-card a block for a README on Hugging Face.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file: .md, .html, .json or .yaml.", rich_help_panel=OUTPUT),
    ] = None,
    force: Force = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not verify the certificates; the statement says so.")
    ] = False,
    no_estimate: Annotated[
        bool, typer.Option("--no-estimate", help="Leave out the estimate of what the best attacker can do.")
    ] = False,
    accept_other_num_examples: Annotated[
        bool,
        typer.Option(
            "--accept-other-examples", help="Compose certificates that were made for different numbers of examples."
        ),
    ] = False,
    workers: Workers = None,
) -> None:
    """State what certificates guarantee: to whom, against whom, under which assumptions, and what is not covered.

    Of a ledger: what it lists, what all of it guarantees together, and what is left.

    Example: `minsep statement certificate.json -o statement.html`, `minsep statement certificate.json --format
    model-card`, or `minsep statement budget.json` for a ledger
    """
    import minsep
    from minsep.core import validation as validate
    from minsep.ledger import is_ledger

    files = Files(output=output, force=force)
    ledgers = [path for path in certificates if is_ledger(path)]
    for_certificates = {"booked_in": booked_in and str(booked_in), "model": model, "data": data, "delta": delta}
    for_certificates |= {"accept_other_num_examples": accept_other_num_examples}
    validate.all_of(*files.checks(), lambda: _check_alone(ledgers, certificates, for_certificates))
    chosen = _chosen(format, output)
    verify, compute = not no_verify, minsep.Compute(workers=workers)
    result: Any
    with Bar("verifying and estimating"):
        if ledgers:
            result = minsep.ledger_statement(ledgers[0], adjacency=adjacency, verify=verify, compute=compute)
        else:
            result = minsep.statement(
                *certificates,
                model=model,
                data=data,
                delta=delta,
                adjacency=adjacency,
                accept_other_num_examples=accept_other_num_examples,
                ledger=booked_in,
                verify=verify,
                estimate=not no_estimate,
                compute=compute,
            )
        text = result.text(chosen)
    if output is None:
        print(text, end="")
        return
    files.write("output", lambda path: write_whole(path, text.encode()))
    counted = {"Entries": f"{len(result.balance.entries)}"} if ledgers else {"Runs": f"{len(result.runs)}"}
    print_table("Statement", {**counted, **files.rows()})
    say(result.summary)
    files.finish()


def _check_alone(ledgers: list[Path], paths: list[Path], options: dict[str, Any]) -> None:
    """Refuse a ledger beside anything that is about certificates."""
    if not ledgers:
        return
    if len(paths) > 1:
        raise ValueError(
            f"certificates has the ledger {str(ledgers[0])!r} and others: state a ledger alone, or name it by --ledger "
            "to say where certificates are booked."
        )
    for name, value in options.items():
        if value:
            raise ValueError(f"{name} is {value!r}, but {str(ledgers[0])!r} is a ledger: omit it.")


def _chosen(format: str | None, output: Path | None) -> str:
    """Return the format, which must be that of the output's name if both are given."""
    from minsep.show.statements import SUFFIXES, format_of

    if output is None:
        return format or "markdown"
    if format is None and output.suffix in SUFFIXES.values():
        return format_of(output.suffix)
    if format is None or output.suffix != SUFFIXES[format]:
        names = "one of .md, .html, .json and .yaml" if format is None else SUFFIXES[format]
        raise ValueError(f"output is {str(output)!r}, but its name must end with {names}.")
    return format
