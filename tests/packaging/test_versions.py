"""Versions agree wherever they are written, and lower bounds are those that are tested."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {PROJECT['version']} (" in (ROOT / "CHANGELOG.md").read_text()


def test_lower_bounds_are_the_versions_that_are_tested():
    tested = dict(
        line.split("==") for line in (ROOT / "constraints-lowest.txt").read_text().splitlines() if "==" in line
    )
    extras = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *extras["report"], *extras["parquet"]]
    required = dict(re.findall(r"([\w-]+)>=([\d.]+)", "\n".join(named)))
    assert tested.keys() - required.keys() == {"click", "pyparsing"}  # of typer and matplotlib
    assert required.keys() <= tested.keys()
    for name, bound in required.items():
        parts = bound.split(".")
        assert tested[name].split(".")[: len(parts)] == parts, name


def test_the_workflow_tests_every_supported_version():
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    assert all(f'"3.{minor}"' in workflow for minor in (11, 12, 13, 14))
    assert "make test\n" in workflow
