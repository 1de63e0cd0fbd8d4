"""The server on the loopback address."""

import contextlib
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from minsep.serve.app import create_app
from minsep.serve.security import new_token

LOOPBACK = "127.0.0.1"
_IDLE_SECONDS, _GRACE_SECONDS = 15, 2
_MOST_CONNECTIONS = 1000


def run(
    port: int, folder: Path, browser: bool, hosts: tuple[str, ...], workers: int | None, ledger: Path | None
) -> None:
    """Serve until it is interrupted; print the link first.

    Args:
        port: The port on which it listens.
        folder: The folder that keeps the runs.
        browser: Whether to open the page in a browser.
        hosts: Further names that it answers to.
        workers: The number of threads of a computation. None is one per core.
        ledger: The file of a ledger, which the page shows.
    """
    with _listen(port) as listening:
        port = listening.getsockname()[1]
        token = new_token()
        link = f"http://{LOOPBACK}:{port}/?token={token}"
        app = create_app(folder, token, port, hosts=hosts, workers=workers, ledger=ledger)
        _when_ready(app, link, browser, folder)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            limit_concurrency=_MOST_CONNECTIONS,
            h11_max_incomplete_event_size=16_384,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def _when_ready(app: Starlette, link: str, browser: bool, folder: Path) -> None:
    """Print the link once requests are answered."""
    inner = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with inner(app):
            print(f"minsep serves this page, to this machine alone:\n\n    {link}\n")
            print(f"Runs are kept in {folder}. Ctrl-C ends the server; unfinished runs go on with the next one.")
            sys.stdout.flush()
            if browser:  # which may be one that lives in the terminal, and does not come back
                threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
            yield

    app.router.lifespan_context = lifespan


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise ValueError(
            f"port is {port}, but it cannot be used: {error.strerror}. Choose another one, or 0 for any that is free."
        ) from None
    return listening
