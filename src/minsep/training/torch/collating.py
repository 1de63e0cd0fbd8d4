"""Batches of a loader: every example is collated alone, so that none changes what another looks like.

A collate function that sees a whole batch may pad an example to the length of another, mix the two, subtract their
mean, or draw random numbers for one after another.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

Collate = Callable[[list[Any]], Any]
"""Return a batch of a list of items."""


class Joined:
    """What a loader makes of the items of a batch. An empty batch is (None, None).

    Args:
        collated: Whether each item has been collated alone, as a batch of one. Otherwise the items are stacked.
    """

    def __init__(self, collated: bool) -> None:
        self._collated = collated

    def __call__(self, items: list[Any]) -> Any:
        """Return the items as one batch.

        Args:
            items: The items, in the order of the batch.
        """
        if not items:
            return None, None
        return joined(items) if self._collated else default_collate(items)


def joined(batches: Sequence[Any], name: str = "tensors") -> Any:
    """Return several batches of one as one batch.

    Args:
        batches: Tensors, or tuples, lists or mappings of tensors, all of the same form.
        name: What to call the tensors in an error.

    >>> joined([(torch.zeros(1, 2), torch.ones(1)), (torch.zeros(1, 2), torch.ones(1))])[1]
    tensor([1., 1.])
    >>> joined([{"input_ids": torch.ones(1, 3)}, {"input_ids": torch.ones(1, 2)}])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: The collator returns 'input_ids' of shapes [(2,), (3,)] for examples of a batch, but all must have ...
    """
    first = batches[0]
    if len({_form(batch) for batch in batches}) > 1:
        raise ValueError(f"The collator returns different features for examples: {sorted({*map(_form, batches)})}.")
    if isinstance(first, Mapping):
        return {key: joined([batch[key] for batch in batches], repr(key)) for key in first}
    if isinstance(first, list | tuple):
        return tuple(joined(parts, name) for parts in zip(*batches, strict=True))
    if first is None:
        return None
    if not isinstance(first, Tensor):
        raise ValueError(
            f"The collator returns {name} of type {type(first).__name__}, but it must return tensors, for example with "
            "return_tensors='pt'."
        )
    for batch in batches:
        if batch.ndim == 0 or len(batch) != 1:
            raise ValueError(
                f"The collator returns {name} of shape {tuple(batch.shape)} for one example, but the first dimension "
                "must count examples."
            )
    shapes = {tuple(batch.shape[1:]) for batch in batches}
    if len(shapes) > 1:
        raise ValueError(
            f"The collator returns {name} of shapes {sorted(shapes)} for examples of a batch, but all must have one "
            "shape, which must not depend on the others: pad every example to a fixed length, such as "
            "padding='max_length', max_length=128."
        )
    return torch.cat(list(batches))


def _form(batch: Any) -> str:
    """Return the names of a mapping, the length of a list, or the kind of anything else."""
    if isinstance(batch, Mapping):
        return str(sorted(map(str, batch)))
    return f"{len(batch)} parts" if isinstance(batch, list | tuple) else type(batch).__name__
