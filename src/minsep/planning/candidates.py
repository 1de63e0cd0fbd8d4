"""The mechanisms that a plan tries, and those that it skips."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from minsep.accounting import has_exact_curve
from minsep.mechanism import Design, Mechanism, name_of
from minsep.participation import Family, Scheme, UserMinSep, families
from minsep.planning.request import Request
from minsep.strategy import BandedToeplitz, Workload

BYTES_OF_NOISE = 4
_PREFIX_SUMS = Workload()


@dataclass(frozen=True)
class Candidate:
    """One mechanism that was tried, or the reason why it was not.

    Attributes:
        scheme: The kind of its scheme.
        bands: The number of bands of its strategy.
        min_sep: Its separation.
        shrink: A factor on the coefficients below the diagonal of the strategy: 1 for the paper's choice.
        noise_multiplier: The noise multiplier that it needs.
        error: The root mean squared error of the workload, for clip norm 1.
        exact: Whether the noise multiplier is computed, and not estimated.
        skipped: The reason why it was not tried.
        cut: Whether that reason is the truncation of large batches.
    """

    scheme: str
    bands: int
    min_sep: int
    shrink: float = 1.0
    noise_multiplier: float | None = None
    error: float | None = None
    exact: bool = False
    skipped: str = ""
    cut: bool = False

    @classmethod
    def of(cls, mechanism: Mechanism, shrink: float, workload: Workload = _PREFIX_SUMS) -> "Candidate":
        """Return a mechanism as a candidate.

        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
        >>> Candidate.of(minsep.Mechanism(strategy, minsep.CyclicPoisson(0.01, 10), 2.0), shrink=1.0).name
        'cyclic Poisson, cycle 10, 4 bands'
        """
        return cls(
            mechanism.scheme.kind,
            mechanism.strategy.bands,
            mechanism.scheme.min_sep,
            shrink,
            mechanism.noise_multiplier,
            workload.error(mechanism.strategy, mechanism.noise_multiplier),
            has_exact_curve(mechanism.design),
        )

    def strategy(self, request: Request) -> BandedToeplitz:
        """Return the strategy matrix."""
        best = _optimal_strategy(request.iterations, self.bands, request.workload)
        return best if self.shrink == 1.0 else best.shrunk(self.shrink)

    def design(self, request: Request) -> Design:
        """Return the candidate for a task, before its noise is known."""
        return Design(
            self.strategy(request), _scheme(request, families()[self.scheme], self.min_sep), request.truncation
        )

    @property
    def name(self) -> str:
        """The scheme and the strategy, with their parameters, in words.

        >>> Candidate("min-sep", bands=16, min_sep=32).name
        'b-min-sep, b = 32, 16 bands'
        """
        family = families().get(self.scheme)
        scheme = f"{self.scheme}, {self.min_sep} apart" if family is None else family.name(self.min_sep)
        scaled = "" if self.shrink == 1.0 else f", off-diagonals scaled to {self.shrink:g}"
        return name_of(scheme, self.bands, self.min_sep) + scaled


@lru_cache(maxsize=32)
def _optimal_strategy(iterations: int, bands: int, workload: Workload) -> BandedToeplitz:
    return BandedToeplitz.optimal(iterations=iterations, bands=bands, workload=workload)


def candidates(request: Request) -> Iterator[Candidate]:
    """Yield what is to be tried: bands 1, 2, 4, ..., and separations from the bands to the epoch, doubling."""
    known = families()
    tried = [known[kind] for kind in request.schemes]
    epoch_is_tried = request.user_bound == 1 and any(family.an_epoch_apart for family in tried)
    for family in tried:
        for bands in family.bands(request.max_bands):
            for separation in family.separations(request.sizes, bands, request.min_sep, epoch_is_tried):
                reason = _reason_to_skip(request, family, bands, separation)
                yield Candidate(family.kind, bands, separation, skipped=reason)


def _scheme(request: Request, family: type[Family], separation: int) -> Scheme:
    """Return the scheme of a family for a task, whose unit may be users."""
    scheme = family.scheme(request.sizes, separation)
    if request.user_bound == 1 or scheme.unit == "user":
        return scheme
    return UserMinSep.of(scheme, request.user_bound, request.graph)


def _reason_to_skip(request: Request, family: type[Family], bands: int, min_sep: int) -> str:
    sizes = request.sizes
    if request.user_bound > 1 and not family.covers_users:
        return "its privacy is not known for users with several examples"
    if bands > request.iterations:
        return f"there are {request.iterations:,} iterations"
    if min_sep > max(sizes.longest_separation, sizes.epoch if family.an_epoch_apart else 0):
        return f"an epoch has {sizes.longest_separation:,} batches"
    if bands > min_sep:
        return f"more bands than the separation, {min_sep:,}"
    try:
        _scheme(request, family, min_sep)
    except ValueError as error:
        return str(error).rstrip(".")
    needed = (bands - 1) * (request.model_size or 0) * BYTES_OF_NOISE
    if needed > request.noise_memory:
        most = f"the {request.noise_memory / 2**30:,.1f} GiB allowed"
        return f"its noise needs {needed / 2**30:,.1f} GiB, more than {most}"
    return ""
