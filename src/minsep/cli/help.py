"""The help of a command: a panel for each group of options, what is required first, and no break inside a word."""

import inspect
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from minsep.core.question import Question
from minsep.planning.request import BUDGET, SEARCH, TASK

MECHANISM, WORK, OUTPUT = "The mechanism", "The work", "The output"
_ARGUMENTS, _OPTIONS, _HELP = "Arguments", "Options", "Help"
_PANELS = (_ARGUMENTS, _OPTIONS, TASK, MECHANISM, BUDGET, SEARCH, WORK, OUTPUT, _HELP)
_WORDS = {int: "INTEGER", float: "NUMBER", str: "WORD", Path: "FILE"}
_AROUND = 7  # columns that a panel and its table need beside their text


def word_of(kind: Any) -> str | None:
    """Return the word for what an option takes; None if it is a switch.

    >>> word_of(int | None), word_of(list[Path]), word_of(bool), word_of(Literal["csv", "npz"])
    ('INTEGER', 'FILE', None, '[csv|npz]')
    """
    if get_origin(kind) is Literal:
        return f"[{'|'.join(get_args(kind))}]"
    if get_origin(kind) in (Union, UnionType, list):
        return next((word for part in get_args(kind) if (word := word_of(part)) is not None), None)
    return _WORDS.get(kind)


class Command(TyperCommand):
    """A command with such a help."""

    choices: Mapping[str, Callable[[], tuple[str, ...]]] = {}
    """The choices of parameters by name: looked up when help is shown, because that takes half a second."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _print_help(self, ctx, {name: of() for name, of in self.choices.items()})


class Group(TyperGroup):
    """All commands, with such a help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        console = _print_help(self, ctx, {}, "COMMAND", "[ARGS]...")
        names = self.list_commands(ctx)
        rows = [(name, _prose(_paragraphs(self.get_command(ctx, name))[0])) for name in names]
        _print_panel(console, "Commands", rows, max(map(len, names)))


def choices_of(questions: Mapping[str, Question]) -> dict[str, Callable[[], tuple[str, ...]]]:
    """Return the choices of the questions that have some."""
    return {question.asked_as or field: question.choices for field, question in questions.items() if question.choices}


def _print_help(command: Any, ctx: Any, choices: Mapping[str, tuple[str, ...]], *commands: str) -> Console:
    console = Console(highlight=False)
    arguments = [_left(one) for one in command.get_params(ctx) if one.param_type_name == "argument"]
    usage = " ".join([ctx.command_path, "[OPTIONS]", *arguments, *commands])
    console.print(Text.assemble("\n", ("Usage: ", "yellow"), (usage, "bold")))
    for paragraph in _paragraphs(command):
        console.print(Text("\n") + _prose(paragraph))
    console.print()
    panels: dict[str, list[Any]] = {}
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            panels.setdefault(_panel(parameter), []).append(parameter)
    left = max(len(_left(one)) for some in panels.values() for one in some)
    width = console.width - left - _AROUND
    for name in sorted(panels, key=_PANELS.index):
        required_first = sorted(panels[name], key=lambda one: not one.required)
        rows = [(_left(one), _right(one, choices.get(one.name, ()), width)) for one in required_first]
        _print_panel(console, name, rows, left)
    return console


def _print_panel(console: Console, title: str, rows: list[tuple[str, Text]], left: int) -> None:
    table = Table(show_header=False, box=None, padding=(0, 1), expand=True)
    table.add_column(style="bold cyan", width=left)
    table.add_column(ratio=1)
    for row in rows:
        table.add_row(*row)
    console.print(Panel(table, title=title, title_align="left", border_style="dim", padding=0))


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(command.help or "").split("\n\n")]


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _ARGUMENTS
    return getattr(parameter, "rich_help_panel", None) or (_HELP if parameter.is_eager else _OPTIONS)


def _left(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"{parameter.metavar}{'...' if parameter.nargs != 1 else ''}"
    longest_first = ", ".join(sorted(parameter.opts, key=len, reverse=True))
    names = " / ".join([longest_first, *parameter.secondary_opts])
    word = parameter.metavar or ""
    return f"{names} {'WORD' if word.startswith('[') else word}".strip()


def _right(parameter: Any, choices: tuple[str, ...], width: int) -> Text:
    right = _prose(parameter.help or "")
    listed = f"[{'|'.join(choices)}]" if choices else parameter.metavar or ""
    if listed.startswith("["):
        lines = textwrap.wrap(listed.replace("|", "| "), max(width, 1), break_on_hyphens=False)
        right.append("\n" + "\n".join(line.replace("| ", "|") for line in lines), "yellow")
    if parameter.required:
        right.append(" [required]", "red")
    default = _default(parameter)
    return right.append(f" [default: {default}]", "dim") if default else right


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required or not parameter.show_default or value is None or isinstance(value, list | tuple):
        return ""
    if isinstance(value, bool):
        return parameter.opts[0] if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _prose(text: str) -> Text:
    """Return a text in which what stands between backticks is code."""
    prose = Text()
    for place, part in enumerate(text.split("`")):
        prose.append(part, "bold" if place % 2 else "")
    return prose
