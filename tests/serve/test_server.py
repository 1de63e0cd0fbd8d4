"""The server without a browser: who may talk to it, what it refuses, and what it does with much of it."""

import asyncio
import json
import random
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from minsep.serve import app as routes
from minsep.serve import estimates, jobs
from minsep.serve.inputs import read
from minsep.serve.security import MOST_BYTES
from minsep.serve.store import Store
from tests.serve.conftest import TINY
from tests.serve.conftest import run as run_apart

TOKEN, PORT = "secret-token", 8765
ADDRESS = f"http://127.0.0.1:{PORT}"
WITH_TOKEN = {"authorization": f"Bearer {TOKEN}"}
ANSWER = {"kind": "answer", "certified": True, "statement": "Train.", "table": []}


class Works:
    """Stands for the processes: says what was started and ended, and answers when it is told to."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.go = asyncio.Event()

    async def __call__(self, work: Callable[..., None], *arguments: Any) -> AsyncIterator[dict[str, Any]]:
        self.started.append(work.__name__)
        try:
            yield {"kind": "progress", "detail": "estimating", "share": None, "left": ""}
            await self.go.wait()
            if work is jobs.certify:
                Path(arguments[2], "certificate.json").write_text("{}")
            yield dict(ANSWER)
        finally:
            self.ended.append(work.__name__)


@asynccontextmanager
async def running(folder: Path, works: Works) -> AsyncIterator[httpx.AsyncClient]:
    async def cold() -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "warm_up", cold)
        patch.setattr(estimates, "messages", works)
        patch.setattr(jobs, "messages", works)
        app = routes.create_app(folder, TOKEN, PORT, hosts=["plans.example.org"])
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                yield client


def on_server(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Run a test with a client of a running server."""

    def run(tmp_path: Path) -> None:
        async def whole() -> None:
            works = Works()
            async with running(tmp_path / "runs", works) as client:
                await asyncio.wait_for(test(client, works, tmp_path / "runs"), 60)

        run_apart(whole())

    run.__name__ = test.__name__
    return run


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@on_server
async def test_the_link_becomes_a_cookie_and_loses_its_token(client, works, folder):
    answer = await client.get(f"/?token={TOKEN}&examples=500")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?examples=500")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (await client.get("/?examples=500")).status_code == 200
    assert (await client.get("/?token=other")).status_code == 401


@on_server
async def test_without_the_token_nothing_is_told(client, works, folder):
    for method, path in (
        ("GET", "/"),
        ("GET", "/api/form"),
        ("GET", "/api/ledger"),
        ("GET", "/api/runs"),
        ("POST", "/api/runs"),
        ("POST", "/api/estimate"),
        ("GET", "/runs/x/certificate.json"),
        ("DELETE", "/api/runs/x"),
    ):
        for headers in ({}, {"authorization": "Bearer "}, {"cookie": "minsep-8765=secret"}, {"cookie": "a=b; ;;="}):
            assert (await client.request(method, path, headers=headers)).status_code == 401
    assert works.started == []


@on_server
async def test_foreign_hosts_and_origins_are_refused(client, works, folder):
    for host in ("evil.example", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8765.evil.example", "0.0.0.0:8765", ""):
        assert (await client.get("/api/runs", headers=WITH_TOKEN | {"host": host})).status_code == 421
    for host in ("localhost:8765", "[::1]:8765", "plans.example.org", "PLANS.example.org"):
        assert (await client.get("/api/runs", headers=WITH_TOKEN | {"host": host})).status_code == 200
    body = json.dumps({"inputs": TINY})
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "file://",
        "http://127.0.0.1:8765@evil.example",
        "https://http://127.0.0.1:8765",
        "127.0.0.1:8765",
        "http://[",
        "http://[x]",
        "127.0.0.1:8765.evil.example",
    ):
        answer = await client.post("/api/runs", headers=WITH_TOKEN | {"origin": origin}, content=body)
        assert answer.status_code == 403
    for site in ("cross-site", "same-site"):
        answer = await client.get("/api/runs", headers=WITH_TOKEN | {"sec-fetch-site": site})
        assert answer.status_code == 403
    client.cookies.set("minsep-8765", TOKEN)
    assert (await client.post("/api/runs", content=body)).status_code == 403  # a cookie alone, from nowhere
    assert (await client.post("/api/runs", content=body, headers={"origin": ADDRESS})).status_code == 201


