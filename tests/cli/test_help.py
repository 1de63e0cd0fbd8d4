"""The help of every command in a terminal of 80 columns."""

import io
import re
import sys

import pytest
import typer.main

from minsep.cli.app import app
from minsep.cli.help import word_of
from minsep.cli.output import say
from minsep.participation import planned
from tests.cli.command_line import run

WIDTH = 80
COMMANDS = typer.main.get_command(app).commands
WORDS = {"INTEGER", "INTEGERS", "NUMBER", "FILE", "FOLDER", "WORD", "TEXT", "ADDRESS"}
PANELS = ["Arguments", "Options", "The task", "The mechanism", "The budget", "The search", "The work", "The output"]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr("tests.cli.command_line.WIDE", {"COLUMNS": str(WIDTH)})


def panels_of(text):
    return re.findall(r"╭─ (.+?) ─+╮", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_has_one_word_for_what_it_takes_and_a_switch_has_none(name):
    text = run(name, "--help").stdout
    assert "<" not in text
    assert max(map(len, text.splitlines())) <= WIDTH
    for option in COMMANDS[name].params:
        if option.param_type_name == "option":
            flags = re.escape(", ".join(sorted(option.opts, key=len, reverse=True)))
            shown = re.search(rf"│ {flags}(?: / --\S+)?(?: ([A-Z]+))?  ", text)
            assert shown, option.name
            assert (shown[1] is None) is option.is_flag, option.name
            assert shown[1] is None or shown[1] in WORDS


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_the_help_is_broken(name):
    shown = set(run(name, "--help").stdout.replace("│", " ").split())
    command = COMMANDS[name]
    said = " ".join([command.help, *(one.help for one in command.params)])
    assert set(said.replace("`", "").split()) <= shown


@pytest.mark.parametrize("name", COMMANDS)
def test_panels_have_an_order_and_what_is_required_comes_first(name):
    text = run(name, "--help").stdout
    *panels, last = panels_of(text)
    assert panels == [panel for panel in PANELS if panel in panels]
    assert last == "Help"
    for panel in text.split("╭─")[1:]:
        options = re.split(r"\n│ (?=--|[A-Z]{2})", panel)[1:]
        required = ["[required]" in option for option in options]
        assert required == sorted(required, reverse=True)


def test_choices_are_listed_and_break_only_between_them():
    text = run("plan", "--help").stdout
    listed = re.search(r"\[poisson\|[^]]+\]", text)
    assert listed
    assert re.sub(r"[│\s]", "", listed[0].replace("|│", "|")) == f"[{'|'.join(planned())}]"
    assert "[constant|linear-decay|cosine]" in text
    assert "[markdown|html|json|registry|model-card]" in re.sub(r"[│\s]", "", run("statement", "--help").stdout)


def test_a_short_flag_asks_for_help_too():
    assert run("-h").stdout == run("--help").stdout
    assert run("plan", "-h").stdout == run("plan", "--help").stdout
    assert "--help, -h" in run("-h").stdout


def test_all_commands_are_listed_with_what_they_are_for():
    text = run("--help").stdout
    assert "minsep [OPTIONS] COMMAND [ARGS]...\n" in text
    assert panels_of(text) == ["Options", "Help", "Commands"]
    for name in COMMANDS:
        assert re.search(rf"│ {name} +[A-Z]", text)


def test_a_word_is_that_of_a_type():
    assert [word_of(kind) for kind in (bool, bool | None, list[float] | None)] == [None, None, "NUMBER"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "lines"), [(Terminal, ["noise-free", "multiplier"]), (io.StringIO, None)])
def test_sentences_break_between_words_in_a_terminal_and_stay_whole_elsewhere(monkeypatch, stream, lines):
    monkeypatch.setenv("COLUMNS", "14")
    monkeypatch.setattr("sys.stderr", stream())
    say("noise-free multiplier", to_error=True)
    assert sys.stderr.getvalue().splitlines() == (lines or ["noise-free multiplier"])


def test_a_wrong_command_points_to_the_long_flag():
    assert "--help' for help" in run("calibrate", "--examples", "10").stderr
