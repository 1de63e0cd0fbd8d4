"""The commands, and what becomes of their errors."""

import sys

import typer

from minsep.cli.batches import batches
from minsep.cli.certify import calibrate, certify, delta, epsilon, verify
from minsep.cli.strategy import strategy

BAD_INPUT = 2

app = typer.Typer(
    help="Differentially private training: correlated noise, b-min-sep batches, and a certificate for both.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for command in (calibrate, certify, verify, delta, epsilon, strategy, batches):
    app.command()(command)


def main() -> None:
    """Run the command line: exit 0 on success, 2 on bad input with one sentence that says what to change."""
    try:
        app()
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