@on_server
async def test_every_answer_has_the_policy(client, works, folder):
    for path in ("/", "/assets/page.css", "/assets/main.js", "/api/runs", "/nothing", "/runs/x/y"):
        for headers in ({}, WITH_TOKEN):
            answer = await client.get(path, headers=headers)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"


@on_server
async def test_no_file_outside_its_folder(client, works, folder):
    works.go.set()
    run = (await client.post("/api/runs", headers=WITH_TOKEN, content=json.dumps({"inputs": TINY}))).json()["id"]
    await until(lambda: "certify" in works.ended)
    outside = folder.parent / "outside.json"
    outside.write_text("secret")
    (folder / run / "secret.json").write_text("secret")
    (folder / run / "report.html").symlink_to(outside)
    assert (await client.get(f"/runs/{run}/certificate.json", headers=WITH_TOKEN)).status_code == 200
    for path in (
        f"/runs/{run}/secret.json",
        f"/runs/{run}/run.json",
        f"/runs/{run}/journal",
        f"/runs/{run}/report.html",
        f"/runs/{run}/../../outside.json",
        f"/runs/{run}/..%2f..%2foutside.json",
        f"/runs/..%2f{run}/certificate.json",
        "/runs/../outside.json",
        "/runs/%2e%2e/outside.json",
        "/assets/../app.py",
        "/assets/..%2fapp.py",
        "/assets/%2e%2e%2fapp.py",
        "/assets//etc/passwd",
        "/assets/page.py",
        f"/assets/{'a' * 1000}.css",
        "/assets/%ff.css",
        "/assets/.css",
    ):
        answer = await client.get(path, headers=WITH_TOKEN)
        assert answer.status_code in (404, 405), path
        assert "secret" not in answer.text


@on_server
async def test_a_run_is_deleted_whatever_became_of_its_folder(client, works, folder):
    works.go.set()
    for number, change in enumerate((lambda run: (run / "more").mkdir(), shutil.rmtree)):
        body = json.dumps({"inputs": TINY | {"examples": str(2000 + number)}})
        run = (await client.post("/api/runs", headers=WITH_TOKEN, content=body)).json()["id"]
        await until(lambda number=number: works.ended == ["certify"] * (number + 1))
        await until(lambda run=run: json.loads((folder / run / "run.json").read_text())["state"] == "certified")
        change(folder / run)
        assert (await client.delete(f"/api/runs/{run}", headers=WITH_TOKEN)).status_code == 204
        assert not (folder / run).exists()
    assert (await client.get("/api/runs", headers=WITH_TOKEN)).json() == []


@on_server
async def test_a_thousand_bad_requests_do_no_harm(client, works, folder):
    generator = random.Random(0)
    methods = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD")
    paths = (
        "/",
        "/api/runs",
        "/api/estimate",
        "/api/form",
        "/runs/a/b",
        "/assets/x",
        "/api/runs/x/cancel",
        "/%00",
        "/\ud7ff",
    )
    bodies = (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"inputs": []}',
        b'{"inputs": {"examples": {"a": 1}}}',
        b'{"inputs": {"examples": "1e999"}}',
        b"[" * 5000,
        b"\xff\xfe",
        b"x" * (MOST_BYTES + 1),
        b'{"inputs": {"\\ud800": "1"}}',
        b'{"inputs": {"examples": "\\ud800"}}',
        b'{"inputs": {"examples": "' + b"9" * 10_000 + b'"}}',
    )

    heads = (WITH_TOKEN, {}, {"host": "evil.example"}, {"content-length": "-1"}, {"content-length": "9" * 5000})

    async def bad() -> int:
        headers = dict(generator.choice(heads))
        answer = await client.request(
            generator.choice(methods), generator.choice(paths), content=generator.choice(bodies), headers=headers
        )
        return answer.status_code

    codes = [code for _ in range(20) for code in await asyncio.gather(*(bad() for _ in range(50)))]
    assert len(codes) == 1000
    assert set(codes) <= {200, 400, 401, 403, 404, 405, 413, 421, 422}
    assert works.started == []
    assert (await client.get("/api/runs", headers=WITH_TOKEN)).json() == []


