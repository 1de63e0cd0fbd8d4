"""A model with its loss and trainable parameters, as methods of computing gradients see it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from minsep.training.torch.examples import Examples, arguments, each
from minsep.training.torch.models import refuse_loss, refuse_model


class Loss(Protocol):
    """A loss of one example: (outputs of the model, targets) to one number."""

    def __call__(self, outputs: Any, targets: Any, /) -> Tensor:
        """Return the loss.

        Args:
            outputs: What the model returned for a batch of one.
            targets: The targets, a batch of one. None if the step was given none.
        """
        ...


class Objective:
    """The loss of one example as a function of the trainable parameters.

    Flat vectors have the order in which the model lists its parameters. The attribute `dtype` is that of per-example
    gradients: float64 if a parameter has it, and float32 otherwise.

    Args:
        model: The model. Layers that mix or store examples are refused.
        loss: The loss, which is called for one example at a time, as a batch of one.
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        refuse_model(model)
        refuse_loss(loss, model)
        self.model, self.loss = model, loss
        self.parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
        if not self.parameters:
            raise ValueError("model has no trainable parameters.")
        for name, parameter in self.parameters.items():
            if not parameter.dtype.is_floating_point:
                raise ValueError(
                    f"model has the parameter {name!r} of {parameter.dtype}, but it must have a real floating dtype."
                )
        self._forms = {name: _form(value) for name, value in self.parameters.items()}
        self._sizes = [parameter.numel() for parameter in self.parameters.values()]
        self.size = sum(self._sizes)
        self._standing_in: dict[str, Tensor] | None = None
        double = any(parameter.dtype == torch.float64 for parameter in self.parameters.values())
        self.dtype = torch.float64 if double else torch.float32
        self.device = next(iter(self.parameters.values())).device

    def refuse_changes(self) -> None:
        """Refuse a model whose trainable parameters are no longer those it had when the training was constructed."""
        now = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        for name in {**self.parameters, **now}:
            before, here = self._forms.get(name), _form(now[name]) if name in now else None
            if before != here or now[name] is not self.parameters[name]:
                raise RuntimeError(
                    f"The parameter {name!r} of the model is {_in_words(here)}, but it was {_in_words(before)} when "
                    "the training was constructed: construct the training after the model has its final form."
                )

    def layers(self) -> list[list[str]]:
        """Return the names of the parameters, in groups that belong to one module."""
        return [list(names) for _, names in groupby(self.parameters, key=lambda name: name.rpartition(".")[0])]

    def parts(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the parts of a flat vector by the names of their parameters.

        Args:
            flat: The vector. The parts share its memory.
        """
        pieces = torch.split(flat, self._sizes)
        return dict(zip(self.parameters, pieces, strict=True))

    def constants(self) -> dict[str, Tensor]:
        """Return the trainable parameters without their history, or what stands in for them."""
        if self._standing_in is not None:
            return dict(self._standing_in)
        return {name: parameter.detach() for name, parameter in self.parameters.items()}

    def frozen(self) -> dict[str, Tensor]:
        """Return the parameters that are not trained."""
        named = self.model.named_parameters()
        return {name: value.detach() for name, value in named if name not in self.parameters}

    @contextmanager
    def standing_in(self, values: dict[str, Tensor]) -> Iterator[None]:
        """Enter a block in which other values stand in for the trainable parameters in `constants`.

        Args:
            values: The values.
        """
        self._standing_in = values
        try:
            yield
        finally:
            self._standing_in = None

    def of_one(self, parameters: dict[str, Tensor] | None, inputs: Examples, targets: Examples) -> Tensor:
        """Return the loss of one example.

        Args:
            parameters: Parameters that are used in place of the model's own. None uses the model's own.
            inputs: The inputs of the example, without a dimension that counts examples.
            targets: The targets of the example, without a dimension that counts examples.
        """
        positional, named = arguments(each(_as_batch, inputs))
        if parameters is None:
            outputs = self.model(*positional, **named)
        else:
            outputs = functional_call(self.model, parameters, positional, named)
        value = self.loss(outputs, each(_as_batch, targets))
        if not isinstance(value, Tensor) or value.shape != ():
            what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(type(value))
            raise ValueError(
                f'loss returned {what} for one example, but it must return one number: use reduction="mean" or "sum".'
            )
        return value


def _form(parameter: Tensor) -> tuple[str, tuple[int, ...], str]:
    return str(parameter.dtype), tuple(parameter.shape), str(parameter.device)


def _in_words(form: tuple[str, tuple[int, ...], str] | None) -> str:
    return "not trained" if form is None else f"{form[0]} of shape {form[1]} on {form[2]}"


def _as_batch(tensor: Tensor) -> Tensor:
    return tensor[None]
