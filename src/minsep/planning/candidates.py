"""The mechanisms that a plan tries, and those that it skips."""

from collections.abc import Iterator
from dataclasses import dataclass

from minsep.mechanism import Mechanism
from minsep.planning.task import Task
from minsep.strategy import BandedToeplitz

BYTES_OF_NOISE = 4


@dataclass(frozen=True)
class Candidate:
    """One mechanism that was tried, or the reason why it was not."""

    scheme: str
    bands: int
    min_sep: int
    shrink: float = 1.0
    """Factor on the coefficients below the diagonal of the strategy: 1 for the paper's choice."""
    noise_multiplier: float | None = None
    error: float | None = None
    """Root mean squared error of prefix sums, for clip norm 1."""
    skipped: str = ""

    @classmethod
    def of(cls, mechanism: Mechanism, shrink: float) -> "Candidate":
        """Return a mechanism as a candidate.

        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
        >>> Candidate.of(minsep.Mechanism(strategy, minsep.CyclicPoisson(0.01, 10), 2.0), shrink=1.0).name
        'cyclic Poisson, cycle 10, 4 bands'
        """
        return cls(
            mechanism.scheme.describe()["kind"],
            mechanism.strategy.bands,
            mechanism.scheme.min_sep,
            shrink,
            mechanism.noise_multiplier,
            mechanism.root_mean_squared_error,
        )

    @property
    def exact(self) -> bool:
        """Whether the noise multiplier is computed, and not estimated."""
        return self.scheme in ("poisson", "cyclic-poisson")

    def strategy(self, iterations: int) -> BandedToeplitz:
        """Return the strategy matrix."""
        best = BandedToeplitz.optimal(iterations=iterations, bands=self.bands)
        return best if self.shrink == 1.0 else best.shrunk(self.shrink)

    @property
    def name(self) -> str:
        """The scheme, with its parameters, in words.

        >>> Candidate("min-sep", bands=16, min_sep=32).name
        'b-min-sep, b = 32, 16 bands'
        """
        words = {
            "poisson": "DP-SGD, Poisson",
            "cyclic-poisson": f"cyclic Poisson, cycle {self.min_sep}",
            "balls-in-bins": f"balls-in-bins, epoch {self.min_sep}",
            "min-sep": f"b-min-sep, b = {self.min_sep}",
            "unamplified": f"a fixed order, {self.min_sep} apart",
        }[self.scheme]
        bands = "" if self.scheme == "poisson" else f", {self.bands} bands"
        return words + bands + ("" if self.shrink == 1.0 else f", shrunk by {self.shrink:.2f}")


def candidates(
    task: Task, schemes: tuple[str, ...], max_bands: int, min_sep: int | None, model_size: int | None, noise_memory: int
) -> Iterator[Candidate]:
    """Yield what is to be tried: bands 1, 2, 4, ..., and separations from the bands to the epoch, doubling."""
    for scheme in schemes:
        for bands in [1] if scheme == "poisson" else _doubling(1, max_bands):
            for separation in _separations(task, scheme, bands, min_sep, "balls-in-bins" in schemes):
                skipped = _reason_to_skip(task, scheme, bands, separation, model_size, noise_memory)
                yield Candidate(scheme, bands, separation, skipped=skipped)


def _separations(task: Task, scheme: str, bands: int, min_sep: int | None, with_bins: bool) -> list[int]:
    match scheme:
        case "poisson":
            return [1]
        case "cyclic-poisson":
            return [bands] if bands > 1 else []
        case "balls-in-bins" if bands == 1:
            return []  # an epoch apart and without bands: far from the best in every setting
        case "balls-in-bins":
            return [task.scheme(scheme, 1).min_sep]
    if min_sep is not None:
        return [min_sep]
    if bands == 1:
        return []  # nothing to keep apart: as good as Poisson sampling
    separations = _doubling(bands, task.longest_separation) or [bands]
    # With a separation of an epoch b-min-sep is balls-in-bins.
    return separations[:-1] if with_bins and len(separations) > 1 else separations


def _doubling(first: int, last: int) -> list[int]:
    """Return first, 2 first, 4 first, ... below last, and last; nothing if first is above it."""
    values, value = [], first
    while value < last:
        values.append(value)
        value *= 2
    return [*values, last] if first <= last else []


def _reason_to_skip(
    task: Task, scheme: str, bands: int, min_sep: int, model_size: int | None, noise_memory: int
) -> str:
    if bands > task.iterations:
        return f"there are {task.iterations:,} iterations"
    if min_sep > task.longest_separation and scheme != "balls-in-bins":
        return f"an epoch has {task.longest_separation:,} batches"
    if bands > min_sep:
        return f"more bands than the separation, {min_sep:,}"
    needed = (bands - 1) * (model_size or 0) * BYTES_OF_NOISE
    if needed > noise_memory:
        return f"its noise needs {needed / 2**30:,.1f} GiB, more than the {noise_memory / 2**30:,.1f} GiB allowed"
    return ""
