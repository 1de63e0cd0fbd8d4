"""Examples of a Hugging Face dataset, one by one: how each is collated, and what its loss is.

A collator that sees a whole batch may pad an example to the length of another, or draw its masked words after those of
another. So the collator is given one example at a time, within the random numbers of that example.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

Features = dict[str, Tensor]


class CollatedItems(Dataset[Features]):
    """The examples of a dataset, each collated alone: a batch of one.

    Args:
        dataset: The dataset, with `__getitem__` by index.
        collator: Function that makes a batch of a list of examples.
    """

    def __init__(self, dataset: Any, collator: Callable[[list[Any]], Mapping[str, Any]]) -> None:
        self._dataset, self._collator = dataset, collator

    def __getitem__(self, index: int) -> Features:
        """Return the batch of one example.

        Args:
            index: Number of the example in the dataset.
        """
        batch = self._collator([self._dataset[index]])
        for name, value in batch.items():
            if not isinstance(value, Tensor):
                raise ValueError(
                    f"data_collator returns {name!r} as a {type(value).__name__}, but it must return tensors: use "
                    "return_tensors='pt'."
                )
            if value.ndim == 0 or len(value) != 1:
                raise ValueError(
                    f"data_collator returns {name!r} of shape {tuple(value.shape)} for one example, but the first "
                    "dimension must count examples."
                )
        return dict(batch)


def stacked(items: Sequence[Features]) -> tuple[Features, Tensor]:
    """Return batches of one as one batch, and as many zeros in place of targets: the loss is the model's own.

    Args:
        items: Batches of one. Their shapes must be equal.

    >>> inputs, targets = stacked([{"input_ids": torch.ones(1, 3)}, {"input_ids": torch.zeros(1, 3)}])
    >>> inputs["input_ids"].shape, targets
    (torch.Size([2, 3]), tensor([0., 0.]))
    >>> stacked([{"input_ids": torch.ones(1, 3)}, {"input_ids": torch.zeros(1, 2)}])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: data_collator returns 'input_ids' of shapes [(2,), (3,)] for examples of a batch, but all must have ...
    """
    names = {frozenset(item) for item in items}
    if len(names) > 1:
        raise ValueError(f"data_collator returns different features for examples: {sorted(map(sorted, names))}.")
    for name in items[0]:
        shapes = {tuple(item[name].shape[1:]) for item in items}
        if len(shapes) > 1:
            raise ValueError(
                f"data_collator returns {name!r} of shapes {sorted(shapes)} for examples of a batch, but all must have "
                "one shape: pad every example to a fixed length, such as padding='max_length', max_length=128."
            )
    return {name: torch.cat([item[name] for item in items]) for name in items[0]}, torch.zeros(len(items))


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
