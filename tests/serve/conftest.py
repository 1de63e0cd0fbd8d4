"""One server for all tests of the page, as `minsep serve` starts it."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TINY = {
    "examples": "1000",
    "batch_size": "50",
    "iterations": "50",
    "epsilon": "4",
    "delta": "1e-3",
    "max_bands": "4",
    "schemes": "poisson,cyclic-poisson,min-sep",
}


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread of its own: Playwright keeps an event loop running in that of the tests."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, coroutine).result()


@dataclass(frozen=True)
class Served:
    """A running server: its link, its token and its folder."""

    link: str
    folder: Path
    process: "subprocess.Popen[str]"

    @property
    def address(self) -> str:
        return self.link.partition("/?")[0]

    @property
    def token(self) -> str:
        return self.link.partition("token=")[2]

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def kill(self) -> None:
        """End the server as a power cut does."""
        self.process.kill()
        self.process.wait(10)


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "minsep", "serve", "--no-browser", "--port", "0", "--workers", "1"]
    process = subprocess.Popen(
        [*command, "--folder", str(folder), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        link = next((found[0] for line in process.stdout if (found := re.search(r"http://\S+", line))), None)
        assert link is not None, process.stderr and process.stderr.read()
        yield Served(link, folder, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
        assert "Traceback" not in errors, errors


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("serve") / "runs") as server:
        yield server
