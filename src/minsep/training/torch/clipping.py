"""Sums of clipped gradients in PyTorch: one gradient per example by `vmap(grad)`, one micro-batch at a time."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from minsep import _validation as validate
from minsep.training.randomness import refusing_shared_draws
from minsep.training.run import CLIP_MARGIN
from minsep.training.torch.randomness import DrawsOfExamples, torch_kept

Loss = Callable[[Any, Any], Tensor]
Examples = Any
"""A tensor whose first dimension counts examples, or a tuple or dict of such: the arguments of the model."""

SeedsOf = Callable[[slice], Sequence[bytes]]
"""Return the seeds of some examples of a batch, by their places in it."""

_MIXING = (nn.modules.batchnorm._BatchNorm, nn.SyncBatchNorm)
_PIECE = 256
_COLUMNS = 1 << 15


class ClippedSum:
    """Sums the gradients of examples, each clipped to a norm over all trainable parameters.

    - `model`: the model. Layers that mix or store examples are refused.
    - `loss(outputs, targets)` is called for one example at a time, as a batch of one.
    - `clip_norm`: bound on the norm of the gradient of one example.
    - `micro_batch`: number of examples whose gradients are in memory at once.
    - `per_layer`: whether the parameters of each of K modules are clipped separately to `clip_norm / sqrt(K)`. The
      whole gradient is then also bounded by `clip_norm`.

    Sums are flat vectors, in the order in which the model lists its parameters. The attribute `dtype` is that of
    per-example gradients: float64 if a parameter has it, and float32 otherwise.
    """

    def __init__(self, model: nn.Module, loss: Loss, clip_norm: float, micro_batch: int, per_layer: bool) -> None:
        refuse_mixing(model)
        self._model = model
        self.parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
        if not self.parameters:
            raise ValueError("model has no trainable parameters.")
        for name, parameter in self.parameters.items():
            if not parameter.dtype.is_floating_point:
                raise ValueError(
                    f"model has the parameter {name!r} of {parameter.dtype}, but it must have a real floating dtype."
                )
        layer_of = (lambda name: name.rpartition(".")[0]) if per_layer else (lambda name: "")
        self._layers = [list(names) for _, names in groupby(self.parameters, key=layer_of)]
        self._layer_norm = (1 - CLIP_MARGIN) * clip_norm / len(self._layers) ** 0.5
        self._micro_batch = validate.integer(micro_batch=micro_batch, at_least=1)
        self._sizes = [parameter.numel() for parameter in self.parameters.values()]
        self.size = sum(self._sizes)
        double = any(parameter.dtype == torch.float64 for parameter in self.parameters.values())
        self.dtype = torch.float64 if double else torch.float32
        self.device = next(iter(self.parameters.values())).device

        def loss_of_one(parameters: dict[str, Tensor], inputs: Examples, targets: Examples) -> Tensor:
            arguments, keywords = _arguments(_each(lambda tensor: tensor[None], inputs))
            output = functional_call(model, parameters, arguments, keywords)
            return loss(output, _each(lambda tensor: tensor[None], targets))

        self._gradients = vmap(grad(loss_of_one), in_dims=(None, 0, 0), randomness="different")

    def parts(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the parts of a flat vector by the names of their parameters.

        - `flat`: the vector. The parts share its memory.
        """
        pieces = torch.split(flat, self._sizes)
        return dict(zip(self.parameters, pieces, strict=True))

    def add_to(
        self, flat: Tensor, inputs: Examples, targets: Examples, scales: Tensor | None, seeds_of: SeedsOf
    ) -> None:
        """Add the clipped gradients of the examples to a flat vector. A non-finite gradient makes it non-finite.

        - `flat`: the vector, changed in place.
        - `inputs`, `targets`: the examples.
        - `scales`: a flat vector by which gradients are multiplied before they are clipped, or None.
        - `seeds_of`: returns the seeds of some of the examples, which determine their dropout.
        """
        before = _held(self._model)
        with torch_kept(), refusing_shared_draws():
            self._add_to(flat, inputs, targets, scales, seeds_of)
        _refuse_memory(before, _held(self._model))

    def _add_to(
        self, flat: Tensor, inputs: Examples, targets: Examples, scales: Tensor | None, seeds_of: SeedsOf
    ) -> None:
        totals = self.parts(flat)
        parts_of_scales = None if scales is None else self.parts(scales)
        constants = {name: parameter.detach() for name, parameter in self.parameters.items()}
        examples = count_examples(inputs)
        for start in range(0, examples, self._micro_batch):
            # Every micro-batch is padded to the same size with its first example: a kernel chosen by the size may
            # round all gradients differently, and then each would depend on the other examples.
            real = min(self._micro_batch, examples - start)
            places = torch.arange(start, start + self._micro_batch, device="cpu")
            places[real:] = start
            some, their_targets = (_each(partial(_rows, places), tree) for tree in (inputs, targets))
            with DrawsOfExamples(partial(_of_places, seeds_of, start, real, self._micro_batch)):
                of_each = self._gradients(constants, some, their_targets)
            gradients = {
                name: gradient.detach().reshape(len(gradient), -1).to(flat.device, self.dtype)
                for name, gradient in of_each.items()
            }
            if parts_of_scales is not None:
                gradients = {name: gradient * parts_of_scales[name] for name, gradient in gradients.items()}
            for names in self._layers:
                norm = norms_of([gradients[name] for name in names])
                factors = (self._layer_norm / norm.clamp(min=self._layer_norm)).to(flat.dtype)
                factors[real:] = 0.0
                for name in names:
                    _add_rows(totals[name], gradients.pop(name), factors)


