"""Sums of clipped gradients of a fully sharded model, by shard."""

from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as together

from minsep.training.randomness import refusing_shared_draws
from minsep.training.run import CLIP_MARGIN
from minsep.training.torch.examples import Examples, count_examples, each, refuse_devices
from minsep.training.torch.methods import add_rows, norms_of, without_gradients
from minsep.training.torch.models import refuse_mixing
from minsep.training.torch.objective import Loss, Objective
from minsep.training.torch.randomness import SeededExample, torch_kept
from minsep.training.torch.remembering import refuse_other_norms, refusing_memory
from minsep.training.torch.sharded.exchange import Exchange
from minsep.training.torch.sharded.shards import Shards, local_part


class ShardedSum:
    """Sums the clipped gradients of examples over all processes. Each process has its part of the sum.

    Each process runs its examples one by one. It then receives, for the example of every process, the part of the
    gradient that belongs to its own shard. Only norms are added up over the shards.

    Args:
        model: The model, after `fully_shard`.
        loss: The loss, which is called for one example at a time, as a batch of one.
        clip_norm: Bound on the norm of the gradient of one example.
        per_layer: Whether to clip the parameters of each of K modules separately to `clip_norm / sqrt(K)`.
        processes: The number of processes.
    """

    def __init__(self, model: nn.Module, loss: Loss, clip_norm: float, per_layer: bool, processes: int) -> None:
        self.objective = Objective(model, loss)
        self.parameters, self.size = self.objective.parameters, self.objective.size
        self.dtype, self.device = self.objective.dtype, self.objective.device
        self._shards = Shards(self.parameters, processes)
        self.columns = self._shards.columns
        self.held = sum(self._shards.sizes.values())
        self.micro_batch: int | None = 1
        self._layers = self.objective.layers() if per_layer else [list(self.parameters)]
        self._layer_norm = (1 - CLIP_MARGIN) * clip_norm / len(self._layers) ** 0.5
        self._exchange = Exchange(model)
        self._processes = processes

    def parts(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the parts of a flat vector by the names of their parameters.

        Args:
            flat: What this process holds of a vector. The parts share its memory.
        """
        return dict(zip(self.parameters, torch.split(flat, list(self._shards.sizes.values())), strict=True))

    def set_gradients(self, flat: Tensor) -> None:
        """Give the parameters their gradients.

        Args:
            flat: What this process holds of the gradients.
        """
        for name, part in self.parts(flat).items():
            self.parameters[name].grad = self._shards.from_part(name, part.to(self.parameters[name].dtype, copy=True))

    def add_to(self, flat: Tensor, inputs: Examples, targets: Examples, scales: Tensor | None, seeds_of: Any) -> None:
        """Add the clipped gradients of the examples of all processes to a flat vector.

        Args:
            flat: What this process holds of the vector, changed in place.
            inputs: The inputs of the examples of this process.
            targets: The targets of the examples of this process.
            scales: What this process holds of a vector by which gradients are multiplied before they are clipped, or
                None.
            seeds_of: Function that returns the seeds of some of the examples, which determine their dropout.
        """
        refuse_mixing(self.objective.model)
        refuse_devices(self.device, inputs=inputs, targets=targets)
        examples = count_examples(inputs)
        counts = self._counts(examples)
        if counts.max() > 0 and counts.min() == 0:
            inputs, targets = _with_example(inputs, targets, int(counts.argmax()), self.device)
        totals, parts_of_scales = self.parts(flat), None if scales is None else self.parts(scales)
        with (
            torch_kept(),
            refusing_shared_draws(),
            refusing_memory(model=self.objective.model, loss=self.objective.loss),
        ):
            most, of_first = int(counts.max()), torch.zeros(0)
            # In the end each process repeats its first example, to see whether its gradient is still the same.
            for place in range(most + 1 if most else 0):
                # A process that has no more examples repeats its first one, which counts for nothing.
                own = place if place < examples else 0
                seed = seeds_of(slice(own, own + 1)) if examples else [bytes(32)]
                rows = self._rows(inputs, targets, own, seed)
                if parts_of_scales is not None:
                    rows = {name: part * parts_of_scales[name] for name, part in rows.items()}
                norms = self._add_rows(totals, rows, counts > place)
                of_first = norms if place == 0 else of_first
            if most:
                refuse_other_norms(of_first, norms, self._layer_norm, self.objective.model)

    def _counts(self, examples: int) -> Tensor:
        """Return how many examples each process has."""
        counts = torch.zeros(self._processes, dtype=torch.int64, device=self.device)
        counts[together.get_rank()] = examples
        together.all_reduce(counts)
        return counts

    def _rows(self, inputs: Examples, targets: Examples, place: int, seed: list[bytes]) -> dict[str, Tensor]:
        """Return this process's part of the gradients of one example of each process, in rows."""
        one, its_targets = (each(lambda tensor: tensor[place], tree) for tree in (inputs, targets))
        with SeededExample(lambda: seed), without_gradients(self.objective):
            self.objective.of_one(None, one, its_targets).backward()  # type: ignore[no-untyped-call]
            gradients = {
                name: local_part(parameter.grad)
                for name, parameter in self.parameters.items()
                if parameter.grad is not None
            }
        return {name: rows.to(self.dtype) for name, rows in self._exchange.rows(gradients).items()}

    def _add_rows(self, totals: dict[str, Tensor], rows: dict[str, Tensor], real: Tensor) -> Tensor:
        """Add the clipped rows of processes whose example is real, and return their norms by layer and process."""
        squares = torch.zeros(len(self._layers), self._processes, dtype=torch.float64, device=self.device)
        for names, square in zip(self._layers, squares, strict=True):
            held = [rows[name] for name in names if name in rows and rows[name].numel()]
            if held:
                square.copy_(norms_of(held).square_())
        together.all_reduce(squares)
        norms = squares.sqrt_()
        factors = self._layer_norm / norms.clamp(min=self._layer_norm)
        factors[:, ~real] = 0.0
        for names, factor in zip(self._layers, factors, strict=True):
            for name in names:
                if name in rows:
                    add_rows(totals[name], rows[name], factor.to(totals[name].dtype))
        return norms


def _with_example(inputs: Examples, targets: Examples, source: int, device: torch.device) -> tuple[Examples, Examples]:
    """Return the examples; the first one of another process if there is none."""
    shared: list[Any] = [None]
    if together.get_rank() == source:
        shared = [tuple(each(lambda tensor: tensor[:1].cpu(), tree) for tree in (inputs, targets))]
    together.broadcast_object_list(shared, src=source)
    if inputs is not None and count_examples(inputs):
        return inputs, targets
    one, its_targets = (each(lambda tensor: tensor.to(device), tree) for tree in shared[0])
    return one, its_targets
