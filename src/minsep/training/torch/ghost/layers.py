"""Layers whose gradients are known functions of their inputs and of the gradients of their outputs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from minsep.training.torch.ghost.uses import Lookup, Product, Use

Rule = Callable[[Any, Tensor, Tensor], dict[str, Use]]
"""(layer, its inputs, gradients of its outputs) to what each of its parameters gets from this call.

The first dimension of both tensors counts examples; the others are those the layer sees.
"""


def rule_of(layer: nn.Module) -> Rule | None:
    """Return the rule of a layer; None if its kind has none.

    Args:
        layer: A module. A subclass with a forward pass of its own is of another kind.
    """
    if "forward" in vars(layer) or "_conv_forward" in vars(layer):
        return None
    forward = type(layer).forward
    if forward is nn.Linear.forward:
        return _linear
    if (type(layer).__module__, type(layer).__name__) == ("transformers.pytorch_utils", "Conv1D"):
        return _transposed_linear
    if forward is nn.Conv1d.forward or forward is nn.Conv2d.forward:
        if getattr(type(layer), "_conv_forward", None) not in (nn.Conv1d._conv_forward, nn.Conv2d._conv_forward):
            return None
        return _convolution if layer.padding_mode == "zeros" and not isinstance(layer.padding, str) else None
    if forward is nn.Embedding.forward:
        return None if layer.scale_grad_by_freq else _embedding
    if forward is nn.LayerNorm.forward:
        return _layer_norm
    if forward is nn.GroupNorm.forward:
        return _group_norm
    return None


def _linear(layer: nn.Linear, inputs: Tensor, gradients: Tensor) -> dict[str, Use]:
    right, left = _in_places(inputs.to(gradients.dtype)), _in_places(gradients)
    return {"weight": Product(left, right), "bias": _sum(left, 1)}


def _transposed_linear(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Use]:
    left, right = _in_places(inputs.to(gradients.dtype)), _in_places(gradients)
    return {"weight": Product(left, right), "bias": _sum(right, 1)}


def _convolution(layer: nn.Conv1d | nn.Conv2d, inputs: Tensor, gradients: Tensor) -> dict[str, Use]:
    examples, dimensions = len(inputs), len(layer.kernel_size)
    numbers: list[Any] = [layer.kernel_size, layer.dilation, layer.padding, layer.stride]
    inputs = inputs.to(gradients.dtype).reshape(-1, layer.in_channels, *inputs.shape[-dimensions:])
    if dimensions == 1:
        inputs = inputs[:, :, None, :]
        numbers = [(neutral, number[0]) for neutral, number in zip((1, 1, 0, 1), numbers, strict=True)]
    patches = functional.unfold(inputs, *numbers).transpose(1, 2)  # (inputs, places, channels x kernel)
    right = patches.reshape(examples, -1, patches.shape[2])
    images = gradients.reshape(-1, layer.out_channels, gradients.shape[-dimensions:].numel())
    left = images.transpose(1, 2).reshape(examples, -1, layer.out_channels)
    bias = _sum(left, 1)
    if layer.groups == 1:
        return {"weight": Product(left, right), "bias": bias}
    in_groups = (part.reshape(*part.shape[:2], layer.groups, -1).permute(0, 2, 3, 1) for part in (left, right))
    of_outputs, of_inputs = in_groups
    return {"weight": of_outputs @ of_inputs.mT, "bias": bias}


def _embedding(layer: nn.Embedding, inputs: Tensor, gradients: Tensor) -> dict[str, Use]:
    index, rows = inputs.reshape(len(inputs), -1), _in_places(gradients)
    if layer.padding_idx is not None:
        rows = rows * (index != layer.padding_idx)[:, :, None]
    return {"weight": Lookup(index, rows)}


def _layer_norm(layer: nn.LayerNorm, inputs: Tensor, gradients: Tensor) -> dict[str, Use]:
    normal = functional.layer_norm(inputs.to(layer.weight.dtype), layer.normalized_shape, eps=layer.eps)
    shape = (len(inputs), -1, layer.weight.numel())
    return {"weight": (normal * gradients).reshape(shape).sum(1), "bias": _sum(gradients.reshape(shape), 1)}


def _group_norm(layer: nn.GroupNorm, inputs: Tensor, gradients: Tensor) -> dict[str, Use]:
    # A group has all places of an image, so the images of all examples are normalised together.
    images = inputs.to(layer.weight.dtype).flatten(0, 1)
    normal = functional.group_norm(images, layer.num_groups, eps=layer.eps).reshape(gradients.shape)
    shape = (*gradients.shape[:2], layer.num_channels, -1)
    return {
        "weight": (normal * gradients).reshape(shape).sum((1, 3)),
        "bias": _sum(gradients.reshape(shape), (1, 3)),
    }


def _in_places(tensor: Tensor) -> Tensor:
    """Return a tensor as (examples, places, width)."""
    return tensor.reshape(len(tensor), -1, tensor.shape[-1])


def _sum(tensor: Tensor, dimensions: int | tuple[int, ...]) -> Tensor:
    """Return sums in single precision, or in double precision if the tensor has it."""
    return tensor.sum(dimensions, dtype=torch.promote_types(tensor.dtype, torch.float32))
