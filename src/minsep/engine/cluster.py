"""A cluster of Dask's distributed scheduler: one connection a process and address, and workers that come and go."""

import atexit
import logging
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Executor, Future
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from minsep.core.install import install_command
from minsep.engine.parcels import Answer, versions_here
from minsep.engine.tasks import Pool

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 1.0
_LOOK_SECONDS = 1.0  # how often the number of workers is asked for
_ALONE_SECONDS = 30.0  # without a worker, after which that is said
_MOST_REPEATS = 5
_ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://[^\s/]+:\d+/?")


def check_address(cluster: object) -> str:
    """Return the address of a scheduler, if it is one.

    >>> check_address("localhost")
    Traceback (most recent call last):
    ValueError: cluster is 'localhost', but it must be the address of a scheduler, such as 'tcp://127.0.0.1:8786'.
    """
    if not isinstance(cluster, str) or not _ADDRESS.fullmatch(cluster):
        raise ValueError(
            f"cluster is {cluster!r}, but it must be the address of a scheduler, such as 'tcp://127.0.0.1:8786'."
        )
    return cluster


class ClusterPool(Pool):
    """The workers of a cluster.

    Args:
        client: The client of the scheduler.
        options: The options of an executor of Dask, such as which workers to use.
    """

    def __init__(self, client: "Client", options: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._client = client
        self._address = client.scheduler.address
        # Its default is to take equal calls for one, and to hash their arguments for that.
        self._executor = client.get_executor(**{**options, "pure": False})
        self._addresses = _addresses(options)
        self._cores, self._looked = 0, -_LOOK_SECONDS
        self._seen, self._warned = time.monotonic(), False

    def cores(self) -> int:
        """Return how many threads the workers have now that it may use; 1 if there are none yet."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            try:
                threads = self._client.nthreads()
            except Exception as error:
                raise self._lost() from error
            self._cores = sum(threads.get(address, 0) for address in self._addresses or threads)
            self._looked = now
            self._wait_for_workers(now)
        return max(self._cores, 1)

    def submit(self, function: Callable[..., Answer], *arguments: Any) -> "Future[Answer]":
        """Send a task."""
        try:
            future: Future[Answer] = self._executor.submit(function, *arguments)
        except Exception as error:
            raise (self._lost() if self._client.status != "running" else error) from error
        return future

    def repeat_or_raise(self, error: BaseException, times: int) -> None:
        """Repeat a task whose workers died; say what to do about a lost scheduler."""
        from distributed import KilledWorker

        if isinstance(error, CancelledError):
            raise self._lost() from error
        if isinstance(error, ImportError):
            raise ImportError(
                f"The cluster at {self._address} cannot import what it should compute ({error}): install minsep "
                f"{versions_here()['minsep']} on the scheduler and all workers."
            ) from error
        if not isinstance(error, KilledWorker):
            raise error
        if times >= _MOST_REPEATS:
            raise ChildProcessError(
                f"Workers of the cluster at {self._address} died again and again on one task: give each more memory."
            ) from error

    def _wait_for_workers(self, now: float) -> None:
        if self._cores:
            self._seen, self._warned = now, False
        elif now - self._seen > _ALONE_SECONDS and not self._warned:
            self._warned = True
            warnings.warn(
                f"The cluster at {self._address} has no workers{self._that_are_named}: start some, as in "
                f"`dask worker {self._address}`.",
                stacklevel=2,
            )

    @property
    def _that_are_named(self) -> str:
        return f" at {', '.join(sorted(self._addresses))}" if self._addresses else ""

    def _lost(self) -> ConnectionError:
        for address in [address for address, client in _clients.items() if client is self._client]:
            _forget(address)
        return ConnectionError(
            f"The scheduler at {self._address} is lost: start it again. With a journal, the same call with the same "
            "journal goes on where it was; without one, it starts anew and ends in the same result for the same seed."
        )


def _addresses(options: Mapping[str, Any]) -> frozenset[str]:
    """Return the workers that tasks may go to, if they are given by addresses: names and hosts only Dask can resolve.

    >>> sorted(_addresses({"workers": ["tcp://10.0.0.1:4000", "tcp://10.0.0.2:4000"]}))
    ['tcp://10.0.0.1:4000', 'tcp://10.0.0.2:4000']
    >>> _addresses({"workers": "alice"})
    frozenset()
    """
    workers = options.get("workers") or ()
    given = frozenset([workers] if isinstance(workers, str | int) else workers)
    if options.get("allow_other_workers") or not all("://" in str(worker) for worker in given):
        return frozenset()
    return given


def options_of(executor: Executor) -> Mapping[str, Any]:
    """Return what an executor of Dask says of its tasks: workers, resources, retries, priority."""
    options: Mapping[str, Any] = getattr(executor, "_kwargs", {})
    return options


def client_of(executor: Executor) -> "Client | None":
    """Return the client behind an executor of Dask; None for any other."""
    return getattr(executor, "_client", None) if type(executor).__module__.startswith("distributed.") else None


_clients: "dict[str, Client]" = {}
_lock = threading.Lock()


def connected(address: str) -> "Client":
    """Return this process's client of a scheduler, connected when it is first asked for and closed at exit."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(f"cluster needs Dask's distributed: {install_command('cluster')}") from None
    with _lock:
        client = _clients.get(address)
        if client is not None and client.status == "running":
            return client
        try:
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except OSError as error:
            raise ConnectionError(
                f"cluster is {address!r}, but no scheduler answered there within {_CONNECT_SECONDS:.0f} seconds: start "
                "one with `dask scheduler`, or give the address that it prints."
            ) from error
        _clients[address] = client
        return client


def _forget(address: str) -> None:
    with _lock:
        client = _clients.pop(address, None)
    if client is None:
        return
    # It is told that it was closed while it tried to connect again, and prints that as an error.
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        client.close(timeout=_CLOSE_SECONDS)
    finally:
        logger.setLevel(level)


@atexit.register
def _close_all() -> None:
    for address in list(_clients):
        _forget(address)


def _start_anew() -> None:
    """Forget what belongs to the process that this one is a fork of: its connections, and a lock it may have held."""
    global _lock
    _clients.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
