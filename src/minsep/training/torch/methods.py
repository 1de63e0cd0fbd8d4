"""Gradients of single examples: the interface of all methods, and the two that hold each gradient as a row."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap
from torch.utils._pytree import tree_leaves

from minsep.training.torch.digests import digests_of_rows
from minsep.training.torch.examples import Examples, count_examples, each
from minsep.training.torch.objective import Objective
from minsep.training.torch.randomness import DrawsOfExamples, SeededExample
from minsep.training.torch.vmapping import vmap_ready

Seeds = Callable[[], Sequence[bytes]]
"""Return the seeds of the examples of a micro-batch."""

_PIECE_ENTRIES = 256
_COLUMNS_AT_ONCE = 1 << 15


class Gradients(ABC):
    """The gradients of the examples of one micro-batch, in whatever form."""

    @abstractmethod
    def norms(self, names: list[str], scales: dict[str, Tensor] | None) -> Tensor:
        """Return the norm of each example's gradient over some parameters, in double precision and never too small.

        Args:
            names: The parameters.
            scales: What gradients are multiplied by, by parameter; None leaves them unscaled.
        """

    @abstractmethod
    def bits(self, names: list[str]) -> Tensor:
        """Return numbers that differ wherever bits of what `add_to` would add differ: a column for each example.

        Called after `norms`, and before `add_to`.

        Args:
            names: The parameters.
        """

    @abstractmethod
    def add_to(self, totals: dict[str, Tensor], names: list[str], factors: Tensor) -> None:
        """Add the gradients times their factors to totals in double precision. Called once for each parameter.

        Args:
            totals: Flat totals by parameter, changed in place.
            names: The parameters.
            factors: One factor for each example.
        """


class Method(ABC):
    """A way to compute the gradients of the examples of a micro-batch.

    Args:
        objective: The model and its loss.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    @abstractmethod
    def __call__(self, inputs: Examples, targets: Examples, seeds: Seeds) -> Gradients:
        """Return the gradients of a micro-batch.

        Args:
            inputs: The inputs of the examples.
            targets: The targets of the examples.
            seeds: Function that returns the examples' seeds, which determine what they draw.
        """


class Rows(Gradients):
    """Gradients as matrices with one row for each example.

    Args:
        rows: A matrix for each parameter.
    """

    def __init__(self, rows: dict[str, Tensor]) -> None:
        self._rows = rows

    def norms(self, names: list[str], scales: dict[str, Tensor] | None) -> Tensor:
        """Return the norm of each row over some parameters.

        Args:
            names: The parameters.
            scales: What gradients are multiplied by. From then on they stay scaled.
        """
        if scales is not None:
            self._rows.update({name: self._rows[name] * scales[name] for name in names})
        return norms_of([self._rows[name] for name in names])

    def bits(self, names: list[str]) -> Tensor:
        """Return a number for each row of each matrix.

        Args:
            names: The parameters.
        """
        return torch.stack([digests_of_rows(self._rows[name]) for name in names])

    def add_to(self, totals: dict[str, Tensor], names: list[str], factors: Tensor) -> None:
        """Add the rows times their factors, and forget them.

        Args:
            totals: Flat totals by parameter, changed in place.
            names: The parameters.
            factors: One factor for each example.
        """
        for name in names:
            add_rows(totals[name], self._rows.pop(name), factors)


