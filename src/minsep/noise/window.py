"""Rows on the host: made in the columns' own time, so that no step has to make many rows at once.

A block of rows costs less than its rows one by one, because the rows before it are read once for all of them. So every
part of the columns makes its rows in blocks, but each part at another step, and the work of a step is always the same.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep.core.arrays import FloatArray, Rows
from minsep.engine import available_cores, in_threads
from minsep.noise import kernels
from minsep.noise.grid import Grid
from minsep.randomness import STRIPE, Key
from minsep.randomness.chacha import key_words
from minsep.randomness.normals import check_columns
from minsep.strategy.recurrence import Buffers, Recurrence

_GROUP, _ROWS_OF_WINDOW, _MOST_BLOCK = 4, 32, 32  # a block has four rows for every 32 that are kept
_PARTS = 8  # for each row of a block, so that cores share the work of a step evenly


class RowWindow:
    """The rows that a recurrence keeps, and the next ones, in steps of the grid.

    Args:
        recurrence: How each row follows from earlier ones.
        grid: The grid of the noise.
        iterations: The number of rows of the run.
        columns: The part (begin, end) of each row that is made.
        key: The secret key of Z.
        smoothing: The secret key of the smoothing.
    """

    def __init__(
        self, recurrence: Recurrence, grid: Grid, iterations: int, columns: tuple[int, int], key: Key, smoothing: Key
    ) -> None:
        begin, end = columns
        check_columns(end)
        self._recurrence, self._iterations = recurrence, iterations
        self._per_row = grid.noise_multiplier / grid.step
        self._first, self._offset, self._size = begin // STRIPE, begin % STRIPE, end - begin
        stripes = -(-end // STRIPE) - self._first
        wanted = min(-(-recurrence.window // _ROWS_OF_WINDOW) * _GROUP, _MOST_BLOCK)
        self._block = max(1, min(wanted, recurrence.window, stripes))
        width = max(1, stripes // (_PARTS * self._block))
        self._parts = [slice(start, min(start + width, stripes)) for start in range(0, stripes, width)]
        self._phases = [part * self._block // len(self._parts) for part in range(len(self._parts))]
        self._ready = [0] * len(self._parts)
        capacity = recurrence.window + self._block if recurrence.on_grid else 0
        self._rows = np.empty((stripes, min(capacity, iterations), STRIPE), dtype=np.float32)
        # The system gives memory when it is written to, which takes seconds for gigabytes: now, and not in a step.
        in_threads(lambda part: self._rows[part].fill(0.0), self._parts)
        self._key, self._smoothing = key_words(key.secret), key_words(smoothing.secret)
        self._ahead: Future[None] | None = None

    def prepare(self, row: int) -> None:
        """Begin to make a row in the background, if there is a core for it.

        Args:
            row: The next row. All before it have been made.
        """
        if available_cores() > 1 and row < self._iterations and self._ahead is None:
            worker = ThreadPoolExecutor(1)
            self._ahead = worker.submit(self._make, row)
            worker.shutdown(wait=False)

    def make(self, row: int) -> None:
        """Make a row in all columns, and whatever else is due.

        Args:
            row: The next row. All before it have been made.
        """
        self.finish()
        self._make(row)

    def finish(self) -> None:
        """Wait for what is made in the background."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            ahead.result()

    def release(self, row: int, sums: FloatArray, unit: float) -> bool:
        """Add a row to sums, smooth them and round them to the grid, in place; return whether all were in range.

        Args:
            row: The row, which was made.
            sums: A flat, contiguous array.
            unit: The step of a released sum.
        """
        return all(in_threads(lambda part: self._release(row, part, *self._steps(row, part), sums, unit), self._parts))

    def add(self, row: int, steps: Rows, sums: FloatArray, unit: float) -> bool:
        """Do what `release` does with a row that was handed out, at any time.

        Args:
            row: The number of the row.
            steps: The values of the row, in steps of the grid.
            sums: A flat, contiguous array.
            unit: The step of a released sum.
        """
        stripes = self._striped(steps)[:, None]
        return all(in_threads(lambda part: self._release(row, part, stripes[part], 0, sums, unit), self._parts))

    def row(self, row: int) -> Rows:
        """Return a row that was made, in steps of the grid, as an array of its own.

        Args:
            row: One of the rows that are kept, or the last one made.
        """

        def stripes(part: slice) -> Rows:
            window, slot = self._steps(row, part)
            return window[:, slot].copy()

        whole = np.concatenate(in_threads(stripes, self._parts)).reshape(-1)
        return whole[self._offset : self._offset + self._size]

    def memory(self, position: int) -> NDArray[Any]:
        """Return what must be kept before the row at a position is made, in steps of the grid, one row each.

        Args:
            position: The number of rows that were drawn.
        """
        # Rows that are made in the background have other places. A forked process would wait for them forever.
        kept = self._recurrence.kept(position)
        memory = np.empty((len(kept), self._size), dtype=np.float32)
        for own, row in zip(memory, kept, strict=True):
            own[:] = self.row(row)
        return memory

    def keep(self, position: int, memory: NDArray[Any]) -> None:
        """Go on from a position, with what was kept there.

        Args:
            position: The number of rows that were drawn.
            memory: What `memory` returned.
        """
        for row, values in zip(self._recurrence.kept(position), memory, strict=True):
            self._rows[:, row % self._rows.shape[1]] = self._striped(values)
        self._ready = [position] * len(self._parts)

    def _striped(self, values: NDArray[Any]) -> NDArray[Any]:
        padded = np.zeros(self._rows.shape[0] * STRIPE, dtype=values.dtype)
        padded[self._offset : self._offset + self._size] = values
        return padded.reshape(-1, STRIPE)

    def _release(self, row: int, part: slice, window: Rows, slot: int, sums: FloatArray, unit: float) -> bool:
        first, start = (self._offset, 0) if part.start == 0 else (0, part.start * STRIPE - self._offset)
        mine, place = sums[start : part.stop * STRIPE - self._offset], self._first + part.start
        return bool(kernels.release_rows(mine, window, slot, self._smoothing, place, row, first, unit))

    def _make(self, row: int) -> None:
        if not self._recurrence.on_grid:
            return
        due = [part for part, end in enumerate(self._ready) if end == row]
        # Alone until its turn comes, so that the first steps do not have more to do than others.
        counts = [self._block if row % self._block == self._phases[part] else 1 for part in due]
        products = {count: self._products(row, count) for count in set(counts)}
        in_threads(lambda one: self._make_part(one[0], row, *products[one[1]]), zip(due, counts, strict=True))

    def _make_part(self, part: int, row: int, scales: FloatArray, weights: FloatArray) -> None:
        stripes, first = self._parts[part], self._recurrence.kept(row).start
        kernels.next_rows(self._rows[stripes], self._key, self._first + stripes.start, row, scales, weights, first)
        self._ready[part] = row + scales.size

    def _products(self, row: int, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the factors of Z and the weights of rows, from the oldest that is kept on, for the next rows."""
        end = min(row + count, self._iterations)
        first = self._recurrence.kept(row).start
        scales, weights = np.empty(end - row), np.zeros((end - row, end - first))
        for place, number in enumerate(range(row, end)):
            product = self._recurrence.product(number)
            scales[place] = self._per_row * product.of_normals[0]
            weights[place, number - first - product.of_kept.size : number - first] = product.of_kept[::-1]
        return scales, weights

    def _steps(self, row: int, part: slice) -> tuple[Rows, int]:
        """Return stripes by rows by columns, in steps of the grid, and the place of a row among the rows."""
        if self._recurrence.on_grid:
            return self._rows[part], row % self._rows.shape[1]
        total = np.empty((part.stop - part.start, STRIPE))
        scales = self._per_row * self._recurrence.product(row).of_normals
        kernels.moving_sum(total, self._key, self._first + part.start, row, scales)
        return total[:, None], 0


class BufferedWindow(RowWindow):
    """The last row of a recurrence with buffers, and the buffers, which hold what it takes from all rows before.

    A row changes the buffers, so none is made before its time.

    Args:
        recurrence: How each row follows from the buffers.
        buffers: Those of the recurrence.
        grid: The grid of the noise.
        iterations: The number of rows of the run.
        columns: The part (begin, end) of each row that is made.
        key: The secret key of Z.
        smoothing: The secret key of the smoothing.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        buffers: Buffers,
        grid: Grid,
        iterations: int,
        columns: tuple[int, int],
        key: Key,
        smoothing: Key,
    ) -> None:
        super().__init__(recurrence, grid, iterations, columns, key, smoothing)
        self._law = buffers
        self._buffers = np.empty((self._rows.shape[0], buffers.decays.size, STRIPE))
        in_threads(lambda part: self._buffers[part].fill(0.0), self._parts)

    def prepare(self, row: int) -> None:
        """Do nothing: the row would change the buffers.

        Args:
            row: The next row.
        """

    def memory(self, position: int) -> NDArray[Any]:
        """Return the buffers, in steps of the grid, one row each.

        Args:
            position: The number of rows that were drawn.
        """
        flat = self._buffers.transpose(1, 0, 2).reshape(self._buffers.shape[1], -1)
        return flat[:, self._offset : self._offset + self._size].copy()

    def keep(self, position: int, memory: NDArray[Any]) -> None:
        """Go on from a position, with the buffers that were kept there.

        Args:
            position: The number of rows that were drawn.
            memory: What `memory` returned.
        """
        for place, values in enumerate(memory):
            self._buffers[:, place] = self._striped(values)

    def _make(self, row: int) -> None:
        scale = self._per_row * self._law.of_normals

        def make(part: slice) -> None:
            kernels.next_buffered_row(
                self._rows[part],
                self._buffers[part],
                self._key,
                self._first + part.start,
                row,
                scale,
                self._law.decays,
                self._law.weights,
            )

        in_threads(make, self._parts)


def window_of(
    recurrence: Recurrence, grid: Grid, iterations: int, columns: tuple[int, int], key: Key, smoothing: Key
) -> RowWindow:
    """Return the window in which the rows of a recurrence are made, as for `RowWindow`."""
    buffers = recurrence.buffers
    if buffers is None:
        return RowWindow(recurrence, grid, iterations, columns, key, smoothing)
    return BufferedWindow(recurrence, buffers, grid, iterations, columns, key, smoothing)
