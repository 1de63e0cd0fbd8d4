"""Real processes: a server that is killed, many connections, and the command itself."""

import asyncio
import json
import os
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
from tests.cli.command_line import run
from tests.serve.conftest import TINY, Served, serving
from tests.serve.conftest import run as run_apart


def test_workers_can_warm_up_before_the_server_is_loaded() -> None:
    code = """
import sys, minsep.cli.app
from minsep.serve.workers import begin_warming
begin_warming()
assert not {"minsep.serve.server", "minsep.planning.planner"} & set(sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr


def counting(send: Send, last: int) -> None:
    for number in range(last):
        send({"kind": "number", "number": number})


def failing(send: Send) -> None:
    raise ValueError("delta is 2, but it must be less.")


def sleeping(send: Send) -> None:
    send({"kind": "began", "process": os.getpid()})
    time.sleep(600)


def ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_work_in_a_process_of_its_own():
    async def whole() -> None:
        assert [message["number"] async for message in messages(counting, 3)] == [0, 1, 2]
        told = [message async for message in messages(failing)]
        assert told == [{"kind": "problem", "problem": "delta is 2, but it must be less."}]
        work = messages(sleeping)
        process = (await anext(work))["process"]
        assert process != os.getpid()
        await work.aclose()
        while not ended(process):
            await asyncio.sleep(0.01)

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
    found = minsep.plan(**made.request.fields, seed=made.seed).certificate
    saved = minsep.Certificate.load(tmp_path / "runs" / run / "certificate.json")
    assert saved.proofs == found.proofs
    assert minsep.verify(saved).holds
    store.close()


def refused(*options: str) -> str:
    done = run("serve", "--no-browser", *options)
    assert done.returncode == 2
    return done.stderr


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert "another `minsep serve` uses it" in refused("--port", "0", "--folder", str(tmp_path))
    store.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = refused("--port", str(port), "--folder", str(tmp_path))
    assert f"Error: --port is {port}, but it cannot be used" in words
    assert "--port is 99999, but it must be an integer of at least 0 and at most 65,535." in refused("--port", "99999")
