"""What an audit keeps of its runs: sums with known distributions, and the log likelihood ratio of every trial."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from minsep.auditing.canaries import Observed
from minsep.auditing.statistic import Statistic
from minsep.core.arrays import BooleanArray, FloatArray
from minsep.mechanism import Mechanism
from minsep.strategy import Strategy

_MOST_LAGS = 64


@dataclass
class Halves:
    """Two sums of squares over pairs (u, v), equal in distribution if u and v are independent and alike.

    Args:
        sums: Sum of the squares of u + v.
        differences: Sum of the squares of u - v.
        count: Number of pairs.
    """

    sums: float = 0.0
    differences: float = 0.0
    count: int = 0

    def add(self, first: FloatArray, second: FloatArray) -> None:
        """Add pairs of values, none of which is in two pairs.

        Args:
            first: The first value of each pair.
            second: The second value of each pair.
        """
        self.sums += float(((first + second) ** 2).sum())
        self.differences += float(((first - second) ** 2).sum())
        self.count += first.size


@dataclass
class Tally:
    """Sums over the runs of an audit. Noise is in units of its certified standard deviation.

    With w = C y what is seen of a canary, it should be z where the canary is absent, and C x + z where it is present.
    """

    mechanism: Mechanism
    statistic: Statistic
    runs: int = 0
    changed_steps: int = 0
    closest: int | None = None
    examples: int = 0
    """Number of examples of canaries, over all runs."""

    def __post_init__(self) -> None:
        n = self.mechanism.iterations
        self._transposed = transposed(self.mechanism.strategy)
        self.participations: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        self.squares_absent, self.squares_present = np.zeros(n), np.zeros(n)
        self.absent = self.present = 0
        self.lags = [Halves() for _ in range(min(max(self.mechanism.strategy.bands, 2), n // 2, _MOST_LAGS))]
        self.shared_square, self.shared_count = 0.0, 0
        self.between_runs = Halves()
        self.overlap, self.moved = 0.0, 0.0
        self._energies: list[FloatArray] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._absent_in_run: list[int] = []
        self._ratios: dict[str, list[FloatArray]] = {"present": [], "absent": []}
        self._previous: tuple[FloatArray, Observed] | None = None
        self.taken_in_both: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        """Examples that took part in a step of one run and of the next."""
        self.examples_of_pairs = 0

    def add(self, observed: Observed) -> None:
        """Add a run."""
        outputs = observed.releases @ self._transposed
        ratios = self.statistic.of_outputs(outputs)
        self._ratios["present"].append(ratios[observed.present])
        self._ratios["absent"].append(ratios[~observed.present])
        scaled = outputs / self.mechanism.noise_multiplier
        self._add_noise(scaled[~observed.present])
        self._add_canaries(scaled[observed.present], observed.participations[observed.present])
        self._add_batches(observed.taken)
        if self._previous is None:
            self._previous = scaled, observed
        else:
            self._add_pair(*self._previous, scaled, observed)
            self._previous = None
        self.changed_steps += observed.changed_steps
        self.runs += 1

    @property
    def log_ratios(self) -> tuple[FloatArray, FloatArray]:
        """log P/Q of all trials with the canary, and of all without it."""
        present, absent = (np.concatenate([np.zeros(0), *self._ratios[side]]) for side in ("present", "absent"))
        return present, absent

    @property
    def by_batch_size(self) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
        """For each run and step: sum of squares of the noise, number of its values, and size of the batch."""
        energies, sizes = np.stack(self._energies), np.stack(self._sizes)
        counts = np.broadcast_to(np.array(self._absent_in_run)[:, None], sizes.shape)
        return energies, counts, sizes

    def _add_pair(self, scaled: FloatArray, observed: Observed, next_scaled: FloatArray, following: Observed) -> None:
        """Add what two runs in a row have in common; no run is in two pairs."""
        absent = ~(observed.present | following.present)
        self.between_runs.add(scaled[absent], next_scaled[absent])
        self.taken_in_both += (observed.taken & following.taken).sum(axis=0)
        self.examples_of_pairs += observed.taken.shape[0]

    def _add_noise(self, noise: FloatArray) -> None:
        squares = noise**2
        self.squares_absent += squares.sum(axis=0)
        self.absent += noise.shape[0]
        self._energies.append(squares.sum(axis=0))
        self._absent_in_run.append(noise.shape[0])
        n = noise.shape[1]
        for lag, halves in enumerate(self.lags, start=1):
            first = np.flatnonzero((np.arange(n - lag) // lag) % 2 == 0)  # pairs that share no value
            halves.add(noise[:, first], noise[:, first + lag])
        if noise.shape[0] > 1:
            self.shared_square += float((noise.sum(axis=0) ** 2).sum()) / noise.shape[0]
            self.shared_count += n

    def _add_canaries(self, outputs: FloatArray, participations: NDArray[np.int64]) -> None:
        means = participations @ self._transposed / self.mechanism.noise_multiplier
        self.overlap += float((means * outputs).sum())
        self.moved += float((means**2).sum())
        self.squares_present += ((outputs - means) ** 2).sum(axis=0)
        self.present += outputs.shape[0]

    def _add_batches(self, taken: BooleanArray) -> None:
        self._sizes.append(taken.sum(axis=0))
        self.participations += taken.sum(axis=0)
        self.examples += taken.shape[0]
        example, time = np.nonzero(taken)
        gaps = np.diff(time)[np.diff(example) == 0]
        if gaps.size:
            self.closest = min(int(gaps.min()), self.closest or int(gaps.min()))


def transposed(strategy: Strategy) -> Any:
    """Return C transposed, to multiply rows by; a banded one without its zeros, so that long runs fit into memory."""
    column = strategy.banded_column
    if column is None:
        return strategy.dense().T
    n, bands = strategy.iterations, strategy.bands
    diagonals = [np.full(n - lag, coefficient) for lag, coefficient in enumerate(column)]
    return sparse.diags_array(diagonals, offsets=list(range(bands)), shape=(n, n), format="csr")
