"""Ctrl-C at moments that are hard to hit from outside."""

import subprocess
import sys

import pytest

INTERRUPT = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"

PLAIN = f"{INTERRUPT}; import time; time.sleep(60)"
IN_EXEC = f"exec({PLAIN!r})"
IN_A_FINALISER = f"""
class Finalised:
    def __del__(self):
        {INTERRUPT}
        import time; time.sleep(60)
Finalised()
import time; time.sleep(60)
"""
IN_A_CALLBACK_OF_C = f"""
import ctypes, time
ctypes.CFUNCTYPE(None)(lambda: exec({PLAIN!r}))()
time.sleep(60)
"""
LEFT_HALF_MADE = f"""
class HalfMade:
    def __init__(self):
        {PLAIN}
        self.handle = 1
    def __del__(self):
        del self.handle
HalfMade()
"""
TURNED_INTO_ANOTHER_ERROR = f"""
try:
    {PLAIN}
finally:
    raise RuntimeError("no compiled object yet")
"""


def ending(folder, body, before=""):
    """Run a command line whose only command is `body`."""
    script = f"""
import typer
from minsep.cli.app import stoppable
from minsep.cli.progress import Bar

{before}

def command():
    with Bar() as bar:
        bar.show("working")
        exec(compile({body!r}, "body", "exec"))
        print("done")

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(stoppable(command))
app()
"""
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (folder / "stopped.py").write_text(start + script)
    command = [sys.executable, "-m", "stopped"]  # as a module, like minsep: Python's last steps differ for -c
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50)


@pytest.mark.parametrize(
    "body",
    [PLAIN, IN_EXEC, IN_A_FINALISER, IN_A_CALLBACK_OF_C, LEFT_HALF_MADE, TURNED_INTO_ANOTHER_ERROR],
    ids=["plain", "exec", "finaliser", "callback", "half made", "another error"],
)
def test_a_stop_has_one_status_and_one_sentence(tmp_path, body):
    result = ending(tmp_path, body)
    assert result.returncode == 130
    assert result.stderr.strip() == "Stopped while working. Nothing was written."


def test_an_error_without_ctrl_c_stays_an_error(tmp_path):
    result = ending(tmp_path, "raise RuntimeError('a bug')")
    assert result.returncode == 1
    assert "a bug" in result.stderr
    assert "Stopped" not in result.stderr


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    result = ending(tmp_path, INTERRUPT, before=ignoring)
    assert result.returncode == 0
    assert result.stdout.strip() == "done"


@pytest.mark.parametrize(
    ("begun", "sentence"),
    [(True, "a.journal holds what was done: the same command goes on."), (False, "Nothing was written.")],
)
def test_a_command_with_a_journal_says_that_it_goes_on(tmp_path, begun, sentence):
    script = f"""
import signal
import typer
from minsep.cli.app import stoppable

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job ignores

def command(journal: str = "a.journal"):
    {PLAIN}

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(stoppable(command))
app()
"""
    if begun:
        (tmp_path / "a.journal").touch()
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == f"Stopped. {sentence}\n"
