"""Whether a dataset to evaluate on holds training examples, by their content where they are in memory."""

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from minsep.training.randomness import numpy_and_python_kept
from minsep.training.torch.randomness import torch_kept

# Of a larger dataset as many rows are read, evenly spread: a slice with a hundredth of it still holds a thousand.
_MOST_ROWS = 100_000


class TrainingExamples:
    """The training examples, which other datasets must not hold.

    Args:
        dataset: The dataset to train on.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._rows: set[Hashable] | None = None
        self._passed: list[Any] = []  # datasets, so that each is read once

    def refuse_in(self, name: str, dataset: Any) -> None:
        """Refuse a dataset that is the training data, or that has one of its examples.

        Args:
            name: What to call the dataset in the error.
            dataset: The dataset, several by name, or None.
        """
        for part in dataset.values() if isinstance(dataset, dict) else [dataset]:
            if part is self._dataset and part is not None:
                raise ValueError(f"{name} is train_dataset, but metrics of training examples are not private.")
            if part is None or any(part is other for other in self._passed):
                continue
            place = self._first_shared(part)
            if place is not None:
                raise ValueError(
                    f"{name} has a row that is also in train_dataset, such as row {place}, but metrics of training "
                    f"examples are not private: leave the rows of train_dataset out of {name}."
                )
            self._passed.append(part)

    def _first_shared(self, dataset: Any) -> int | None:
        with torch_kept(), numpy_and_python_kept():  # datasets may draw
            if self._rows is None:
                self._rows = {row for _, row in _rows(self._dataset)}
            return next((place for place, row in _rows(dataset) if row in self._rows), None)


def _rows(dataset: Any) -> Iterator[tuple[int, Hashable]]:
    """Yield the place of a row in a dataset and what identifies the row, for all rows or many of them."""
    if isinstance(dataset, str) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        return
    size = len(dataset)
    for place in range(0, size, -(-size // _MOST_ROWS) or 1):
        yield place, _row(dataset, place)


def _row(dataset: Any, place: int) -> Hashable:
    """Return the content of a row; where that would have to be made first, the dataset and the place in it."""
    if isinstance(dataset, Subset):
        return _row(dataset.dataset, int(dataset.indices[place]))
    if isinstance(dataset, ConcatDataset):
        for part in dataset.datasets:
            size = len(part)  # type: ignore[arg-type]
            if place < size:
                return _row(part, place)
            place -= size
    in_memory = isinstance(dataset, list | tuple | TensorDataset)
    if not in_memory and type(dataset).__module__.partition(".")[0] != "datasets":
        return id(dataset), place
    row = dataset[place]
    try:
        return hashlib.blake2b(repr(_plain(row)).encode(), digest_size=16).digest()
    except TypeError:
        return id(row) if isinstance(dataset, list | tuple) else (id(dataset), place)


def _plain(value: Any) -> Any:
    """Return numbers and text in tuples, the same for tensors, arrays and lists of the same content."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case Tensor() | np.ndarray() | np.generic():
            return _plain(value.tolist())
        case Mapping():
            return tuple(sorted(((str(name), _plain(each)) for name, each in value.items()), key=lambda pair: pair[0]))
        case list() | tuple():
            return tuple(map(_plain, value))
    raise TypeError(f"{type(value).__name__} has no plain content.")
