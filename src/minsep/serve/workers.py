"""Work in processes of its own, which can be ended at any time: forked, where possible, from one that is warm."""

import asyncio
import contextlib
import multiprocessing
import os
import threading
from collections.abc import AsyncGenerator, Callable
from multiprocessing.connection import Connection
from typing import Any

Message = dict[str, Any]
Send = Callable[[Message], None]
Work = Callable[..., None]
_WARM = "minsep.serve.warmed"


def _context() -> Any:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_WARM])
    return context


_CONTEXT = _context()


async def messages(work: Work, *arguments: Any) -> AsyncGenerator[Message, None]:
    """Yield what `work(send, *arguments)` sends in a process of its own, which ends with this iterator.

    An error there is the last message, as its sentence under "problem".
    """
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_run, args=(theirs, work, arguments), daemon=True)
    starting = asyncio.ensure_future(asyncio.to_thread(process.start))
    try:
        await asyncio.shield(starting)
        theirs.close()
        while True:
            try:
                yield await asyncio.to_thread(ours.recv)
            except EOFError:
                return
    finally:
        # A process that is about to start must first be there before it can be ended.
        await asyncio.shield(_end(process, starting, ours))


async def _end(process: Any, starting: "asyncio.Future[None]", ours: Connection) -> None:
    with contextlib.suppress(Exception):
        await starting
        process.kill()
        await asyncio.to_thread(process.join)
        process.close()
    ours.close()


def begin_warming() -> None:
    """Start the process that others are forked from, and do not wait for it."""
    if _CONTEXT.get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running

        ensure_running()


async def warm_up() -> None:
    """Wait until the process that others are forked from is warm."""
    async for _ in messages(_nothing):
        pass


def _nothing(send: Send) -> None:
    pass


def _run(theirs: Connection, work: Work, arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    try:
        work(theirs.send, *arguments)
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    except (ValueError, OSError, ImportError, MemoryError) as error:
        theirs.send({"kind": "problem", "problem": str(error) or type(error).__name__})
    theirs.close()


def _end_with_the_server() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