async def follow(client: httpx.AsyncClient, inputs: dict[str, str]) -> list[dict[str, Any]]:
    answer = await client.post("/api/estimate", headers=WITH_TOKEN, content=json.dumps({"inputs": inputs}))
    return [json.loads(line) for line in answer.text.splitlines()]


@on_server
async def test_two_hundred_pages_share_the_work(client, works, folder):
    """Half of them ask for one plan, the others for one each: two processes at a time, and one for what is the same."""
    same = [asyncio.create_task(follow(client, TINY)) for _ in range(100)]
    own = [asyncio.create_task(follow(client, TINY | {"examples": str(2000 + k)})) for k in range(100)]
    await until(lambda: len(works.started) == 2)
    await asyncio.sleep(0.05)
    assert len(works.started) - len(works.ended) == 2
    works.go.set()
    for lines in await asyncio.gather(*same, *own):
        assert [line["kind"] for line in lines][-2:] == ["answer", "end"]
    assert len(works.started) == len(works.ended) == 101
    assert (await follow(client, TINY | {"examples": "2099"}))[-2]["kind"] == "answer"  # kept
    assert len(works.started) == 101


def test_work_that_nobody_waits_for_ends(monkeypatch):
    monkeypatch.setattr(estimates, "_SECONDS_OF_GRACE", 0.05)

    async def whole() -> None:
        works = Works()
        monkeypatch.setattr(estimates, "messages", works)
        shared = estimates.Estimates()
        followed = shared.follow(read(TINY), False)
        assert (await anext(followed))["kind"] == "progress"
        other = shared.follow(read(TINY), False)
        await anext(other)
        await followed.aclose()
        await asyncio.sleep(0.1)
        assert works.ended == []  # another page still waits for it
        await other.aclose()
        await until(lambda: works.ended == ["estimate"])
        await shared.close()

    run_apart(whole())


def test_estimates_that_take_too_long_ask(monkeypatch):
    monkeypatch.setattr(estimates, "PATIENCE_SECONDS", 0.05)

    async def whole() -> None:
        works = Works()
        monkeypatch.setattr(estimates, "messages", works)
        shared = estimates.Estimates()
        kinds = [message["kind"] async for message in shared.follow(read(TINY | {"schemes": "poisson"}), False)]
        assert kinds == ["progress", "question", "end"]
        assert works.ended == ["estimate"]
        long = read(TINY | {"iterations": "20000"})
        works.go.set()
        told = [message async for message in shared.follow(long, False)]
        assert [message["kind"] for message in told] == ["question", "progress", "answer", "end"]
        assert "b-min-sep would take about" in told[0]["detail"]

    run_apart(whole())


async def states(client: httpx.AsyncClient) -> list[str]:
    return [run["state"] for run in (await client.get("/api/runs", headers=WITH_TOKEN)).json()]


async def certify(client: httpx.AsyncClient) -> str:
    answer = await client.post("/api/runs", headers=WITH_TOKEN, content=json.dumps({"inputs": TINY}))
    assert answer.status_code == 201
    return answer.json()["id"]


