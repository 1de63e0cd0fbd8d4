"""The routes of the server."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import plotly
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import minsep
from minsep import planning
from minsep.participation import families
from minsep.serve import store as states
from minsep.serve.book import Book
from minsep.serve.cost import seconds_of
from minsep.serve.estimates import Estimates, in_words
from minsep.serve.inputs import InputError, fields_as_data, read, schemes, texts_of
from minsep.serve.jobs import Jobs
from minsep.serve.presets import PRESETS
from minsep.serve.repetition import command_of, python_of
from minsep.serve.security import MOST_BYTES, REPORT_POLICY, RequestFilter
from minsep.serve.store import FILES, Run, Store
from minsep.serve.workers import Message, warm_up
from minsep.show import palette

MOST_RUNS_WAITING = 50
PATIENCE_TO_CERTIFY_SECONDS = 600.0
_ASSETS = files("minsep.serve") / "assets"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".html": "text/html", ".svg": "image/svg+xml"}
_PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_FOREIGN_STYLE = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
_REVALIDATE = {"cache-control": "no-cache"}


class Server:
    """What the routes share: estimates, the queue, the folder of runs, and the ledger if there is one."""

    def __init__(self, folder: Path, workers: int | None = None, ledger: Path | None = None) -> None:
        self.book = None if ledger is None else Book(ledger)
        self.store = Store(folder)
        self.workers = workers

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Start and end the work behind the page."""
        self.estimates = Estimates(self.workers)
        self.jobs = Jobs(self.store, self.workers)
        self.jobs.start()
        warming = asyncio.create_task(warm_up())
        try:
            yield
        finally:
            warming.cancel()
            await asyncio.gather(self.estimates.close(), self.jobs.close(), warming, return_exceptions=True)
            self.store.close()

    async def page(self, request: Request) -> Response:
        """Answer with the page."""
        return asset("page.html")

    async def form(self, request: Request) -> Response:
        """Answer with what the page shows of inputs, presets and colours."""
        return JSONResponse(
            {
                "version": minsep.__version__,
                "fields": fields_as_data(PRESETS[0].request),
                "presets": [{"name": one.name, "words": one.words, "values": texts_of(one.request)} for one in PRESETS],
                "schemes": [
                    {"kind": kind, "words": families()[kind].words, "baseline": families()[kind].is_baseline}
                    for kind in schemes()
                ],
                "styles": {kind: palette.style_of(kind)[:2] for kind in families()},
                "night": palette.NIGHT,
                "foreign_styles": foreign_styles(),
                "ledger": self.book is not None,
            }
        )

    async def estimate(self, request: Request) -> Response:
        """Answer with estimates, a line each, as they are computed."""
        body = await _json(request)
        asked = _request(body)
        return Lines(self.estimates.follow(asked, body.get("patient") is True))

    async def ledger(self, request: Request) -> Response:
        """Answer with what the ledger holds."""
        if self.book is None:
            raise HTTPException(404, "The server was started without a ledger.")
        return JSONResponse(await self.book.answer())

    async def runs(self, request: Request) -> Response:
        """Answer with all runs, the newest first."""
        return JSONResponse([self._summary(run) for run in reversed(self.store.runs())])

    async def certify(self, request: Request) -> Response:
        """Queue a certification."""
        body = await _json(request)
        asked = _request(body)
        if self.jobs.length >= MOST_RUNS_WAITING:
            raise HTTPException(429, f"{MOST_RUNS_WAITING} runs are waiting: cancel some, or come back later.")
        seconds = seconds_of(asked)
        if seconds > PATIENCE_TO_CERTIFY_SECONDS and body.get("patient") is not True:
            words = f"This certificate would take about {in_words(seconds)} or more. Go on?"
            return JSONResponse({"question": words}, 409)
        return JSONResponse(self._summary(self.jobs.add(asked)), 201)

    async def run(self, request: Request) -> Response:
        """Answer with one run and all of its candidates."""
        run = self._run(request)
        return JSONResponse(self._summary(run) | {"result": run.result})

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        run = self._run(request)
        await self.jobs.cancel(run)
        return JSONResponse(self._summary(self._run(request)))

    async def remove(self, request: Request) -> Response:
        """Delete a run that has ended."""
        run = self._run(request)
        if run.state in states.UNFINISHED:
            raise HTTPException(409, "The run is not done: cancel it first.")
        self.store.remove(run)
        return Response(status_code=204)

    async def file(self, request: Request) -> Response:
        """Answer with a file of a run."""
        name = request.path_params["name"]
        path = self.store.file(self._run(request), name)
        if path is None:
            raise HTTPException(404, "There is no such file.")
        headers = {}
        if name.endswith(".html"):
            headers["content-security-policy"] = REPORT_POLICY
        if "download" in request.query_params or not name.endswith(".html"):
            headers["content-disposition"] = f'attachment; filename="{name}"'
        return FileResponse(path, media_type=FILES[name], headers=headers)

    def _run(self, request: Request) -> Run:
        run = self.store.get(request.path_params["run"])
        if run is None:
            raise HTTPException(404, "There is no such run.")
        return run

    def _summary(self, run: Run) -> dict[str, Any]:
        asked = run.request
        return {
            "id": run.id,
            "created": run.created,
            "state": run.state,
            "problem": run.problem,
            "seconds": run.seconds,
            "texts": run.texts,
            "progress": self.jobs.progress(run),
            "files": self.store.files(run),
            "command": command_of(asked, run.seed),
            "python": python_of(asked, run.seed),
            "result": {name: value for name, value in run.result.items() if name != "table"},
        }


