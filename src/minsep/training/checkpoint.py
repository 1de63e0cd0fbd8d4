"""Checkpoints: nested values in one file of arrays and plain data. Loading executes no code."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep.core.plain import to_plain
from minsep.core.state import State, check_envelope, load_state, save_state

Array = NDArray[Any]
Encode = Callable[[Any], tuple[Array, str] | None]
"""Return an array of a framework as one of NumPy, with a note for decoding; None for any other value."""
Decode = Callable[[Array, str], Any]
"""Return the array of a framework that gave an array of NumPy and a note."""

_PLAIN_TYPES = (bool, int, float, str, type(None))


def save_checkpoint(path: str | os.PathLike[str], identity: State, content: Any, encode: Encode) -> None:
    """Write a checkpoint to a file that only its owner can read.

    Args:
        path: The file. An interrupted write leaves an existing file of that name unchanged.
        identity: What the checkpoint belongs to, in plain data.
        content: Numbers, text and arrays, in lists, tuples and dicts of any depth.
        encode: Function that converts an array of the framework to NumPy.
    """
    arrays: dict[str, Array] = {}
    plain = to_plain(content, partial(_pack, encode=encode, arrays=arrays))
    save_state(path, {**identity, "content": plain, **arrays})


def load_checkpoint(path: str | os.PathLike[str], identity: State, decode: Decode) -> Any:
    """Return the content of a checkpoint.

    Args:
        path: The file that `save_checkpoint` wrote.
        identity: What the checkpoint must belong to. Any other one is refused, and the error names the difference.
        decode: Function that converts a NumPy array to one of the framework.
    """
    state = load_state(path)
    check_envelope(state, identity)
    try:
        return _unpack(state["content"], decode, state)
    except MemoryError:
        raise
    except Exception:  # whatever a damaged content may lead to
        raise ValueError(f"The file {os.fspath(path)!r} does not contain a checkpoint of minsep.") from None


def _pack(value: Any, encode: Encode, arrays: dict[str, Array]) -> Any:
    """Return what stands for a value in plain data: for arrays their names in `arrays`, to which they are added."""
    if isinstance(value, (*_PLAIN_TYPES, list)):
        return value
    if isinstance(value, tuple):
        return {"tuple": list(value)}
    if isinstance(value, dict):
        return {"dict": [list(item) for item in value.items()]}
    encoded = (value, "numpy") if isinstance(value, np.ndarray) else encode(value)
    if encoded is None:
        raise ValueError(
            f"A checkpoint cannot hold {value!r}: it may hold numbers, text, arrays, and lists and dicts of them."
        )
    name = f"array {len(arrays)}"
    arrays[name], note = encoded
    return {"array": name, "note": note}


def _unpack(value: Any, decode: Decode, arrays: State) -> Any:
    if isinstance(value, list):
        return [_unpack(item, decode, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_unpack(item, decode, arrays) for item in value["tuple"])
    if "dict" in value:
        return {_unpack(key, decode, arrays): _unpack(item, decode, arrays) for key, item in value["dict"]}
    array = arrays[value["array"]]
    return array if value["note"] == "numpy" else decode(array, value["note"])
