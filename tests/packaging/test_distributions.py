"""What is shipped: the package with its types and assets, and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys, hatchling.build as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def built(kind, folder):
    command = [sys.executable, "-c", BUILD, kind, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    with zipfile.ZipFile(built("build_wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with tarfile.open(built("build_sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        yield archive


def test_the_wheel_has_the_whole_package_and_nothing_else(wheel):
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    here = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/minsep").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".nbi", ".nbc")
    }
    assert shipped == here
    assert "minsep/py.typed" in shipped


def test_the_wheel_names_its_licence_and_its_command(wheel):
    names = wheel.namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "minsep = minsep.cli:main" in wheel.read(entry).decode()


def test_the_source_archive_has_no_tests_and_no_workplace(source):
    tops = {name.split("/")[1] for name in source.getnames() if "/" in name}
    documents = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"}
    assert tops <= documents | {"src", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert {"src", "LICENSE", "pyproject.toml"} <= tops


@pytest.mark.slow
def test_the_wheel_installs_in_an_empty_environment_and_plans(tmp_path):
    wheel = built("build_wheel", tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv/bin"
    subprocess.run([programs / "pip", "install", "--quiet", wheel], check=True)
    numbers = {"examples": 1000, "batch-size": 50, "iterations": 50, "epsilon": 4, "delta": 1e-3}
    small = ["plan", *(f"--{name}={value}" for name, value in numbers.items()), "--output=certificate.json"]
    subprocess.run([programs / "minsep", *small], cwd=tmp_path, check=True)
    subprocess.run([programs / "minsep", "verify", "certificate.json"], cwd=tmp_path, check=True)
