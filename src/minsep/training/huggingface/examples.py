"""Examples of a Hugging Face dataset, one by one: how each is collated, and what its loss is."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

Features = dict[str, Tensor]


class Collated:
    """A collator of one example, which adds a zero in place of targets: the loss is the model's own.

    Args:
        collator: Function that makes a batch of a list of examples.
    """

    def __init__(self, collator: Callable[[list[Any]], Mapping[str, Any]]) -> None:
        self._collator = collator

    def __call__(self, items: list[Any]) -> tuple[Features, Tensor]:
        """Return a batch of one.

        Args:
            items: The example, in a list.
        """
        return dict(self._collator(items)), torch.zeros(1)


class LossOfOne(nn.Module):
    """A model together with its loss on a batch of one.

    Its state is what training changes: trainable parameters and buffers. So a checkpoint of adapters stays small.

    Args:
        model: The model.
        compute_loss: Function of the model and its inputs that returns the loss.
    """

    def __init__(self, model: nn.Module, compute_loss: Callable[[nn.Module, Features], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._compute_loss = compute_loss

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return the loss of a batch of one.

        Args:
            inputs: Arguments of the model, labels included.
        """
        return self._compute_loss(self.model, inputs)

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return the trainable parameters and the buffers.

        Args:
            arguments: The positional arguments of `torch.nn.Module.state_dict`.
            options: The named arguments of `torch.nn.Module.state_dict`.
        """
        named = self.named_parameters(remove_duplicate=False)
        frozen = {name for name, parameter in named if not parameter.requires_grad}
        state = super().state_dict(*arguments, **options)
        return {name: value for name, value in state.items() if name not in frozen}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Set the trainable parameters and the buffers.

        Args:
            state_dict: What `state_dict` returned.
            strict: As in `torch.nn.Module.load_state_dict`. Names that differ are always refused.
            assign: As in `torch.nn.Module.load_state_dict`.
        """
        different = sorted(set(state_dict) ^ set(self.state_dict()))
        if different:
            raise ValueError(f"The checkpoint is of a model with other trainable parameters, such as {different[0]!r}.")
        return super().load_state_dict(state_dict, strict=False, assign=assign)


def loss_of_output(output: Tensor, _: Tensor) -> Tensor:
    """Return the output of a `LossOfOne`, which is the loss already.

    Args:
        output: The loss. The second argument stands in place of targets.
    """
    return output
