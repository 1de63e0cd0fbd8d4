"""What a step must not leave behind: a model or a loss that holds what it saw of an example."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from minsep.training.torch.digests import digests
from minsep.training.torch.reach import Owner, Same, held_by

# Of larger tensors outside of modules, such as a whole dataset, only writes that torch counts are seen.
_MOST_ENTRIES = 1 << 22


class ModelChangedError(ValueError):
    """A forward or backward pass has changed the model, which then holds what it saw, without noise."""


@contextmanager
def refusing_memory(**roots: Any) -> Iterator[None]:
    """Refuse a block of code in which anything changes that can be reached from a model or a loss.

    Args:
        roots: The model and the loss, by their names.
    """
    before = _held(roots)
    try:
        yield
    except Exception as error:
        _refuse_changes(roots, before, error)
        raise
    _refuse_changes(roots, before, None)


def refuse_other_norms(before: Tensor, again: Tensor, clip_norm: float, model: nn.Module) -> None:
    """Refuse a model whose gradient of an example is another when it is computed again: it remembers, wherever that is.

    Args:
        before: Norms of the gradient of an example, each over some parameters.
        again: The norms when the gradient was computed again, after those of other examples.
        clip_norm: What the norms are clipped to. Below it, differences count relative to it.
        model: The model, whose precision decides which differences are rounding.
    """
    device = before.device.type
    dtypes = {value.dtype for value in model.parameters() if value.dtype.is_floating_point}
    dtypes |= {torch.get_autocast_dtype(device)} if torch.is_autocast_enabled(device) else set()
    rounding = max(torch.finfo(dtype).eps for dtype in dtypes) ** 0.5
    differences = (before - again).abs() / torch.maximum(before, again).clamp(min=clip_norm)
    if float(differences.max()) > rounding:  # false for NaN, which is refused elsewhere
        raise ModelChangedError(
            f"The gradient of an example changes by {float(differences.max()):.2g} times its norm when it is computed "
            "again after others: the model or its loss remembers what it saw, or draws random numbers outside of "
            "torch. Start again with a model that does not."
        )


def _refuse_changes(roots: dict[str, Any], before: dict[Owner, Any], cause: Exception | None) -> None:
    after = _held(roots)
    for owner in (*after, *(gone for gone in before if gone not in after)):
        if before.get(owner) != after.get(owner):
            reason = "" if cause is None else f" This may come from an error before: {cause}"
            raise ModelChangedError(
                f"{owner.root} has {owner.holder}, which sets {owner.name!r} in its forward pass: what it stores of "
                f"one example could affect others. Start again with a model that does not.{reason}"
            ) from cause


def _held(roots: dict[str, Any]) -> dict[Owner, list[Any]]:
    """Return summaries of all that can be reached. A summary differs after its value has changed."""
    held = {
        owner: [_summary(value, owner.holder.startswith("the layer")) for value in values]
        for owner, values in held_by(**roots).items()
    }
    contents = iter(digests([part for parts in held.values() for part in parts if isinstance(part, Tensor)]))

    def compared(part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        content = next(contents)
        return tuple(part.shape), Same(part) if content is None else content

    return {owner: [compared(part) for part in parts] for owner, parts in held.items()}


def _summary(value: Any, whole: bool) -> Any:
    """Return a summary of a value; a tensor whose content is to be compared as it is.

    Args:
        value: The value.
        whole: Whether contents of any size are compared.
    """
    match value:
        case Tensor():
            if whole or value.numel() <= _MOST_ENTRIES:
                return value
            return tuple(value.shape), None if value.is_inference() else value._version
        case np.ndarray():
            if value.dtype.hasobject or (value.size > _MOST_ENTRIES and not whole):
                return value.shape, id(value)
            return torch.from_numpy(np.ravel(value).copy().view(np.uint8))
        case np.random.Generator():
            return str(value.bit_generator.state)
        case np.random.RandomState():
            return str(value.get_state(legacy=False))
        case random.Random():
            return hash(value.getstate())
        case torch.Generator():
            return value.get_state().numpy().tobytes()
        case bytearray():
            return bytes(value)
    return repr(value) if isinstance(value, float) else value  # NaN differs from itself
