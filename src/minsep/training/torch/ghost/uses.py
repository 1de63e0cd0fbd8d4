"""The gradient of one parameter for every example, as the terms that calls of layers contribute to it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from minsep.training.torch.digests import digests_of_rows
from minsep.training.torch.methods import add_rows, norms_of

# Entries that are in memory at once besides activations: of rows, or of inner products in double precision.
_ENTRIES_IN_MEMORY = 1 << 22

# Costs, in multiplications of single precision: one of double precision, and to write a row's entry, read and add it.
_COST_OF_DOUBLE, _COST_OF_ROW_ENTRY = 2.5, 25.0


@dataclass(frozen=True)
class Product:
    """For each example the matrix sum_t left_t right_t^T, as of a linear layer.

    Args:
        left: (examples, places, rows of the parameter).
        right: (examples, places, columns of the parameter).
    """

    left: Tensor
    right: Tensor


@dataclass(frozen=True)
class Lookup:
    """For each example a matrix with `rows[s]` added to its row `index[s]`, as of an embedding.

    Args:
        index: (examples, places).
        rows: (examples, places, columns of the parameter).
    """

    index: Tensor
    rows: Tensor


Use = Product | Lookup | Tensor
"""What one call of a layer contributes: a term, or a tensor with one gradient for each example."""


class Uses:
    """The gradient of one parameter: the sum over all its uses in the forward pass, those of tied weights included.

    Rows are made and kept if they are no larger than what they are made of. Otherwise norms and sums are computed apart
    and by the cheaper one of two ways. Rows of a few examples are made twice, in (places) x (entries of the parameter)
    multiplications each time. Or norms are sums of inner products over pairs of places, in (places)^2 x (rows +
    columns) multiplications of double precision, and sums are one product of matrices.

    Args:
        shape: Shape of the parameter.
        dtype: Dtype of gradients of single examples.
        examples: Number of examples.
        device: Where the examples are.
    """

    def __init__(self, shape: torch.Size, dtype: torch.dtype, examples: int, device: torch.device) -> None:
        self._shape, self._dtype, self._examples, self._device = shape, dtype, examples, device
        self._products: list[Product] = []
        self._lookups: list[Lookup] = []
        self._rows: Tensor | None = None

    def add(self, use: Use) -> None:
        """Add one use.

        Args:
            use: What a call of a layer contributes.
        """
        match use:
            case Product():
                self._products.append(Product(use.left.to(self._dtype), use.right.to(self._dtype)))
            case Lookup():
                self._lookups.append(Lookup(use.index, use.rows.to(self._dtype)))
            case Tensor():
                rows = use.reshape(self._examples, -1).to(self._dtype).contiguous()
                self._rows = rows if self._rows is None else self._rows + rows

    def squared_norms(self, scales: Tensor | None) -> Tensor:
        """Return the squared norm of each example's gradient, in double precision and never too small.

        Args:
            scales: What gradients are multiplied by, entry by entry; None leaves them unscaled. From then on they stay
                scaled.
        """
        if scales is not None or self._rows is not None or self._terms() >= self._shape.numel():
            self._rows = self._rows_of(slice(None))
            self._products, self._lookups = [], []
            if scales is not None:
                self._rows = self._rows * scales
            return norms_of([self._rows]) ** 2
        if self._rows_are_cheaper():
            return torch.cat([norms_of([self._rows_of(some)]) ** 2 for some in self._parts(self._shape.numel())])
        return torch.cat([self._by_places(some) for some in self._parts(max(self._terms(), self._places() ** 2))])

    def bits(self) -> Tensor:
        """Return numbers that differ wherever bits of what `add_to` adds differ: a column for each example."""
        if self._rows is not None:
            return digests_of_rows(self._rows)[None]
        if self._rows_are_cheaper():
            parts = self._parts(self._shape.numel())
            return torch.cat([digests_of_rows(self._rows_of(some)) for some in parts])[None]
        factors = [factor for product in self._products for factor in (product.left, product.right)]
        factors += [part for lookup in self._lookups for part in (lookup.index, lookup.rows)]
        return torch.stack([digests_of_rows(factor) for factor in factors])

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add the gradients times their factors to a total in double precision.

        Args:
            total: A flat vector, changed in place.
            factors: One factor for each example.
        """
        if self._rows is not None:
            add_rows(total, self._rows, factors)
        elif self._rows_are_cheaper():
            for some in self._parts(self._shape.numel()):
                add_rows(total, self._rows_of(some), factors[some])
        else:
            for product in self._products:
                left = product.left.to(total.dtype) * factors[:, None, None]
                right = product.right.to(total.dtype)
                total.view(left.shape[2], -1).addmm_(left.flatten(0, 1).T, right.flatten(0, 1))
            for lookup in self._lookups:
                rows = lookup.rows.to(total.dtype) * factors[:, None, None]
                total.view(-1, rows.shape[2]).index_add_(0, lookup.index.flatten(), rows.flatten(0, 1))

    def _terms(self) -> int:
        """Number of entries, for one example, of what its gradient is made of."""
        return sum(product.left[0].numel() + product.right[0].numel() for product in self._products) + sum(
            lookup.rows[0].numel() for lookup in self._lookups
        )

    def _places(self) -> int:
        return sum(product.left.shape[1] for product in self._products) + sum(
            lookup.index.shape[1] for lookup in self._lookups
        )

    def _rows_are_cheaper(self) -> bool:
        entries, places = self._shape.numel(), sum(product.left.shape[1] for product in self._products)
        rows = 2 * places * entries + 2 * _COST_OF_ROW_ENTRY * entries
        return rows < _COST_OF_DOUBLE * (self._places() * self._terms() + places * entries)

    def _parts(self, entries: int) -> list[slice]:
        """Return parts of the examples that are small enough, if each example takes that many entries."""
        size = max(1, _ENTRIES_IN_MEMORY // max(entries, 1))
        return [slice(start, start + size) for start in range(0, self._examples, size)]

    def _rows_of(self, some: slice) -> Tensor:
        """Return the gradients of some examples."""
        count = len(range(*some.indices(self._examples)))
        rows = None if self._rows is None else self._rows[some]
        for product in self._products:
            more = (product.left[some].mT @ product.right[some]).flatten(1)
            rows = more if rows is None else rows + more
        if rows is None:
            rows = torch.zeros(count, self._shape.numel(), dtype=self._dtype, device=self._device)
        for lookup in self._lookups:
            values = lookup.rows[some]
            index = lookup.index[some][:, :, None].expand_as(values)
            rows.view(count, -1, values.shape[2]).scatter_add_(1, index, values)
        return rows

    def _by_places(self, some: slice) -> Tensor:
        """Sum (a_s . a_t)(b_s . b_t) over all places s and t of terms a_t b_t^T. A lookup has unit vectors for a."""
        count = len(range(*some.indices(self._examples)))
        squares = lengths = torch.zeros(count, dtype=torch.float64, device=self._device)
        lefts = rights = index = rows = None
        if self._products:
            lefts = torch.cat([product.left[some] for product in self._products], dim=1).double()
            rights = torch.cat([product.right[some] for product in self._products], dim=1).double()
            squares = squares + ((lefts @ lefts.mT) * (rights @ rights.mT)).sum((1, 2))
            lengths = lengths + (lefts.norm(dim=2) * rights.norm(dim=2)).sum(1)
        if self._lookups:
            index = torch.cat([lookup.index[some] for lookup in self._lookups], dim=1)
            rows = torch.cat([lookup.rows[some] for lookup in self._lookups], dim=1).double()
            squares = squares + ((index[:, :, None] == index[:, None, :]) * (rows @ rows.mT)).sum((1, 2))
            lengths = lengths + rows.norm(dim=2).sum(1)
        if lefts is not None and rights is not None and index is not None and rows is not None:
            entries = lefts.gather(2, index[:, None, :].expand(-1, lefts.shape[1], -1))
            squares = squares + 2 * (entries * (rights @ rows.mT)).sum((1, 2))
        # Terms may cancel: what rounding takes from the sum is at most this, by the triangle inequality.
        terms = self._places() ** 2 + self._shape[0] + self._shape[1:].numel()
        return squares + 2.0**-52 * terms * lengths**2
