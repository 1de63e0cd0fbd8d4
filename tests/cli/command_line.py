"""The command line in this process: what `python -m minsep` would print and return, without starting Python."""

import contextlib
import io
import os
import sys
from typing import NamedTuple
from unittest import mock

from minsep.cli.app import main

# Tables and bars are as wide as the terminal is.
WIDE = {"COLUMNS": "120"}


class Outcome(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Outcome:
    """Run a command."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, WIDE),
        mock.patch.object(sys, "argv", ["minsep", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Outcome(code, out.getvalue(), err.getvalue())
