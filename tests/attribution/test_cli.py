import csv
import json
import sys

import pytest
from typer.testing import CliRunner

from minsep.cli.bound import bound
from minsep.core.install import install_command

EDGES = [["example", "user"], *[[paper, f"a{paper % 3 + k}"] for paper in range(8) for k in range(2)]]


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(EDGES)
    return path


def run(*arguments):
    import typer

    app = typer.Typer()
    app.command()(bound)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_edges_in_and_kept_examples_out(edges, tmp_path):
    kept = tmp_path / "kept.csv"
    result = run(edges, "--user-bound", 2, "--duplicates", "-o", kept, "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    with open(kept, newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["example"]
    assert len(rows) - 1 == summary["examples_kept"] > 0
    used = {}
    for (paper,) in rows[1:]:
        for author in (a for p, a in EDGES[1:] if str(p) == paper):
            used[author] = used.get(author, 0) + 1
    assert max(used.values()) == summary["most_examples_of_a_user"] <= 2
    assert summary["examples_before"] == 8
    again = tmp_path / "again.csv"
    assert run(edges, "--user-bound", 2, "--duplicates", "-o", again).exit_code == 0
    assert again.read_text() == kept.read_text()


def test_a_table_for_people(edges):
    result = run(edges, "--user-bound", 1, "--neighbourhood-bound", 1)
    assert result.exit_code == 0
    assert "Examples kept" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--user-bound", 0], "user_bound is 0"),
        (["--user-bound", 1, "-o", "kept.txt"], "must end in .csv or .parquet"),
        (["--user-bound", 1, "-o", "nowhere/kept.csv"], "does not exist"),
    ],
)
def test_bad_input_is_refused(edges, arguments, message):
    result = run(edges, *arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)


def test_parquet_without_pyarrow_is_refused(edges, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run(edges, "--user-bound", 1, "-o", "kept.parquet")
    assert f"{install_command('parquet')}, or use .csv" in str(result.exception)