def norms_of(parts: list[Tensor]) -> Tensor:
    """Return the norm of each row over several matrices, in double precision.

    - `parts`: matrices with one row for each example.

    A sum of squares in single precision loses the small entries of a long row. So norms are taken of short pieces, and
    then of these norms.

    >>> row = torch.full((1, 1 << 20), 2.43e-4)
    >>> row[0, :8] = 1.0
    >>> round(float(norms_of([row]) / row.double().norm()), 5)
    1.0
    """
    norms = []
    for part in parts:
        whole = part.shape[1] // _PIECE * _PIECE
        norms.append(torch.linalg.vector_norm(part[:, :whole].reshape(len(part), -1, _PIECE), dim=2))
        norms.append(torch.linalg.vector_norm(part[:, whole:], dim=1, keepdim=True))
    norm: Tensor = torch.linalg.vector_norm(torch.cat(norms, dim=1).double(), dim=1)
    return norm


def _rows(places: Tensor, tensor: Tensor) -> Tensor:
    return tensor[places.to(tensor.device)]


def _of_places(seeds_of: SeedsOf, start: int, real: int, size: int) -> list[bytes]:
    """Return the seeds of a micro-batch that is padded with its first example."""
    seeds = list(seeds_of(slice(start, start + real)))
    return seeds + [seeds[0]] * (size - real)


def _add_rows(total: Tensor, rows: Tensor, factors: Tensor) -> None:
    """Add rows times their factors in the precision of the total, a few columns at a time to save memory."""
    for start in range(0, rows.shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        total[part].addmv_(rows[:, part].to(total.dtype).T, factors)


def count_examples(examples: Examples) -> int:
    """Return how many examples there are.

    - `examples`: tensors whose first dimension counts examples, or None for an empty batch.

    >>> count_examples({"words": torch.zeros(3, 5), "mask": torch.zeros(3, 5)})
    3
    """
    if examples is None:
        return 0
    counts = {len(tensor) for tensor in _leaves(examples)}
    if len(counts) != 1:
        raise ValueError(f"The examples have first dimensions {sorted(counts)}, but these must be equal.")
    return counts.pop()


def refuse_mixing(model: nn.Module) -> None:
    """Refuse a model with layers that mix examples, or that store the examples they saw.

    - `model`: the model, not wrapped for parallel training.

    >>> refuse_mixing(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    Traceback (most recent call last):
    ValueError: model has the layer '1', a BatchNorm1d, which mixes examples: use GroupNorm or LayerNorm.
    """
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        raise ValueError(f"model is wrapped in {type(model).__name__}, but it must be the bare module.")
    for name, layer in model.named_modules():
        kind = type(layer).__name__
        if isinstance(layer, _MIXING):
            raise ValueError(
                f"model has the layer {name!r}, a {kind}, which mixes examples: use GroupNorm or LayerNorm."
            )
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats:
            raise ValueError(
                f"model has the layer {name!r}, a {kind} that keeps statistics of its examples: set "
                "track_running_stats=False."
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
            raise ValueError(
                f"model has the layer {name!r}, a {kind} with max_norm, which changes weights depending on its "
                "examples: set max_norm=None."
            )


Held = dict[tuple[str, str, str], Any]


def _held(model: nn.Module) -> Held:
    """Return what layers hold besides their parameters, by (layer, its kind, attribute): what could change."""
    return {
        (name, type(layer).__name__, attribute): _fingerprint(value)
        for name, layer in model.named_modules()
        for attribute, value in (*vars(layer).items(), *layer.named_buffers(recurse=False))
        if isinstance(value, Tensor | int | float | str | np.random.Generator | np.random.RandomState | random.Random)
    }


def _fingerprint(value: Any) -> Any:
    """Return a summary of a value that differs after the value has changed."""
    match value:
        case Tensor():
            return id(value), 0 if value.is_inference() else value._version
        case np.random.Generator():
            return str(value.bit_generator.state)
        case np.random.RandomState():
            return str(value.get_state(legacy=False))
        case random.Random():
            return hash(value.getstate())
    return value


def _refuse_memory(before: Held, after: Held) -> None:
    for (name, kind, attribute), value in after.items():
        if before.get((name, kind, attribute)) != value:
            raise ValueError(
                f"model has the layer {name!r}, a {kind}, which sets {attribute!r} in its forward pass: what it stores "
                "of one example could affect others."
            )


def _each(change: Callable[..., Tensor], tree: Examples) -> Examples:
    if isinstance(tree, dict):
        return {name: _each(change, value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(_each(change, value) for value in tree)
    return change(tree)


def _leaves(tree: Examples) -> list[Tensor]:
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, list | tuple) else [tree]


def _arguments(inputs: Examples) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, dict):
        return (), inputs
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}
