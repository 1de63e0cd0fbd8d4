"""The command lines of every page: each command exists with all its options, and the quick ones run."""

import importlib.util
import re
import shlex
import tomllib

import pytest
import typer
import typer.testing

from minsep.cli.app import app
from tests.docs.pages import PAGES, ROOT, blocks, name_of
from tests.docs.test_snippets import prepare

QUICK = ("batches", "compose", "export", "ledger", "statement", "strategy", "verify")
"""Commands that take a second or two on the certificates of `prepare`."""


def commands(page):
    """Return the words of every command line of a page."""
    for block in blocks(page, "sh", "bash"):
        for line in block.code.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


ALL = [(name_of(page), words) for page in PAGES for words in commands(page)]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def identifier(words):
    return " ".join(words)[:60]


@pytest.mark.parametrize(("page", "words"), ALL, ids=[f"{page}: {identifier(words)}" for page, words in ALL])
def test_a_command_is_one_that_exists(page, words):
    program, *rest = words
    if program == "minsep":
        parse(rest)
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]) is not None
    elif words[:2] == ["pip", "install"]:
        assert set(re.findall(r"\[(\w+)\]", " ".join(rest))) <= set(EXTRAS)
    elif program == "source":
        assert rest == [".venv/bin/activate"]
    elif program == "dask":
        assert importlib.util.find_spec(f"distributed.cli.dask_{rest[0]}") is not None
    else:
        pytest.fail(f"{page} has a command that no test knows: {program}")


def parse(words):
    command = typer.main.get_command(app)
    context = command.make_context("minsep", [words[0], "--help"], resilient_parsing=True)
    chosen = command.get_command(context, words[0])
    assert chosen is not None, f"there is no command {words[0]}"
    chosen.make_context(words[0], list(words[1:]), parent=context)


def test_an_option_that_does_not_exist_is_found():
    with pytest.raises(Exception, match="No such option"):
        parse(["verify", "certificate.json", "--sometimes"])


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(words[1] in QUICK for words in commands(page))], ids=name_of
)
def test_quick_commands_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare(name_of(page))
    for words in commands(page):
        if words[0] == "minsep" and words[1] in QUICK:
            result = typer.testing.CliRunner().invoke(app, words[1:])
            assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