async def _json(request: Request) -> dict[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise HTTPException(413, f"A request has at most {MOST_BYTES:,} bytes.")
    try:
        body = json.loads(content)
        json.dumps(body, ensure_ascii=False).encode()  # half of a character cannot be answered with
    except (ValueError, RecursionError):
        raise HTTPException(400, "The request is not JSON.") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "The request is not a JSON object.")
    return body


def _request(body: dict[str, Any]) -> planning.Request:
    texts = body.get("inputs")
    if not isinstance(texts, dict):
        raise HTTPException(400, "inputs is missing: give the numbers of the task.")
    return read(texts)


async def _wrong_inputs(request: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return JSONResponse({"problems": error.problems}, 422)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(error.detail, error.status_code, headers=error.headers)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name == _PLOTLY.name:
        return FileResponse(_PLOTLY, media_type="text/javascript", headers=_REVALIDATE)
    return asset(name)


@lru_cache(maxsize=1)
def foreign_styles() -> list[str]:
    """Return the names of the style sheets that Plotly's script would add to a page by itself."""
    return sorted(set(_FOREIGN_STYLE.findall(_PLOTLY.read_text(encoding="utf-8"))))


def asset(name: str) -> Response:
    """Return a file of the page."""
    suffix = Path(name).suffix
    if suffix not in _KINDS or name not in {one.name for one in _ASSETS.iterdir()}:
        raise HTTPException(404, "There is no such file.")
    return Response((_ASSETS / name).read_bytes(), media_type=_KINDS[suffix], headers=_REVALIDATE)


class Lines(StreamingResponse):
    """Messages as lines of JSON, until they end or nobody listens."""

    def __init__(self, messages: AsyncIterator[Message]) -> None:
        super().__init__(self._lines(messages), media_type="application/x-ndjson")

    @staticmethod
    async def _lines(messages: AsyncIterator[Message]) -> AsyncIterator[bytes]:
        async for message in messages:
            yield json.dumps(message, allow_nan=False).encode() + b"\n"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream, and watch for the page that goes away: it would be noticed too late by sending."""
        streaming = asyncio.ensure_future(self.stream_response(send))
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait([streaming, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (streaming, leaving):
                task.cancel()
            await asyncio.gather(streaming, leaving, return_exceptions=True)


def create_app(
    folder: Path,
    token: str,
    port: int,
    *,
    hosts: Iterable[str] = (),
    workers: int | None = None,
    ledger: Path | None = None,
) -> Starlette:
    """Return the server as an ASGI application.

    Args:
        folder: The folder that holds the runs.
        token: The secret of the link.
        port: The port on which it listens.
        hosts: Further names that it answers to, such as that of a proxy.
        workers: The number of threads of a computation. None is one per core.
        ledger: The file of a ledger, which the page shows.
    """
    server = Server(folder, workers, ledger)
    app = Starlette(
        lifespan=server.lifespan,
        exception_handlers={InputError: _wrong_inputs, HTTPException: _refused},
        routes=[
            Route("/", server.page),
            Route("/assets/{name}", _asset),
            Route("/api/form", server.form),
            Route("/api/ledger", server.ledger),
            Route("/api/estimate", server.estimate, methods=["POST"]),
            Route("/api/runs", server.runs, methods=["GET"]),
            Route("/api/runs", server.certify, methods=["POST"]),
            Route("/api/runs/{run}", server.run, methods=["GET"]),
            Route("/api/runs/{run}", server.remove, methods=["DELETE"]),
            Route("/api/runs/{run}/cancel", server.cancel, methods=["POST"]),
            Route("/runs/{run}/{name}", server.file),
        ],
    )
    local = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    app.add_middleware(
        RequestFilter, hosts=[*local, *(host.lower() for host in hosts)], token=token, cookie=f"minsep-{port}"
    )
    return app
