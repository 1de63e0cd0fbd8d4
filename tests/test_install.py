import sys
from pathlib import Path

import pytest

from minsep.core import install


@pytest.fixture
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.shutil, "which", lambda name: str(Path(sys.executable).parent / name))


@pytest.mark.usefixtures("on_the_path")
def test_the_command_is_for_a_clone_or_an_installed_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "pyproject.toml").touch()
    monkeypatch.setattr(install, "_ROOT", tmp_path / "clone")
    monkeypatch.chdir(tmp_path / "clone")
    assert install.install_command("torch") == "pip install -e '.[torch]'"
    monkeypatch.chdir(tmp_path)
    assert install.install_command("torch") == f"pip install -e '{tmp_path / 'clone'}[torch]'"
    monkeypatch.setattr(install, "_ROOT", tmp_path / "site-packages")
    assert install.install_command("web") == "pip install 'minsep[web]'"


def test_pip_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    monkeypatch.setattr(install, "_ROOT", tmp_path)
    monkeypatch.setattr(install.sys, "executable", str(python))
    monkeypatch.setattr(install.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.chdir(tmp_path)
    assert install.install_command("torch") == f"{Path('.venv/bin/python')} -m pip install 'minsep[torch]'"
    (tmp_path / "pyproject.toml").touch()
    assert install.install_command("torch") == f"{Path('.venv/bin/python')} -m pip install -e '.[torch]'"


def test_no_other_file_says_how_to_install() -> None:
    source = Path(install.__file__).parents[1]
    assert [path.name for path in source.rglob("*.py") if "pip install" in path.read_text()] == []
