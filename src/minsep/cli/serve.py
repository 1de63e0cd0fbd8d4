"""`minsep serve`: a page on this machine to explore plans and to certify them."""

from pathlib import Path
from typing import Annotated

import typer

from minsep.cli.help import WORK
from minsep.cli.options import Workers, command


@command
def serve(
    port: Annotated[int, typer.Option(help="Port on the loopback address; 0 is any that is free.")] = 8765,
    folder: Annotated[Path, typer.Option(help="Folder that keeps the runs.", metavar="FOLDER")] = Path("minsep-runs"),
    ledger: Annotated[
        Path | None, typer.Option(help="Show the budget of this ledger, and plan with what is left of it.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Also answer to this name, as a proxy on this machine passes it on: plans.example.org; may be given "
            "several times.",
            rich_help_panel=WORK,
        ),
    ] = None,
    workers: Workers = None,
) -> None:
    """Open a page to try numbers until they make sense, and to certify plans. It answers to this machine alone.

    Example: `minsep serve --folder plans --no-browser`, or `minsep serve --ledger budget.json`
    """
    from minsep.core import validation as validate

    validate.all_of(
        lambda: validate.integer(port=port, at_least=0, at_most=65_535),
        lambda: workers is None or validate.integer(workers=workers, at_least=1),
        lambda: _check_web(),
    )
    from minsep.serve.workers import begin_warming

    begin_warming()  # while the server itself is loaded
    from minsep.serve.server import run

    run(port, folder, browser, tuple(allow_host or ()), workers, ledger)


def _check_web() -> None:
    from importlib.util import find_spec

    from minsep.core.install import install_command

    for package in ("starlette", "uvicorn", "plotly"):
        if find_spec(package) is None:
            raise ValueError(f"minsep serve needs {package}: {install_command('web')}")
