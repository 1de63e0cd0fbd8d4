"""What a model must not do: mix examples, store what it saw of them, or be in several places."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from minsep.training.torch.digests import digest

_GENERATOR_TYPES = np.random.Generator, np.random.RandomState, random.Random
_TYPES_THAT_MAY_CHANGE = Tensor, int, float, str, dict, list, tuple, *_GENERATOR_TYPES
_ATTRIBUTES_OF_TORCH = {*vars(nn.Module()), "_flat_weights"}  # parameters, buffers, submodules, hooks
_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm, nn.SyncBatchNorm)


def refuse_model(model: nn.Module) -> None:
    """Refuse a model with layers that mix or store examples, with sparse gradients, or on several devices.

    Args:
        model: The model, not wrapped for parallel training.

    >>> refuse_model(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    Traceback (most recent call last):
    ValueError: model has the layer '1', a BatchNorm1d, which mixes examples: use GroupNorm or LayerNorm, or keep \
its statistics with .eval().
    """
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        raise ValueError(f"model is wrapped in {type(model).__name__}, but it must be the bare module.")
    refuse_mixing(model)
    for name, layer in model.named_modules():
        layer_is = f"model has the layer {name!r}, a {type(layer).__name__}"
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats:
            raise ValueError(f"{layer_is} that keeps statistics of its examples: set track_running_stats=False.")
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            if layer.max_norm is not None:
                raise ValueError(
                    f"{layer_is} with max_norm, which changes weights depending on its examples: set max_norm=None."
                )
            if layer.sparse and layer.weight.requires_grad:
                raise ValueError(f"{layer_is} with sparse gradients, but noise is dense: set sparse=False.")
    for name, parameter in model.named_parameters():
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise ValueError(
                f"model has a hook after the gradient of {name!r} is accumulated, which would see gradients before "
                "they are clipped: remove it."
            )
    _refuse_devices(model)


def refuse_mixing(model: nn.Module) -> None:
    """Refuse batch normalisation that uses statistics of a batch. Its mode may change between steps.

    Args:
        model: The model.
    """
    for name, layer in model.named_modules():
        if isinstance(layer, _BATCH_NORMS) and (layer.training or layer.running_mean is None):
            raise ValueError(
                f"model has the layer {name!r}, a {type(layer).__name__}, which mixes examples: use GroupNorm or "
                "LayerNorm, or keep its statistics with .eval()."
            )


def _refuse_devices(model: nn.Module) -> None:
    first: tuple[str, Tensor] | None = None
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        first = first or (name, tensor)
        if tensor.device != first[1].device:
            raise ValueError(
                f"model has {name!r} on {tensor.device}, but {first[0]!r} on {first[1].device}: move the whole model "
                f'to one device, for example with model.to("{first[1].device}").'
            )


class ModelChangedError(ValueError):
    """A forward or backward pass has changed the model, which then holds what it saw, without noise."""


@contextmanager
def refusing_memory(**modules: Any) -> Iterator[None]:
    """Refuse a block of code in which a layer changes what it holds, parameters and buffers included.

    Args:
        modules: The model and the loss, by their names. What is not a module is not looked at.
    """
    watched = {place: module for place, module in modules.items() if isinstance(module, nn.Module)}
    before = {place: _held(module) for place, module in watched.items()}
    try:
        yield
    except Exception as error:
        _refuse_changes(watched, before, error)
        raise
    _refuse_changes(watched, before, None)


def _refuse_changes(watched: dict[str, nn.Module], before: dict[str, Any], cause: Exception | None) -> None:
    for place, module in watched.items():
        after = _held(module)
        for key in (*after, *(gone for gone in before[place] if gone not in after)):
            if before[place].get(key) != after.get(key):
                name, kind, attribute = key
                raise ModelChangedError(
                    f"{place} has the layer {name!r}, a {kind}, which sets {attribute!r} in its forward pass: what it "
                    "stores of one example could affect others. Start again with a model that does not."
                ) from cause


def _held(model: nn.Module) -> dict[tuple[str, str, str], Any]:
    """Return what layers hold, by (layer, its kind, attribute): what could change."""
    return {
        (name, type(layer).__name__, attribute): _fingerprint(value)
        for name, layer in model.named_modules()
        for attribute, value in (
            *vars(layer).items(),
            *layer.named_parameters(recurse=False),
            *layer.named_buffers(recurse=False),
        )
        if isinstance(value, _TYPES_THAT_MAY_CHANGE) and attribute not in _ATTRIBUTES_OF_TORCH
    }


def _fingerprint(value: Any) -> Any:
    """Return a summary of a value that differs after the value has changed."""
    match value:
        case Tensor():
            return value.shape, _content(value)
        case dict() | list() | tuple():
            return [_fingerprint(leaf) for leaf in tree_leaves(value) if isinstance(leaf, _TYPES_THAT_MAY_CHANGE)]
        case np.random.Generator():
            return str(value.bit_generator.state)
        case np.random.RandomState():
            return str(value.get_state(legacy=False))
        case random.Random():
            return hash(value.getstate())
    return value


def _content(tensor: Tensor) -> Any:
    """Return a digest of a tensor, which a write by `.data` changes as well."""
    try:
        return digest(tensor)
    except RuntimeError:
        return "a tensor that outlived the transformation it is of"


class LayerAtFault:
    """A block that knows in which layer an error was raised: `name` is '' and `kind` the model's if in none.

    Args:
        model: The model that runs in the block.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._inside: list[tuple[str, str]] = []

    def __enter__(self) -> "LayerAtFault":
        names = {id(layer): name for name, layer in self._model.named_modules()}

        def enter(layer: nn.Module, _: Any) -> None:
            self._inside.append((names[id(layer)], type(layer).__name__))

        def leave(*_: Any) -> None:
            self._inside.pop()

        layers = list(self._model.modules())
        self._handles = [layer.register_forward_pre_hook(enter, prepend=True) for layer in layers]
        self._handles += [layer.register_forward_hook(leave) for layer in layers]
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def __str__(self) -> str:
        """Return the layer's name and kind; the loss, if all layers were left."""
        if not self._inside:
            return "the loss or the backward pass"
        name, kind = self._inside[-1]
        return f"the layer {name!r}, a {kind}" if name else f"the model, a {kind}"
