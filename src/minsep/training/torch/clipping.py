"""Sums of clipped gradients in PyTorch, one micro-batch of examples at a time."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from minsep.core import validation as validate
from minsep.training.randomness import refusing_shared_draws
from minsep.training.run import CLIP_MARGIN
from minsep.training.torch.examples import Examples, count_examples, each, refuse_devices
from minsep.training.torch.ghost import Ghost
from minsep.training.torch.memory import fitting_micro_batch
from minsep.training.torch.methods import Gradients, Method, OneByOne, Seeds, Vmapped
from minsep.training.torch.models import LayerAtFault, refuse_mixing
from minsep.training.torch.objective import Loss, Objective
from minsep.training.torch.positions import NotRunError, Positions, Way, is_memory
from minsep.training.torch.randomness import torch_kept
from minsep.training.torch.remembering import refuse_other_norms, refusing_memory

SeedsOf = Callable[[slice], Sequence[bytes]]
"""Return the seeds of some examples of a batch, by their places in it."""

Clipping = Literal["auto", "vmap", "ghost"]

# Entries of per-example gradients above which they are not held in memory, unless asked for: 256 MiB.
_MOST_GRADIENT_ENTRIES = 1 << 26
_USUAL_MICRO_BATCH = 32


class ClippedSum:
    """Sums the gradients of examples, each clipped to a norm over all trainable parameters.

    Sums are flat vectors, in the order in which the model lists its parameters. A model that `vmap` cannot run is run
    one example at a time.

    Args:
        model: The model. Layers that mix or store examples are refused.
        loss: The loss, which is called for one example at a time, as a batch of one.
        clip_norm: Bound on the norm of the gradient of one example.
        micro_batch: Number of examples in memory at once. "auto" measures at the first step how many fit.
        per_layer: Whether to clip the parameters of each of K modules separately to `clip_norm / sqrt(K)`. The
            whole gradient is then also bounded by `clip_norm`.
        clipping: The method: "vmap", "ghost", or "auto" for the one that suits the size of the model.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clip_norm: float,
        micro_batch: int | Literal["auto"],
        per_layer: bool,
        clipping: Clipping = "auto",
    ) -> None:
        self.objective = Objective(model, loss)
        self.parameters, self.parts, self.size = self.objective.parameters, self.objective.parts, self.objective.size
        self.dtype, self.device = self.objective.dtype, self.objective.device
        self.held = self.size
        self._layers = self.objective.layers() if per_layer else [list(self.objective.parameters)]
        self._layer_norm = (1 - CLIP_MARGIN) * clip_norm / len(self._layers) ** 0.5
        self.micro_batch = None if micro_batch == "auto" else validate.integer(micro_batch=micro_batch, at_least=1)
        if clipping not in get_args(Clipping):
            raise ValueError(f'clipping is {clipping!r}, but it must be "auto", "vmap" or "ghost".')
        large = (self.micro_batch or _USUAL_MICRO_BATCH) * self.size > _MOST_GRADIENT_ENTRIES
        ghost = clipping == "ghost" or (clipping == "auto" and large)
        self._sums = 0
        self._notes: set[str] = set()
        self._method: Method = Ghost(self.objective) if ghost else Vmapped(self.objective)
        self._positions = Positions(self.objective, self._layers)

    def set_gradients(self, flat: Tensor) -> None:
        """Give the parameters their gradients.

        Args:
            flat: The gradients.
        """
        for parameter, part in zip(self.parameters.values(), self.parts(flat).values(), strict=True):
            # A copy: in float64 it would share memory with the next sum.
            parameter.grad = part.view_as(parameter).to(parameter.device, parameter.dtype, copy=True)

    def add_to(
        self, flat: Tensor, inputs: Examples, targets: Examples, scales: Tensor | None, seeds_of: SeedsOf
    ) -> None:
        """Add the clipped gradients of the examples to a flat vector. A non-finite gradient makes it non-finite.

        Args:
            flat: The vector, changed in place.
            inputs: The inputs of the examples.
            targets: The targets of the examples.
            scales: A flat vector by which gradients are multiplied before they are clipped, or None.
            seeds_of: Function that returns the seeds of some of the examples, which determine their dropout.
        """
        refuse_mixing(self.objective.model)
        refuse_devices(self.objective.device, inputs=inputs, targets=targets)
        totals = self.parts(flat)
        parts_of_scales = None if scales is None else self.parts(scales)
        examples, start, used = count_examples(inputs), 0, list[Way]()
        watched = refusing_memory(model=self.objective.model, loss=self.objective.loss)
        of_first: list[Tensor] = []
        with torch_kept(), refusing_shared_draws(), watched:
            while start < examples:
                real, gradients, way = self._gradients(inputs, targets, start, examples, seeds_of)
                used.append(way)
                with self._in_full_precision():
                    for names in self._layers:
                        norms = gradients.norms(names, parts_of_scales)
                        of_first += [] if start else [norms[0]]
                        factors = (self._layer_norm / norms.clamp(min=self._layer_norm)).to(flat.dtype)
                        factors[real:] = 0.0
                        gradients.add_to(totals, names, factors)
                start += real
            if examples and used[0] == used[-1] and self._is_repeated(used[0]):
                _, gradients, _ = self._gradients(inputs, targets, 0, 1, seeds_of)
                with self._in_full_precision():
                    again = [gradients.norms(names, parts_of_scales)[0] for names in self._layers]
                refuse_other_norms(torch.stack(of_first), torch.stack(again), self._layer_norm, self.objective.model)
        for way in dict.fromkeys(used):
            if way.note and way.note not in self._notes:
                self._notes.add(way.note)
                warnings.warn(way.note, stacklevel=3)

    def _is_repeated(self, way: Way) -> bool:
        """Return whether the gradient of the first example is computed again at the end of this sum.

        Single examples cost little, and a model that runs on single examples can remember most. Whole micro-batches are
        computed again at the first sum, the second, the fourth, and so on.

        Args:
            way: How the gradients were computed.
        """
        self._sums += 1
        return isinstance(way.method, OneByOne) or self._sums.bit_count() == 1

    def _in_full_precision(self) -> torch.autocast:
        """Return a block without the user's autocast, which would round norms and sums."""
        return torch.autocast(self.objective.device.type, enabled=False)

    def _gradients(
        self, inputs: Examples, targets: Examples, start: int, examples: int, seeds_of: SeedsOf
    ) -> tuple[int, Gradients, Way]:
        """Return how many of the examples a micro-batch holds, their gradients, and how these were computed."""
        # Every micro-batch is padded to the same size with its first example: a kernel chosen by the size may round
        # all gradients differently, and then each would depend on the other examples.
        way = self._way(inputs, targets, seeds_of)
        real = min(way.size, examples - start)
        some, their_targets, seeds = self._padded(inputs, targets, seeds_of, start, real, way.size)
        try:
            return real, way.method(some, their_targets, seeds), way
        except RuntimeError as error:
            if isinstance(way.method, OneByOne) or is_memory(error):
                raise
            self._fall_back(error, some, their_targets, seeds)
        return self._gradients(inputs, targets, start, examples, seeds_of)

    def _way(self, inputs: Examples, targets: Examples, seeds_of: SeedsOf) -> Way:
        """Return how gradients are computed: as asked for, unless they would depend on the places of the examples."""
        asked = Way(self._method, self.micro_batch or self._fitting(inputs, targets, seeds_of))
        try:
            return self._positions.way(asked, inputs, targets)
        except NotRunError as error:
            if isinstance(error.reason, RuntimeError) and error.alone is not None:
                self._fall_back(error.reason, *error.alone)
                return Way(self._method, 1)
            return self._positions.one_by_one(asked, inputs, targets, error.reason)

    def _padded(
        self, inputs: Examples, targets: Examples, seeds_of: SeedsOf, start: int, real: int, size: int
    ) -> tuple[Examples, Examples, Seeds]:
        """Return a micro-batch of `size` examples: `real` ones from `start` on, then the first of them again."""
        places = torch.arange(start, start + size, device=self.objective.device)
        places[real:] = start
        some, their_targets = (each(lambda tensor: tensor[places], tree) for tree in (inputs, targets))
        return some, their_targets, partial(_padded_seeds, seeds_of, start, real, size)

    def _fitting(self, inputs: Examples, targets: Examples, seeds_of: SeedsOf) -> int:
        """Return how many examples fit into memory, and remember it. A model that vmap cannot run takes one."""

        def compute(size: int) -> None:
            gradients = self._method(*self._padded(inputs, targets, seeds_of, 0, 1, size))
            with self._in_full_precision():
                for names in self._layers:
                    gradients.norms(names, None)

        try:
            self.micro_batch = fitting_micro_batch(compute, self.objective.device)
        except RuntimeError:
            self.micro_batch = 1
        return self.micro_batch

    def _fall_back(self, error: RuntimeError, some: Examples, targets: Examples, seeds: Seeds) -> None:
        """Take examples one by one from now on, if that is possible where the method failed."""
        one_by_one = OneByOne(self.objective)
        with LayerAtFault(self.objective.model) as layer:
            try:
                one_by_one(some, targets, seeds)
            except RuntimeError as its_error:
                its_error.add_note(f"This happened in {layer}. The step was not taken: it may be repeated.")
                raise its_error from None
        # Once more, now that the layer is of interest.
        with LayerAtFault(self.objective.model) as layer, suppress(RuntimeError):
            self._method(some, targets, seeds)
        reason = str(error).strip().split("\n")[0].split(". ")[0]
        warnings.warn(
            f"vmap cannot run {layer}, so examples are taken one by one, which is slower: {reason}."
            + _advice(self.objective.model),
            stacklevel=2,
        )
        self._method, self.micro_batch = one_by_one, 1


def _padded_seeds(seeds_of: SeedsOf, start: int, real: int, size: int) -> list[bytes]:
    """Return the seeds of a micro-batch that is padded with its first example."""
    seeds = list(seeds_of(slice(start, start + real)))
    return seeds + [seeds[0]] * (size - real)


def _advice(model: nn.Module) -> str:
    if not any(getattr(layer, "gradient_checkpointing", False) for layer in model.modules()):
        return ""
    # transformers 5 has another name for it.
    switch = "activation" if hasattr(model, "activation_checkpointing_disable") else "gradient"
    return (
        f" The model uses gradient checkpointing: switch it off with model.{switch}_checkpointing_disable(), as "
        "micro_batch already bounds the memory."
    )
