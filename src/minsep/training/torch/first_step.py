"""A check after the first step: what is trained has moved, and what is frozen has not."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from minsep.training.torch.digests import digest
from minsep.training.torch.sharded.shards import local_part


class FirstStep:
    """Compares the parameters of a model before and after its first update with a learning rate above zero.

    Args:
        model: The model.
        optimizer: The optimiser that updates the trainable parameters of the model.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self._done = False

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Enter the update of a step. A frozen parameter that changes in it is refused; one that stays is warned of."""
        if self._done:
            yield
            return
        before = {name: digest(parameter) for name, parameter in self._model.named_parameters()}
        yield
        rates = {id(parameter): group["lr"] for group in self._optimizer.param_groups for parameter in group["params"]}
        for name, parameter in self._model.named_parameters():
            moved = before[name] != digest(parameter)
            if moved and id(parameter) not in rates:
                raise RuntimeError(
                    f"The frozen parameter {name!r} changed in the first step, without noise: release nothing of this "
                    "run, and find what changes it besides the optimizer."
                )
            gradient = None if parameter.grad is None else local_part(parameter.grad)
            updated = rates.get(id(parameter), 0.0) and gradient is not None and bool((gradient != 0).any())
            if updated and not moved:
                warnings.warn(
                    f"The parameter {name!r} did not move in the first step: its update is too small for "
                    f"{parameter.dtype}. Keep trainable parameters in float32, or raise the learning rate.",
                    stacklevel=4,
                )
        self._done = any(rates.values())
