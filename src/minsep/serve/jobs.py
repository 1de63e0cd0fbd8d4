"""Certifications: a queue, one at a time, each in a process of its own that can be cancelled."""

import asyncio
import contextlib
import time
from pathlib import Path

from minsep.core.files import write_whole
from minsep.core.progress import Pace, Progress, left_in_words
from minsep.planning import Request
from minsep.serve import store as states
from minsep.serve.estimates import plan_as_data
from minsep.serve.repetition import command_of, python_of
from minsep.serve.store import JOURNAL, Run, Store
from minsep.serve.workers import Message, Send, messages


def certify(send: Send, request: Request, seed: int, folder: Path, workers: int | None) -> None:
    """Plan with a certificate, and write all files of the run; what was begun before is gone on with."""
    import minsep
    from minsep.show.report import write_report

    pace, compute = Pace(), minsep.Compute(workers=workers)

    def tell(event: Progress) -> None:
        left = pace.left(event)
        send(
            {
                "kind": "progress",
                "detail": str(event),
                "share": event.done / event.total if event.total else None,
                "left": "" if left is None else left_in_words(left),
            }
        )

    plan = minsep.plan(
        **request.fields,
        seed=seed,
        compute=compute,
        journal=folder / JOURNAL,
        progress=tell,
    )
    send({"kind": "progress", "detail": "writing the report", "share": None, "left": ""})
    command = command_of(request, seed)
    plan.certificate.save(folder / "certificate.json")
    write_report(plan, folder / "report.html", command=command)
    write_whole(folder / "plan.sh", f"{command}\n".encode())
    write_whole(folder / "plan.py", python_of(request, seed).encode())
    if plan.certified:
        send({"kind": "progress", "detail": "writing the statement", "share": None, "left": ""})
        statement = minsep.statement(folder / "certificate.json", compute=compute)
        for suffix in (".html", ".md"):
            statement.save(folder / f"statement{suffix}")
    send({"kind": "answer"} | plan_as_data(plan))


class Jobs:
    """The queue of certifications of a folder."""

    def __init__(self, store: Store, workers: int | None = None) -> None:
        self._store, self._workers = store, workers
        self._waiting: list[str] = []
        self._progress: dict[str, Message] = {}
        self._changed = asyncio.Event()
        self._running: tuple[str, asyncio.Task[None]] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Go on with what a server before this one did not finish, and then with what comes."""
        for run in self._store.runs():
            if run.state in states.UNFINISHED:
                self._enqueue(self._store.save(run, state=states.QUEUED))
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop; what is unfinished stays so, for the next server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add(self, request: Request) -> Run:
        """Queue a certification."""
        run = self._store.create(request)
        self._enqueue(run)
        return run

    async def cancel(self, run: Run) -> None:
        """End a run, whether it waits or is under way."""
        if run.id in self._waiting:
            self._waiting.remove(run.id)
            self._store.save(run, state=states.CANCELLED)
        elif self._running is not None and self._running[0] == run.id:
            task = self._running[1]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._store.save(self._store.get(run.id) or run, state=states.CANCELLED)

    def progress(self, run: Run) -> Message:
        """Return how far a run is."""
        if run.id in self._waiting:
            ahead = self._waiting.index(run.id) + (self._running is not None)
            return {"detail": f"waiting for {ahead} other run{'s' if ahead != 1 else ''}" if ahead else "waiting"}
        return self._progress.get(run.id, {})

    @property
    def length(self) -> int:
        """Number of runs that wait."""
        return len(self._waiting)

    def _enqueue(self, run: Run) -> None:
        self._waiting.append(run.id)
        self._changed.set()

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._changed.clear()
                await self._changed.wait()
            run = self._store.get(self._waiting.pop(0))
            if run is None:
                continue
            task = asyncio.create_task(self._certify(run))
            self._running = run.id, task
            try:
                await asyncio.wait([task])
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                self._running = None
                self._progress.pop(run.id, None)

    async def _certify(self, run: Run) -> None:
        run = self._store.save(run, state=states.RUNNING)
        began = time.monotonic()
        folder = self._store.folder(run)
        ended = False
        work = messages(certify, run.request, run.seed, folder, self._workers)
        async with contextlib.aclosing(work) as told:
            async for message in told:
                if message["kind"] == "progress":
                    self._progress[run.id] = message
                    continue
                ended = True
                seconds = time.monotonic() - began
                if message["kind"] == "problem":
                    self._store.save(run, state=states.FAILED, problem=message["problem"], seconds=seconds)
                else:
                    state = states.CERTIFIED if message["certified"] else states.REFUSED
                    result = {name: value for name, value in message.items() if name != "kind"}
                    self._store.save(run, state=state, result=result, seconds=seconds)
        if not ended:
            self._store.save(run, state=states.FAILED, problem="The process ended before the plan was done.")
