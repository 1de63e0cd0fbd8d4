"""Any lower-triangular, non-negative strategy, as a full matrix."""

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.strategy.base import Strategy, norm_of, read_only, recorded, unit_norm


@dataclass(frozen=True, eq=False, init=False)
class Dense(Strategy):
    """A strategy given by all its entries, scaled to a largest column norm of 1.

    Its noise stream keeps every past row, so it is meant for short runs.

    Args:
        matrix: The entries of C, up to a factor: a square matrix that is 0 above its diagonal, positive on it, and
            non-negative below it.

    Examples:
        >>> strategy = Dense([[4.0, 0.0], [3.0, 4.0]])
        >>> strategy.matrix
        array([[0.8, 0. ],
               [0.6, 0.8]])
        >>> strategy.bands
        2
    """

    kind = "dense"

    matrix: FloatArray

    def __init__(self, matrix: ArrayLike) -> None:
        values = validate.real_array(2, matrix=matrix)
        if values.shape[0] != values.shape[1]:
            raise ValueError(f"matrix has the shape {values.shape}, but it must be square.")
        validate.refuse_entries(np.triu(values, 1) != 0, "entries above the diagonal must be 0", matrix=values)
        validate.refuse_entries(values < 0, "every entry must be at least 0", matrix=values)
        validate.refuse_entries(
            np.diag(np.diag(values) == 0), "entries on the diagonal must be positive", matrix=values
        )
        object.__setattr__(self, "matrix", read_only(unit_norm(values, matrix=values)))

    @property
    def iterations(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.matrix.shape[0])

    def prefix(self, iterations: int) -> tuple["Dense", float]:
        """Return the strategy of the first iterations, and by which norm it was divided.

        Args:
            iterations: The number of iterations of the prefix.

        Examples:
            >>> Dense([[4.0, 0.0], [3.0, 4.0]]).prefix(1)[1]
            0.8
        """
        iterations = validate.integer(iterations=iterations, at_least=1, at_most=self.iterations)
        if iterations == self.iterations:
            return self, 1.0
        block = self.matrix[:iterations, :iterations]
        return Dense(block), max(map(norm_of, block.T))

    def dense(self) -> FloatArray:
        """Return C as a full matrix."""
        return self.matrix.copy()

    @property
    def _matrix(self) -> FloatArray:
        return self.matrix

    def describe(self) -> Description:
        """Return the strategy as plain data: its rows as little-endian float64, in base64."""
        entries = self.matrix.astype("<f8").tobytes()
        return {
            "kind": self.kind,
            "iterations": self.iterations,
            "matrix": base64.b64encode(entries).decode(),
        }

    @classmethod
    def from_description(cls, description: Description) -> "Dense":
        """Return the strategy with this description, bit by bit.

        Args:
            description: What `describe` returned.
        """
        n = description["iterations"]
        entries = np.frombuffer(base64.b64decode(description["matrix"]), dtype="<f8").reshape(n, n)
        strategy = cls(entries)
        object.__setattr__(strategy, "matrix", recorded(strategy.matrix, entries))
        return strategy

    def __repr__(self) -> str:
        return f"Dense(iterations={self.iterations}, bands={self.bands})"
