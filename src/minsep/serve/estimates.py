"""Estimates of a plan, as they are computed; pages that ask for the same share the work."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from minsep.accounting import needs_samples
from minsep.participation import families
from minsep.planning import Request
from minsep.serve.cost import seconds_of
from minsep.serve.inputs import by_field
from minsep.serve.workers import Message, Send, messages

PATIENCE_SECONDS = 60.0
"""Seconds: estimates that should take longer are asked for first."""
MOST_PATIENCE_SECONDS = 1800.0
_ANSWERS_KEPT = 64  # finished answers
_PLANS_AT_ONCE = 2
_SECONDS_OF_GRACE = 3.0  # seconds that work goes on for a page that is being reloaded
_EPSILON_STEPS = (0.25, 0.5, 0.71, 1.41, 2.0, 4.0)
_LEAST_EPSILON, _MOST_EPSILON = 0.01, 100.0


def candidate_as_data(candidate: Any) -> dict[str, Any]:
    """Return a candidate for the page."""
    of_strategy = ("matrix", "is_banded", "bands", "shrink", "noise_bytes")
    names = ("scheme", "min_sep", "noise_multiplier", "error", "exact", "skipped", *of_strategy)
    return {"name": candidate.name} | {name: getattr(candidate, name) for name in names}


def plan_as_data(plan: Any) -> dict[str, Any]:
    """Return the answer of a plan for the page."""
    return {
        "statement": plan.statement,
        "headline": plan.headline,
        "reason": plan.reason,
        "certified": plan.certified,
        "estimated": plan.estimated,
        "chosen": candidate_as_data(plan.chosen),
        "noise_multiplier": plan.mechanism.noise_multiplier,
        "error": plan.error,
        "workload": plan.request.workload.name,
        "baseline": candidate_as_data(plan.baseline),
        "table": [candidate_as_data(one) for one in plan.table],
    }


def estimate(send: Send, request: Request, workers: int | None) -> None:
    """Send candidates as their noise is known, the plan by estimates, and then what it is at other epsilons."""
    import minsep
    from minsep.planning import Candidate, at_epsilons

    began = time.monotonic()
    compute = minsep.Compute(workers=workers)
    best = minsep.plan(
        **(request.fields | {"estimate": True}),
        seed=0,
        compute=compute,
        progress=lambda event: send(
            {"kind": "progress", "detail": str(event), "done": event.done, "total": event.total}
        ),
        found=lambda one: send({"kind": "candidate"} | candidate_as_data(one)),
    )
    send({"kind": "answer", "seconds": time.monotonic() - began} | plan_as_data(best))
    dp_sgd = Candidate("poisson", 1, 1)
    shown = [dp_sgd] if best.chosen.scheme == "poisson" else [dp_sgd, best.chosen]
    epsilons = [step * request.epsilon for step in _EPSILON_STEPS]
    within = [value for value in epsilons if _LEAST_EPSILON <= value <= _MOST_EPSILON]
    for epsilon, found in at_epsilons(best.request, shown, within, compute=compute):
        send({"kind": "epsilon", "epsilon": epsilon} | candidate_as_data(found))


def exact_part(request: Request) -> Request | None:
    """Return a request without what needs samples: what is quick whatever the task. None if nothing is left."""
    schemes = [kind for kind in request.schemes if not needs_samples(kind)]
    separated = any(families()[kind].takes_min_sep for kind in schemes)
    min_sep = request.min_sep if separated else None
    return replace(request, schemes=schemes, min_sep=min_sep) if schemes else None


class _Shared:
    """The messages of one plan, for all that ask for it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.ended = False
        self.readers = 0
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    async def add(self, *more: Message, ended: bool = False) -> None:
        async with self._changed:
            self.messages += more
            self.ended = self.ended or ended
            self._changed.notify_all()

    async def follow(self) -> AsyncIterator[Message]:
        place = 0
        while True:
            async with self._changed:
                while not self.ended and len(self.messages) == place:
                    await self._changed.wait()
            if len(self.messages) == place:
                return
            yield self.messages[place]
            place += 1


class Estimates:
    """Plans by estimates: few at once, the others wait; nobody waits for work that nobody wants any more."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers
        self._shared: OrderedDict[tuple[Request, bool], _Shared] = OrderedDict()
        self._turn = asyncio.Semaphore(_PLANS_AT_ONCE)

    async def follow(self, request: Request, patient: bool) -> AsyncIterator[Message]:
        """Yield the messages of a plan from the first on.

        Args:
            patient: Whether to go on where it takes longer than `PATIENCE_SECONDS`.
        """
        key = request, patient
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared()
            shared.task = asyncio.create_task(self._work(shared, request, patient))
        self._shared.move_to_end(key)
        shared.readers += 1
        try:
            async for message in shared.follow():
                yield message
        finally:
            shared.readers -= 1
            if not shared.readers and not shared.ended:
                asyncio.get_running_loop().call_later(_SECONDS_OF_GRACE, self._abandon, key)

    async def close(self) -> None:
        """End all work."""
        tasks = [shared.task for shared in self._shared.values() if shared.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _abandon(self, key: tuple[Request, bool]) -> None:
        shared = self._shared.get(key)
        if shared is not None and not shared.readers and not shared.ended:
            del self._shared[key]
            if shared.task is not None:
                shared.task.cancel()

    def _make_room(self) -> None:
        ended = [key for key, shared in self._shared.items() if shared.ended and not shared.readers]
        for key in ended[: max(0, len(ended) - _ANSWERS_KEPT)]:
            del self._shared[key]

    async def _work(self, shared: _Shared, request: Request, patient: bool) -> None:
        seconds = seconds_of(request)
        asks = seconds > PATIENCE_SECONDS and not patient
        tried = exact_part(request) if asks else request
        if asks:
            await shared.add(_question(f"Estimates of {' and '.join(_sampled(request))} would take about", seconds))
        if tried is not None:
            if self._turn.locked():
                await shared.add({"kind": "progress", "detail": "waiting for other estimates to end"})
            async with self._turn:
                await self._estimate(shared, tried, patient)
        await shared.add({"kind": "end"}, ended=True)
        self._make_room()

    async def _estimate(self, shared: _Shared, request: Request, patient: bool) -> None:
        seconds = MOST_PATIENCE_SECONDS if patient else PATIENCE_SECONDS
        try:
            async with (
                asyncio.timeout(seconds),
                contextlib.aclosing(messages(estimate, request, self._workers)) as told,
            ):
                async for message in told:
                    if message["kind"] == "problem":
                        message |= {"problems": by_field(message["problem"])}
                    await shared.add(message)
        except TimeoutError:
            if any(message["kind"] == "answer" for message in shared.messages):
                return  # all but the last of the curve
            await shared.add(_question("The estimates were stopped after", seconds))


def _sampled(request: Request) -> list[str]:
    return [families()[kind].words for kind in request.schemes if needs_samples(kind)]


def _question(words: str, seconds: float) -> Message:
    return {"kind": "question", "seconds": seconds, "detail": f"{words} {in_words(seconds)}."}


def in_words(seconds: float) -> str:
    """Return a time in words.

    >>> in_words(40), in_words(200)
    ('40 seconds', '3 minutes')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.0f} hours"
