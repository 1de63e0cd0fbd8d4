import pytest


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path, monkeypatch):
    """Commands keep certificates in the working directory."""
    monkeypatch.chdir(tmp_path)
