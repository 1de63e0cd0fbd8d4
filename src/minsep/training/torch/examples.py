"""Examples as users pass them: tensors, or tuples, dicts and batch encodings of tensors."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Examples = Any
"""A tensor whose first dimension counts examples, or a tuple or mapping of such: the arguments of the model."""


def count_examples(examples: Examples) -> int:
    """Return how many examples there are.

    Args:
        examples: Tensors whose first dimension counts examples, or None for an empty batch.

    >>> count_examples({"words": torch.zeros(3, 5), "mask": torch.zeros(3, 5)})
    3
    """
    if examples is None:
        return 0
    counts = {len(tensor) for tensor in leaves(examples)}
    if len(counts) != 1:
        raise ValueError(f"The examples have first dimensions {sorted(counts)}, but these must be equal.")
    return counts.pop()


def refuse_devices(device: torch.device, **examples: Examples) -> None:
    """Refuse examples that are not where the model is.

    Args:
        device: Where the model is.
        examples: The examples, by the name of the argument.
    """
    for name, tree in examples.items():
        for tensor in [] if tree is None else leaves(tree):
            if tensor.device != device:
                raise ValueError(
                    f"{name} has a tensor on {tensor.device}, but the model is on {device}: move it with "
                    f'.to("{device}").'
                )


def each(change: Callable[[Tensor], Tensor], tree: Examples) -> Examples:
    """Return a tree of changed tensors. None stays None.

    Args:
        change: Function that returns the new tensor for a tensor.
        tree: The examples. Mappings of any kind become dicts, and lists become tuples.
    """
    if tree is None:
        return None
    if isinstance(tree, Mapping):
        return {name: each(change, value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(each(change, value) for value in tree)
    return change(tree)


def leaves(tree: Examples) -> list[Tensor]:
    """Return all tensors of a tree.

    Args:
        tree: The examples. Anything but tensors with a first dimension is refused.
    """
    if isinstance(tree, Mapping):
        tree = tuple(tree.values())
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    if not isinstance(tree, Tensor) or tree.dim() == 0:
        what = f"a {type(tree).__name__}" if not isinstance(tree, Tensor) else "a tensor without dimensions"
        raise ValueError(
            f"The examples contain {what}, but they must be tensors whose first dimension counts examples, or tuples "
            "or dicts of such tensors."
        )
    return [tree]


def arguments(inputs: Examples) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a model.

    Args:
        inputs: A tensor, a tuple of arguments or a dict of named arguments.
    """
    if isinstance(inputs, dict):
        return (), inputs
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def signature(tree: Examples) -> Any:
    """Return the shapes and dtypes of single examples, which decide the shapes in a forward pass.

    Args:
        tree: The examples.
    """
    if isinstance(tree, dict):
        return tuple((name, signature(value)) for name, value in tree.items())
    if isinstance(tree, tuple):
        return tuple(signature(value) for value in tree)
    return None if tree is None else (tuple(tree.shape[1:]), tree.dtype)
