"""What an audit keeps of its runs: sums with known distributions, and the log likelihood ratio of every trial."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from minsep.auditing.canaries import SIZES, Canaries, Observed
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
class Weight:
    """What some canaries move, in standard deviations of the noise.

    Attributes:
        expected: The norm of their clipped gradients, in clip norms.
        moved: Sum of the squares of what they should move.
        overlap: Inner product of what they should move and what was seen.
    """

    expected: float = 1.0
    moved: float = 0.0
    overlap: float = 0.0

    @property
    def share(self) -> float:
        """What they moved, over what they should."""
        return self.overlap / self.moved if self.moved else 1.0


@dataclass
class Tally:
    """Sums over the runs of an audit. Noise is in units of its certified standard deviation.

    With w = C y what is seen along a direction, it should be z where no canary is in the data, and a C x + z with the
    weight a of a canary that is.
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
        self.lags = [Halves() for _ in range(min(n - 1, _MOST_LAGS))]
        self.shared_square, self.shared_count = 0.0, 0
        self.coordinate_squares, self.coordinate_counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.between_runs = Halves()
        self.weights = {size: Weight(min(size, 1.0)) for size in sorted(set(SIZES))}
        """The weights of canaries in runs with many, by their size."""
        self.weight_alone = Weight()
        """The weight of canaries in runs that are nearly empty."""
        self._energies: list[FloatArray] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._absent_in_run: list[int] = []
        self._ratios: dict[str, list[FloatArray]] = {"present": [], "absent": []}
        self._examples_of_runs: list[int] = []
        self._previous: dict[int, tuple[FloatArray, Observed]] = {}
        self.taken_in_both: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        """Examples that took part in a step of one run and of the next."""
        self.examples_of_pairs = 0
        self.examples_each = 1
        """Number of examples of each canary."""

    def add(self, observed: Observed, nearly_empty: bool = False) -> None:
        """Add a run.

        Args:
            observed: What the run showed.
            nearly_empty: Whether the run has few canaries, all of which are present. Otherwise those that a correct
                loop clips are trials.
        """
        self.examples_each = observed.taken.shape[0] // observed.canaries.present.size
        outputs = observed.releases @ self._transposed
        canaries = observed.canaries
        if not nearly_empty:
            self._add_trials(outputs[canaries.places], canaries)
        scaled = outputs / self.mechanism.noise_multiplier
        self._add_noise(scaled[observed.absent])
        self._add_coordinates(scaled, observed)
        for weight, alike in self._groups(canaries, nearly_empty):
            self._add_canaries(weight, alike, scaled, observed)
        self._add_batches(observed.taken)
        previous = self._previous.pop(observed.taken.shape[0], None)
        if previous is None:
            self._previous[observed.taken.shape[0]] = scaled, observed
        else:
            self._add_pair(*previous, scaled, observed)
        self.changed_steps += observed.changed_steps
        self.runs += 1

    @property
    def log_ratios(self) -> tuple[FloatArray, FloatArray]:
        """log P/Q of all trials with the canary, and of all without it."""
        present, absent = (np.concatenate([np.zeros(0), *self._ratios[side]]) for side in ("present", "absent"))
        return present, absent

    @property
    def weight_of_clipped(self) -> Weight:
        """The weight of all canaries above the clip norm together, in runs with many."""
        clipped = [weight for weight in self.weights.values() if weight.expected == 1]
        return Weight(1.0, sum(weight.moved for weight in clipped), sum(weight.overlap for weight in clipped))

    @property
    def by_batch_size(self) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64], int]:
        """For each step of the runs that are not nearly empty: squares of noise, their number, and size of the batch.

        The last entry is the number of examples of a run.
        """
        examples = np.array(self._examples_of_runs)
        full = examples == examples.max()
        energies, sizes = np.stack(self._energies)[full], np.stack(self._sizes)[full]
        counts = np.broadcast_to(np.array(self._absent_in_run)[full, None], sizes.shape)
        return energies, counts, sizes, int(examples.max())

    def _groups(self, canaries: Canaries, nearly_empty: bool) -> list[tuple[Weight, BooleanArray]]:
        """Return the canaries in the data in groups, with what is kept of each."""
        if nearly_empty:
            return [(self.weight_alone, canaries.present)]
        return [(weight, canaries.present & (canaries.sizes == size)) for size, weight in self.weights.items()]

    def _add_trials(self, outputs: FloatArray, canaries: Canaries) -> None:
        for side, there in (("present", canaries.present), ("absent", ~canaries.present)):
            self._ratios[side].append(self.statistic.of_outputs(outputs[there & canaries.are_clipped]))

    def _add_pair(self, scaled: FloatArray, observed: Observed, next_scaled: FloatArray, following: Observed) -> None:
        """Add what two runs in a row have in common; no run is in two pairs."""
        absent = observed.absent & following.absent
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

    def _add_coordinates(self, scaled: FloatArray, observed: Observed) -> None:
        """Add the noise of each coordinate, and of their sum, without what lies along canaries in the data."""
        directions, absent = observed.canaries.directions, observed.absent
        noise = directions.back(np.where(absent[:, None], scaled, 0.0))
        shares = directions.shares(absent)
        if not self.coordinate_counts.size:
            self.coordinate_squares, self.coordinate_counts = np.zeros(len(noise)), np.zeros(len(noise), dtype=np.int64)
        seen = shares > 0
        self.coordinate_squares[seen] += (noise[seen] ** 2).sum(axis=1) / shares[seen]
        self.coordinate_counts[seen] += noise.shape[1]
        sums = directions.along(np.ones((len(noise), 1)))[absent, 0]
        if sums.size > 1:
            self.shared_square += float(((sums @ scaled[absent]) ** 2).sum() / (sums**2).sum())
            self.shared_count += noise.shape[1]

    def _add_canaries(self, weight: Weight, alike: BooleanArray, scaled: FloatArray, observed: Observed) -> None:
        outputs = scaled[observed.canaries.places[alike]]
        means = observed.participations[alike] @ self._transposed * (weight.expected / self.mechanism.noise_multiplier)
        weight.overlap += float((means * outputs).sum())
        weight.moved += float((means**2).sum())
        self.squares_present += ((outputs - means) ** 2).sum(axis=0)
        self.present += outputs.shape[0]

    def _add_batches(self, taken: BooleanArray) -> None:
        self._sizes.append(taken.sum(axis=0))
        self._examples_of_runs.append(taken.shape[0])
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
