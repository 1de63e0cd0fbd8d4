"""Real processes: a server that is killed, many connections, and the command itself."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import minsep
from minsep.serve.store import Store
from minsep.serve.workers import Send, messages
from tests.serve.conftest import TINY, Served, serving
from tests.serve.conftest import run as run_apart


def counting(send: Send, last: int) -> None:
    for number in range(last):
        send({"kind": "number", "number": number})


def failing(send: Send) -> None:
    raise ValueError("delta is 2, but it must be less.")


def sleeping(send: Send, path: str) -> None:
    send({"kind": "began"})
    time.sleep(3)
    Path(path).write_text("not ended")


def test_work_in_a_process_of_its_own(tmp_path):
    async def whole() -> None:
        assert [message["number"] async for message in messages(counting, 3)] == [0, 1, 2]
        told = [message async for message in messages(failing)]
        assert told == [{"kind": "problem", "problem": "delta is 2, but it must be less."}]
        work = messages(sleeping, str(tmp_path / "late"))
        assert await anext(work) == {"kind": "began"}
        await work.aclose()
        await asyncio.sleep(4)
        assert not (tmp_path / "late").exists()

    run_apart(whole())


def test_two_hundred_connections(served: Served) -> None:
    async def whole() -> None:
        options = {"base_url": served.address, "headers": served.headers, "timeout": 90}
        async with httpx.AsyncClient(**options, limits=httpx.Limits(max_connections=200)) as page:
            answers = await asyncio.gather(*(page.get("/") for _ in range(200)))
            assert {answer.status_code for answer in answers} == {200}
        with socket.create_connection(served.address.removeprefix("http://").split(":")) as raw:
            raw.sendall(b"\x16\x03\x01 not a request\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 400")
        async with httpx.AsyncClient(**options) as page:
            assert (await page.get("/api/form")).status_code == 200

    run_apart(whole())


def state_of(server: Served) -> str:
    (run,) = httpx.get(f"{server.address}/api/runs", headers=server.headers, timeout=60).json()
    return str(run["state"])


@pytest.mark.slow
def test_a_run_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    """It ends in the certificate of its seed, as if nothing had happened."""
    inputs = TINY | {"max_bands": "8", "iterations": "200"}
    with serving(tmp_path / "runs") as server:
        body = json.dumps({"inputs": inputs})
        run = httpx.post(f"{server.address}/api/runs", headers=server.headers, content=body, timeout=60).json()["id"]
        while not (tmp_path / "runs" / run / "journal").exists():
            time.sleep(0.05)
        assert state_of(server) == "running"
        server.kill()
    with serving(tmp_path / "runs") as server:
        while state_of(server) in ("queued", "running"):
            time.sleep(0.5)
        assert state_of(server) == "certified"
    store = Store(tmp_path / "runs")
    made = store.runs()[0]
    found = minsep.plan(**made.inputs.options, seed=made.seed).certificate
    saved = minsep.Certificate.load(tmp_path / "runs" / run / "certificate.json")
    assert saved.proofs == found.proofs
    assert minsep.verify(saved).holds
    store.close()


def refused(*options: str) -> str:
    command = [sys.executable, "-m", "minsep", "serve", "--no-browser", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    return done.stderr


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert "another `minsep serve` uses it" in refused("--port", "0", "--folder", str(tmp_path))
    store.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = refused("--port", str(port), "--folder", str(tmp_path))
    assert f"Error: port is {port}, but it cannot be used" in words
    assert "port is 99999, but it must be an integer of at least 0 and at most 65,535." in refused("--port", "99999")
