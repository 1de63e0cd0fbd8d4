"""The one way to add a row of noise to a sum: smoothed, and rounded to a public grid (docs/rounding.md)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import FloatArray
from minsep.noise.grid import Grid, refuse_sum

Add = Callable[[NDArray[np.floating[Any]], FloatArray, float], bool]
"""Add a flat row to flat sums in steps of a unit, smoothed and rounded, in place; return whether all were in range."""


class NoiseRow(np.ndarray[Any, np.dtype[np.floating[Any]]]):
    """A row of C^-1 Z: a read-only array that can be released once, by `minsep.release`.

    Whatever is computed from it is an ordinary array.
    """

    _grid: Grid | None = None
    _adds: list[Add]
    """How it is released, as long as it was not."""

    def __array_finalize__(self, source: Any) -> None:
        """Forget, in an array that is derived from a row, how a row is released."""
        self._grid, self._adds = None, []


def noise_row(values: NDArray[np.floating[Any]], grid: Grid, add: Add) -> NoiseRow:
    """Return a row that can be released once.

    Args:
        values: The row.
        grid: The grid of the noise.
        add: Adds the row to sums.
    """
    # Memory that nobody may write to, because a row whose owner is writeable could be made so again.
    row = np.frombuffer(values.tobytes(), dtype=values.dtype).reshape(values.shape).view(NoiseRow)
    row._grid, row._adds = grid, [add]
    return row


def release(sum64: FloatArray, row: NoiseRow, clip_norm: float) -> FloatArray:
    """Return a sum of clipped gradients with a row of noise: what may be divided, cast, trained with and published.

    The row is smoothed by a fresh normal variate of a thousandth of the noise, and the noisy sum is rounded to a public
    grid that is finer still. So which numbers can come out does not depend on the data, as it would if the row were
    just added: docs/rounding.md proves what that costs.

    Args:
        sum64: The sum of clipped gradients, in float64 and of the shape of the row. It is not changed.
        row: The next row of `Mechanism.noise`, as it was handed out. A row can be released once: if a restored stream
            hands it out again, release it with the same sum only, because the difference of two releases has no noise.
        clip_norm: Bound on the norm of the gradient of one example.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=8)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.01, min_sep=8), noise_multiplier=1.0)
        >>> row = next(mechanism.noise(shape=10))
        >>> noisy = release(np.ones(10), row, clip_norm=0.5)
        >>> bool(np.allclose(noisy, 1 + 0.5 * row, atol=0.01))
        True
    """
    if not isinstance(row, NoiseRow):
        raise ValueError(f"row is a {type(row).__name__}, but it must be a row as Mechanism.noise hands it out.")
    if row._grid is None or not row._adds:
        raise _refuse_row()
    sums = np.asarray(sum64)
    if sums.shape != row.shape or sums.dtype != np.float64:
        raise ValueError(
            f"sum64 has shape {sums.shape} and dtype {sums.dtype}, but it must have shape {row.shape} and dtype "
            "float64: add up clipped gradients in double precision."
        )
    unit = row._grid.unit(clip_norm)
    try:
        add = row._adds.pop()  # which only one of several threads can do
    except IndexError:
        raise _refuse_row() from None
    noisy = np.ascontiguousarray(sums).flatten()
    if not add(np.asarray(row).reshape(-1), noisy, unit):
        raise refuse_sum(unit)
    return noisy.reshape(sums.shape)


def _refuse_row() -> ValueError:
    return ValueError("row was released before or changed, but it must be a row as Mechanism.noise hands it out.")
