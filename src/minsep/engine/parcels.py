"""Work that is sent to other processes: once each, without its tables, and only to the versions it came from.

A chunk is a pure function of its number, but it takes the same versions to compute the same bits. So each task says
what it was made with, and a worker that has something else says so instead of computing.
"""

import copyreg
import hashlib
import io
import os
import pickle
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

Versions = dict[str, str]

# What every number of a chunk depends on.
_PACKAGES = ("minsep", "numpy", "scipy", "numba")
_MOST_BYTES_IN_A_TASK = 1 << 16  # bytes that are sent with every task
_MOST_KEPT_PARCELS = 4  # parcels of a process
_COMPRESSION_LEVEL = 1  # level of compression: values that are almost all 0 shrink to nothing


class Done(NamedTuple):
    """The results of a task, packed, and how many seconds they took."""

    results: bytes
    seconds: float


class Missing(NamedTuple):
    """What a process answers that does not have the work of a task."""


class OtherVersions(NamedTuple):
    """What a process answers whose versions are not those of the task."""

    versions: Versions


Answer = Done | Missing | OtherVersions


@lru_cache(maxsize=1)
def versions_here() -> Versions:
    """Return the versions that the numbers of this process depend on."""
    return {package: version(package) for package in _PACKAGES}


@dataclass(frozen=True)
class Parcel:
    """Work, ready to be sent: its digest, and its bytes."""

    digest: str
    content: bytes

    @classmethod
    def of(cls, work: Callable[[int], Any]) -> "Parcel":
        """Pack work.

        >>> from functools import partial
        >>> parcel = Parcel.of(partial(pow, 2))
        >>> unpacked(run_task(versions_here(), parcel.digest, parcel.content, 3, 6).results)
        [8, 16, 32]
        """
        content = _packed(work)
        return cls(hashlib.sha256(content).hexdigest(), content)

    @property
    def is_small(self) -> bool:
        """Whether it may be sent with every task."""
        return len(self.content) <= _MOST_BYTES_IN_A_TASK


def run_task(versions: Versions, digest: str, content: bytes | None, first: int, last: int) -> Answer:
    """Compute chunks of a parcel from the first to before the last, in the process of a worker."""
    here = versions_here()
    if here != versions:
        return OtherVersions(here)
    work = _work_of(digest, content)
    if work is None:
        return Missing()
    start = time.perf_counter()
    results = [work(chunk) for chunk in range(first, last)]
    seconds = time.perf_counter() - start
    return Done(zlib.compress(pickle.dumps(results, pickle.HIGHEST_PROTOCOL), _COMPRESSION_LEVEL), seconds)


def unpacked(results: bytes) -> list[Any]:
    """Return the results of a task."""
    found: list[Any] = pickle.loads(zlib.decompress(results))
    return found


_kept: OrderedDict[str, Callable[[int], Any]] = OrderedDict()
_lock = threading.Lock()


def _work_of(digest: str, content: bytes | None) -> Callable[[int], Any] | None:
    """Return the work of a parcel, always the same object, so that it makes its tables once."""
    with _lock:
        if digest not in _kept:
            if content is None:
                return None
            _kept[digest] = pickle.loads(content)
            if len(_kept) > _MOST_KEPT_PARCELS:
                _kept.popitem(last=False)
        _kept.move_to_end(digest)
        return _kept[digest]


def _renew_lock() -> None:
    """Forget a lock that a thread may have held, which is not in this forked process."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _packed(work: Callable[[int], Any]) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(work)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Leaves out cached properties: megabytes of tables that a worker makes faster than it receives them."""

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        state = getattr(value, "__dict__", None)
        if not state or not kind.__module__.startswith("minsep."):
            return NotImplemented
        cached = {name for name in state if isinstance(getattr(kind, name, None), cached_property)}
        if not cached:
            return NotImplemented
        kept = {name: held for name, held in state.items() if name not in cached}
        return copyreg.__newobj__, (kind,), kept  # type: ignore[attr-defined]
