"""Saved states of streams: what they must match, and files that only their owner can read.

A state holds the key of its stream. Anyone who can read it can reconstruct every batch and subtract the noise, so it is
as secret as the data itself.
"""

import errno
import json
import math
import os
import threading
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO, Never

import numpy as np

from minsep.core import validation as validate
from minsep.core.files import write_whole

State = dict[str, Any]

_VERSION = 1


def check_process(owner: int) -> None:
    """Refuse to draw in a process that was forked from the `owner`: two releases with the same noise differ by none."""
    if os.getpid() != owner:
        raise RuntimeError(
            f"The run belongs to process {owner}, but this is process {os.getpid()}, forked from it: both would draw "
            "the same batches and noise. Continue in one of them only: here, restore it from its saved state."
        )


class Turns:
    """Lets one thread at a time in; it may enter again. A forked process, which has no other threads, starts afresh."""

    def __init__(self) -> None:
        self._locks: dict[int, AbstractContextManager[Any]] = {}

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock of this process."""
        return self._locks.setdefault(os.getpid(), threading.RLock())


class Guard:
    """Marks the steps of a stream, which threads take in turn.

    An interrupted step cannot be continued, nor a step in a forked process.
    """

    def __init__(self) -> None:
        self._turns = Turns()
        self._under_way = False
        self._process = os.getpid()

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """What a thread holds while it looks at the stream or changes it."""
        return self._turns.lock

    @property
    def passable(self) -> bool:
        """Whether a step may be taken."""
        return not self._under_way and self._process == os.getpid()

    def check(self) -> None:
        """Refuse to continue after an interruption."""
        if self._under_way:
            raise RuntimeError("The stream was interrupted in the middle of a step: restore it with load_state_dict().")

    @contextmanager
    def step(self) -> Iterator[None]:
        """Take a step."""
        with self.turn:
            self.check()
            check_process(self._process)
            self._under_way = True
            yield
            self._under_way = False

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Begin from a state, also after an interruption and in a forked process."""
        with self.turn:
            self._under_way = True
            self._process = os.getpid()
            yield
            self._under_way = False


class Uncopyable:
    """Refuses to be copied or pickled: two streams that share memory would corrupt each other."""

    def __reduce__(self) -> Never:
        raise TypeError(f"A {type(self).__name__} cannot be copied or pickled: use state_dict() and load_state_dict().")


def envelope(stream: str, mechanism: str, **identity: object) -> State:
    """Return the part of a state that identifies what it belongs to."""
    return {"version": _VERSION, "stream": stream, "mechanism": mechanism, **identity}


def check_envelope(state: State, expected: State) -> None:
    """Refuse a state of another kind of stream, version, mechanism or size."""
    if not isinstance(state, dict):
        raise ValueError(f"The state is a {type(state).__name__}, but it must be a dict from state_dict().")
    for name, value in expected.items():
        found = state.get(name)
        if isinstance(found, np.ndarray) or found != value:
            if name == "format":
                raise ValueError(
                    "The state was saved by an older version of minsep, in another format: its run cannot be "
                    "continued. Start a new one."
                )
            its, ours = validate.in_short(found), validate.in_short(value)
            raise ValueError(
                f"The state has {name} {its}, but this stream has {ours}: resume with the mechanism, the sizes and the "
                "version of minsep that saved it."
            )


def save_state(path: str | os.PathLike[str], state: State) -> None:
    """Write a state to a file that only its owner can read; an interrupted write leaves the old file unchanged.

    Args:
        path: Where the file is written.
        state: What the `state_dict` of a stream returned.

    Examples:
        >>> import minsep, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "batches.state")
        >>> mechanism = minsep.Mechanism(
        ...     minsep.BandedToeplitz.identity(iterations=10), minsep.Poisson(rate=0.1), noise_multiplier=1.0
        ... )
        >>> save_state(path, mechanism.batches(num_examples=100).state_dict())
        >>> oct(os.stat(path).st_mode & 0o777)
        '0o600'
        >>> load_state(path)["position"]
        0
    """
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in state.items() if name not in arrays}
    write_whole(
        path,
        lambda file: np.savez(file, allow_pickle=False, plain=np.array(json.dumps(plain)), **arrays),
        private=True,
    )


def load_state(path: str | os.PathLike[str]) -> State:
    """Read a state from a file; nothing in it is executed.

    Args:
        path: The file that `save_state` wrote.

    Examples:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "a.state")
        >>> save_state(path, {"position": 3})
        >>> load_state(path)
        {'position': 3}
    """
    with open(path, "rb") as raw:
        try:
            return _read_state(raw)
        except MemoryError:
            raise
        except Exception as error:  # whatever a damaged archive may lead to
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise  # the disk, not the content
            raise ValueError(f"The file {os.fspath(path)!r} does not contain a state of minsep.") from None


def _read_state(raw: BinaryIO) -> State:
    """Read the archive that `save_state` wrote, which is not compressed: it needs no more memory than its size."""
    with zipfile.ZipFile(raw) as file:
        members = {member.filename.removesuffix(".npy"): member for member in file.infolist()}
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members.values())
        size = sum(member.file_size for member in members.values())
        if not stored or len(members) < len(file.infolist()) or size > os.fstat(raw.fileno()).st_size:
            raise ValueError
        arrays = {name: _read_array(file, member) for name, member in members.items()}
    state: State = json.loads(str(arrays.pop("plain")))
    if not isinstance(state, dict) or state.keys() & arrays.keys():
        raise ValueError
    return state | arrays


def _read_array(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray[Any, np.dtype[Any]]:
    """Read an array whose header promises what is there: a promise of terabytes would be allocated."""
    with file.open(member) as content:
        if np.lib.format.read_magic(content) != (1, 0):
            raise ValueError
        shape, _, dtype = np.lib.format.read_array_header_1_0(content)
        if math.prod(shape) * dtype.itemsize != member.file_size - content.tell():
            raise ValueError
    with file.open(member) as content:
        array: np.ndarray[Any, np.dtype[Any]] = np.lib.format.read_array(content, allow_pickle=False)
        return array