class Vmapped(Method):
    """All gradients of a micro-batch at once, by `vmap(grad(loss))`.

    Args:
        objective: The model and its loss.
        apart: Whether every example has a view of the weights of its own. Layers then multiply the rows of examples one
            by one, by kernels that see one example each, and not all rows by one matrix.
    """

    def __init__(self, objective: Objective, apart: bool = False) -> None:
        super().__init__(objective)
        self._apart = apart

    def __call__(self, inputs: Examples, targets: Examples, seeds: Seeds) -> Rows:
        """Return the gradients of a micro-batch.

        Args:
            inputs: The inputs of the examples.
            targets: The targets of the examples.
            seeds: Function that returns the examples' seeds, which determine what they draw.
        """
        gradients = self._of_each(self._gradient, inputs, targets, seeds)
        return Rows({name: as_rows(gradient, self._objective.dtype) for name, gradient in gradients.items()})

    def values(self, inputs: Examples, targets: Examples, seeds: Seeds) -> list[Tensor]:
        """Return the loss of each example, and all that layers return for it, in tensors whose first dimension counts.

        Args:
            inputs: The inputs of the examples.
            targets: The targets of the examples.
            seeds: Function that returns the examples' seeds, which determine what they draw.
        """
        return list(self._of_each(self._values, inputs, targets, seeds))

    def _of_each(self, function: Any, inputs: Examples, targets: Examples, seeds: Seeds) -> Any:
        """Return a function of (parameters, frozen parameters, inputs, targets) of each example."""
        parameters, frozen, of_weights = self._objective.constants(), self._objective.frozen(), None
        if self._apart:
            count, of_weights = count_examples(inputs), 0
            parameters, frozen = (
                {name: value.expand(count, *value.shape) for name, value in values.items()}
                for values in (parameters, frozen)
            )
        else:
            frozen = {}
        # Where there are no tensors, there is no dimension.
        dimensions = (of_weights, of_weights if frozen else None, 0, None if targets is None else 0)
        with vmap_ready(), DrawsOfExamples(seeds):
            return vmap(function, dimensions, randomness="different")(parameters, frozen, inputs, targets)

    def _gradient(
        self, parameters: dict[str, Tensor], frozen: dict[str, Tensor], inputs: Examples, targets: Examples
    ) -> dict[str, Tensor]:
        value, backward, *_ = vjp(
            lambda these: self._objective.of_one({**these, **frozen}, inputs, targets), parameters
        )
        # A user's autocast is for the forward pass: it would change the dtypes of the backward pass.
        with torch.autocast(self._objective.device.type, enabled=False):
            gradients: dict[str, Tensor] = backward(torch.ones_like(value), retain_graph=False, create_graph=False)[0]
        return gradients

    def _values(
        self, parameters: dict[str, Tensor], frozen: dict[str, Tensor], inputs: Examples, targets: Examples
    ) -> list[Tensor]:
        def loss(these: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
            with outputs_of_layers(self._objective.model) as outputs:
                value = self._objective.of_one({**these, **frozen}, inputs, targets)
            return value, [value, *outputs]

        # Differentiated by nothing, but with the same operations as where gradients are computed.
        values: Any = vjp(loss, parameters, has_aux=True)
        return list(values[-1])


@contextmanager
def outputs_of_layers(model: nn.Module) -> Iterator[list[Tensor]]:
    """Enter a block in which the real tensors that layers return are appended to a list.

    Args:
        model: The model.
    """
    outputs: list[Tensor] = []

    def keep(layer: nn.Module, given: Any, output: Any) -> None:
        outputs.extend(leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point())

    handles = [layer.register_forward_hook(keep) for layer in model.modules()]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


class OneByOne(Method):
    """The gradient of a single example by an ordinary backward pass: slow, but possible for every model."""

    def __call__(self, inputs: Examples, targets: Examples, seeds: Seeds) -> Rows:
        """Return the gradient of one example.

        Args:
            inputs: The inputs, a micro-batch of one example.
            targets: The targets, a micro-batch of one example.
            seeds: Function that returns the example's seed, which determines what it draws.
        """
        one, its_targets = (each(lambda tensor: tensor[0], tree) for tree in (inputs, targets))
        # Not torch.autograd.grad: reentrant checkpointing allows only backward().
        with SeededExample(seeds), without_gradients(self._objective):
            self._objective.of_one(None, one, its_targets).backward()  # type: ignore[no-untyped-call]
            return Rows(
                {
                    name: as_rows(
                        (torch.zeros_like(value) if value.grad is None else value.grad)[None], self._objective.dtype
                    )
                    for name, value in self._objective.parameters.items()
                }
            )


@contextmanager
def without_gradients(objective: Objective) -> Iterator[None]:
    """Enter a block without gradients in the parameters, and leave no new ones behind.

    Args:
        objective: The model and its loss.
    """
    before = {name: value.grad for name, value in objective.model.named_parameters()}
    try:
        for value in objective.model.parameters():
            value.grad = None
        yield
    finally:
        for name, value in objective.model.named_parameters():
            value.grad = before[name]


def as_rows(gradients: Tensor, dtype: torch.dtype) -> Tensor:
    """Return gradients as a matrix with one row for each example.

    Args:
        gradients: The gradients, whose first dimension counts examples.
        dtype: Dtype of the result.
    """
    return gradients.detach().reshape(len(gradients), -1).to(dtype)


def norms_of(parts: list[Tensor]) -> Tensor:
    """Return the norm of each row over several matrices, in double precision.

    A sum of squares in single precision loses the small entries of a long row. So norms are taken of short pieces, and
    then of these norms.

    Args:
        parts: Matrices with one row for each example.

    >>> row = torch.full((1, 1 << 20), 2.43e-4)
    >>> row[0, :8] = 1.0
    >>> round(float(norms_of([row]) / row.double().norm()), 5)
    1.0
    """
    norms = []
    for part in parts:
        whole = part.shape[1] // _PIECE_ENTRIES * _PIECE_ENTRIES
        norms.append(torch.linalg.vector_norm(part[:, :whole].reshape(len(part), -1, _PIECE_ENTRIES), dim=2))
        norms.append(torch.linalg.vector_norm(part[:, whole:], dim=1, keepdim=True))
    norm: Tensor = torch.linalg.vector_norm(torch.cat(norms, dim=1).double(), dim=1)
    return norm


def add_rows(total: Tensor, rows: Tensor, factors: Tensor) -> None:
    """Add rows times their factors in the precision of the total, a few columns at a time to save memory.

    Args:
        total: A flat vector, changed in place.
        rows: One row for each example.
        factors: One factor for each example.
    """
    for start in range(0, rows.shape[1], _COLUMNS_AT_ONCE):
        part = slice(start, start + _COLUMNS_AT_ONCE)
        total[part].addmv_(rows[:, part].to(total.dtype).T, factors)