@on_server
async def test_one_certification_at_a_time(client, works, folder):
    first, second, third = [await certify(client) for _ in range(3)]
    await until(lambda: works.started == ["certify"])
    await asyncio.sleep(0.05)
    assert await states(client) == ["queued", "queued", "running"]
    assert works.started == ["certify"]
    runs = (await client.get("/api/runs", headers=WITH_TOKEN)).json()
    assert runs[0]["progress"]["detail"] == "waiting for 2 other runs"
    await client.post(f"/api/runs/{second}/cancel", headers=WITH_TOKEN)
    assert (await client.delete(f"/api/runs/{first}", headers=WITH_TOKEN)).status_code == 409
    await client.post(f"/api/runs/{first}/cancel", headers=WITH_TOKEN)
    assert works.ended == ["certify"]
    await until(lambda: len(works.started) == 2)
    works.go.set()
    await until(lambda: len(works.ended) == 2)
    await asyncio.sleep(0.05)
    assert await states(client) == ["certified", "cancelled", "cancelled"]
    assert (await client.delete(f"/api/runs/{third}", headers=WITH_TOKEN)).status_code == 204
    assert not (folder / third).exists()


@on_server
async def test_the_queue_has_an_end(client, works, folder):
    for _ in range(routes.MOST_RUNS_WAITING):
        await certify(client)
    await until(lambda: works.started == ["certify"])
    await certify(client)
    answer = await client.post("/api/runs", headers=WITH_TOKEN, content=json.dumps({"inputs": TINY}))
    assert answer.status_code == 429


@on_server
async def test_a_certificate_that_takes_long_asks_first(client, works, folder):
    long = TINY | {"examples": "1000000", "iterations": "50000", "max_bands": "1024"}
    content = json.dumps({"inputs": long})
    answer = await client.post("/api/runs", headers=WITH_TOKEN, content=content)
    assert answer.status_code == 409
    assert "would take about" in answer.json()["question"]
    content = json.dumps({"inputs": long, "patient": True})
    assert (await client.post("/api/runs", headers=WITH_TOKEN, content=content)).status_code == 201


def test_runs_go_on_with_the_next_server(tmp_path):
    async def whole() -> None:
        works = Works()
        async with running(tmp_path, works) as client:
            await certify(client)
            await certify(client)
            await until(lambda: works.started == ["certify"])
            before = (await client.get("/api/runs", headers=WITH_TOKEN)).json()
        assert works.ended == ["certify"]
        works.go.set()
        async with running(tmp_path, works) as client:
            while await states(client) != ["certified", "certified"]:
                await asyncio.sleep(0.01)
            after = (await client.get("/api/runs", headers=WITH_TOKEN)).json()
        assert [run["command"] for run in after] == [run["command"] for run in before]

    run_apart(whole())


def test_a_process_that_dies_is_a_failed_run(tmp_path, monkeypatch):
    async def dies(work: Any, *arguments: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"kind": "progress", "detail": "estimating"}

    async def whole() -> None:
        async with running(tmp_path, dies) as client:  # type: ignore[arg-type]
            await certify(client)
            while await states(client) != ["failed"]:
                await asyncio.sleep(0.01)
            run = (await client.get("/api/runs", headers=WITH_TOKEN)).json()[0]
            assert run["problem"] == "The process ended before the plan was done."

    run_apart(whole())


def test_one_server_a_folder(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="another `minsep serve` uses it"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_what_is_no_run_is_left_alone(tmp_path):
    store = Store(tmp_path)
    run = store.create(read(TINY))
    store.close()
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("20260101-000000-00000000", "20260101-000000-00000001"):
        (tmp_path / name).mkdir()
    (tmp_path / "20260101-000000-00000001" / "run.json").write_text('{"id": "another"}')
    (tmp_path / "20260101-000000-00000002").symlink_to(tmp_path / run.id)
    again = Store(tmp_path)
    assert again.runs() == [run]
    again.close()
