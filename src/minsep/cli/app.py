"""The commands, and what becomes of their errors."""

import functools
import sys
from collections.abc import Callable

import typer

from minsep.cli.batches import batches
from minsep.cli.bound import bound
from minsep.cli.certify import calibrate, certify, delta, epsilon, verify
from minsep.cli.compare import compare
from minsep.cli.plan import plan
from minsep.cli.strategy import strategy

BAD_INPUT, INTERRUPTED = 2, 130

app = typer.Typer(
    help="Differentially private training: correlated noise, b-min-sep batches, and a certificate for both.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """Let Ctrl-C end a command with a sentence that says what was under way."""

    @functools.wraps(command)
    def stopping(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as stop:
            under_way = "".join(f" while {note}" for note in getattr(stop, "__notes__", []))
            print(f"Stopped{under_way}. Nothing was written.", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None

    return stopping


for command in (plan, calibrate, certify, verify, delta, epsilon, compare, strategy, batches, bound):
    app.command()(stoppable(command))


def main() -> None:
    """Run the command line: exit 0 on success, 2 on bad input with a sentence for everything that must change."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        for sentence in str(error).splitlines():
            print(f"Error: {sentence}", file=sys.stderr)
        sys.exit(BAD_INPUT)
