"""`minsep statement`: what certificates say, for a model card, a reviewer or a lawyer."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from minsep.cli.help import OUTPUT
from minsep.cli.numbers import number
from minsep.cli.options import Force, Workers, command
from minsep.cli.output import Files, print_table, say
from minsep.cli.progress import Bar


@command
def statement(
    certificates: Annotated[
        list[Path], typer.Argument(help="A certificate, or those of several runs on the same data.")
    ],
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

    Example: `minsep statement certificate.json -o statement.html`, or `minsep statement certificate.json --format
    model-card`
    """
    import minsep
    from minsep.core import validation as validate

    files = Files(output=output, force=force)
    validate.all_of(*files.checks())
    chosen = _chosen(format, output)
    with Bar("verifying and estimating"):
        result = minsep.statement(
            *certificates,
            model=model,
            data=data,
            delta=delta,
            adjacency=adjacency,
            accept_other_num_examples=accept_other_num_examples,
            verify=not no_verify,
            estimate=not no_estimate,
            compute=minsep.Compute(workers=workers),
        )
    if output is None:
        print(result.text(chosen), end="")
        return
    files.write("output", lambda path: result.save(path, chosen))
    print_table("Statement", {"Runs": f"{len(result.runs)}", **files.rows()})
    say(result.summary)
    files.finish()


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
