"""The commands, and how their errors are reported."""

import functools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from minsep.cli.audit import audit
from minsep.cli.batches import batches
from minsep.cli.bound import bound
from minsep.cli.certify import calibrate, certify, delta, epsilon, verify
from minsep.cli.compare import compare
from minsep.cli.compose import compose
from minsep.cli.export import export
from minsep.cli.help import Group
from minsep.cli.ledger import ledger
from minsep.cli.options import Offering, in_flags
from minsep.cli.output import say
from minsep.cli.plan import plan
from minsep.cli.serve import serve
from minsep.cli.statement import statement
from minsep.cli.strategy import strategy
from minsep.cli.tune import tune
from minsep.core.budget import LargeDeltaWarning

BAD_INPUT, INTERRUPTED = 2, 130
SOON = 0.05

app = typer.Typer(
    cls=Group,
    context_settings={"help_option_names": ["--help", "-h"]},
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; a separate class, because Python kills itself at exit if a plain KeyboardInterrupt passes `exec`."""


def stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """Let Ctrl-C end a command with a sentence that says what it was doing."""

    @functools.wraps(command)
    def stopping(*arguments: object, **options: object) -> None:
        interrupted = False

        def interrupt(*_: object) -> None:
            nonlocal interrupted
            interrupted = True
            raise Interrupted

        def unraisable(what: "sys.UnraisableHookArgs") -> None:
            if not interrupted:
                previous_hook(what)
            elif isinstance(what.exc_value, Interrupted):
                # It was raised where no exception can propagate, in a finaliser or a C callback: send it again.
                threading.Timer(SOON, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()

        previous_hook, sys.unraisablehook = sys.unraisablehook, unraisable
        inherited = signal.getsignal(signal.SIGINT)
        if inherited is signal.default_int_handler:  # not ignored, as in a background job of a shell
            signal.signal(signal.SIGINT, interrupt)
        try:
            command(*arguments, **options)
        except typer.Exit:
            raise
        except BaseException as error:  # an interrupted compiler raises its own errors
            if not interrupted:
                raise
            under_way = "".join(f" while {note}" for note in getattr(error, "__notes__", []))
            journal = options.get("journal")
            written = (
                f"{journal} holds what was done: the same command goes on."
                if isinstance(journal, str | os.PathLike) and os.path.exists(journal)
                else "Nothing was written."
            )
            say(f"Stopped{under_way}. {written}", to_error=True)
            raise typer.Exit(INTERRUPTED) from None
        finally:
            signal.signal(signal.SIGINT, inherited)
            if not interrupted:  # otherwise unfinished objects are still to be finalised
                sys.unraisablehook = previous_hook

    return stopping


def _in_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Let errors and warnings name the flags of a command instead of its parameters."""

    @functools.wraps(command)
    def naming(*arguments: object, **options: object) -> None:
        shown_before = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, LargeDeltaWarning):
                print(f"Warning: {in_flags(str(message), command)}", file=sys.stderr)
            else:
                shown_before(message, category, *place, **more)

        with warnings.catch_warnings():
            setattr(warnings, "showwarning", show)  # noqa: B010 # mypy knows more of its parameters than matters
            warnings.simplefilter("default", LargeDeltaWarning)
            try:
                command(*arguments, **options)
            except ValueError as error:
                raise ValueError(in_flags(str(error), command)) from error

    return naming


def _print_version(requested: bool) -> None:
    if requested:
        from minsep import __version__

        print(f"minsep {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Differentially private training: correlated noise, b-min-sep batches, and a certificate for both."""


COMMANDS = (
    plan,
    calibrate,
    certify,
    verify,
    compose,
    tune,
    delta,
    epsilon,
    compare,
    strategy,
    batches,
    bound,
    statement,
    export,
    ledger,
    audit,
    serve,
)

for command in COMMANDS:
    app.command(cls=Offering)(stoppable(_in_flags(command)))


def main() -> None:
    """Run the command line: exit 0 on success, and 2 on bad input, with one sentence per problem."""
    try:
        app()
    except OSError as error:
        named = error.filename is not None and error.strerror
        problem = f"The file {os.fspath(error.filename)!r} cannot be used: {error.strerror}." if named else str(error)
        for sentence in problem.splitlines():
            print(f"Error: {sentence}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except (ValueError, ImportError) as error:
        for sentence in str(error).splitlines():
            say(f"Error: {sentence}", to_error=True)
        sys.exit(BAD_INPUT)
    except ArithmeticError as error:
        say(f"Error: These numbers are too large or too small to compute with: {error}.", to_error=True)
        sys.exit(BAD_INPUT)
    except MemoryError as error:
        say(f"Error: There is not enough memory for these numbers: {error or 'choose smaller ones'}.", to_error=True)
        sys.exit(BAD_INPUT)
