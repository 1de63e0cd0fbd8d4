"""Saved states of streams: what they must match, and files that only their owner can read.

A state holds the key of its stream. Anyone who can read it can reconstruct every batch and subtract the noise, so it is
as secret as the data itself.
"""

import json
import os
import zipfile
from typing import Any, Never

import numpy as np

from minsep.files import write_whole

State = dict[str, Any]

_VERSION = 1


class Guard:
    """Marks the steps of a stream. An interrupted step cannot be continued."""

    def __init__(self) -> None:
        self._under_way = False

    def check(self) -> None:
        """Refuse to continue after an interruption."""
        if self._under_way:
            raise RuntimeError("The stream was interrupted in the middle of a step: restore it with load_state_dict().")

    def __enter__(self) -> None:
        self.check()
        self._under_way = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
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
        if found != value:
            raise ValueError(
                f"The state has {name} {found!r}, but this stream has {value!r}: resume with the mechanism, the sizes "
                "and the version of minsep that saved it."
            )


def save_state(path: str | os.PathLike[str], state: State) -> None:
    """Write a state to a file that only its owner can read; an interrupted write leaves the old file unchanged.

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
    """Read a state from the file `path`; nothing in it is executed.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.state")
    >>> save_state(path, {"position": 3})
    >>> load_state(path)
    {'position': 3}
    """
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            state: State = json.loads(str(file["plain"]))
            state.update({name: file[name] for name in file.files if name != "plain"})
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"The file {os.fspath(path)!r} does not contain a state of minsep.") from None
    return state
