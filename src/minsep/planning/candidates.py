"""The mechanisms that a plan tries, and those that it skips."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from minsep.accounting import has_exact_curve
from minsep.core.numbers import in_bytes
from minsep.mechanism import Design, Mechanism, name_of
from minsep.participation import Family, Scheme, UserMinSep, families
from minsep.planning.request import Request
from minsep.strategy import BandedToeplitz, Setting, Strategy, Workload, recipes
from minsep.strategy.dampable import Dampable
from minsep.strategy.toeplitz import Toeplitz

_BYTES_OF_A_ROW = 4  # of each parameter
_PREFIX_SUMS = Workload()


@dataclass(frozen=True)
class Candidate:
    """One mechanism that was tried, or the reason why it was not.

    Attributes:
        scheme: The kind of its scheme.
        bands: The number of bands of its strategy; of another kind than banded, the size of its recipe.
        min_sep: Its separation.
        shrink: A factor on the coefficients below the diagonal of the strategy: 1 for the paper's choice. Other kinds
            are damped by it: coefficient k is multiplied by its k-th power.
        noise_multiplier: The noise multiplier that it needs.
        error: The root mean squared error of the workload, for clip norm 1.
        exact: Whether the noise multiplier is computed, and not estimated.
        skipped: The reason why it was not tried.
        cut: Whether that reason is the truncation of large batches.
        matrix: The kind of its strategy.
        too_large: Whether that reason is the memory of noise.
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
    matrix: str = BandedToeplitz.kind
    too_large: bool = False

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
            _size_of(mechanism.strategy),
            mechanism.scheme.min_sep,
            shrink,
            mechanism.noise_multiplier,
            workload.error(mechanism.strategy, mechanism.noise_multiplier),
            has_exact_curve(mechanism.design),
            matrix=mechanism.strategy.kind,
        )

    @property
    def is_banded(self) -> bool:
        """Whether its strategy is banded, as the paper's are."""
        return self.matrix == BandedToeplitz.kind

    @property
    def is_correlated(self) -> bool:
        """Whether its noise is correlated."""
        return self.bands > 1 or not self.is_banded

    @property
    def noise_bytes(self) -> int:
        """Bytes of past noise for each parameter of the model."""
        if self.is_banded:
            return (self.bands - 1) * _BYTES_OF_A_ROW
        return recipes()[self.matrix].noise_bytes(self.bands)

    @property
    def drawn_rows(self) -> int:
        """Rows of normals that a run draws in each step."""
        return 1 if self.is_banded else recipes()[self.matrix].drawn_rows(self.bands)

    def exists(self, request: Request) -> bool:
        """Return whether there is a strategy of its size, which has to be computed for some."""
        return self.is_banded or _dense_strategy(self.matrix, self.bands, setting_of(request)) is not None

    def strategy(self, request: Request) -> Toeplitz:
        """Return the strategy matrix."""
        if self.is_banded:
            best = _optimal_strategy(request.iterations, self.bands, request.workload)
            return best if self.shrink == 1.0 else best.shrunk(self.shrink)
        found = _dense_strategy(self.matrix, self.bands, setting_of(request))
        if found is None:
            raise ValueError(f"bands is {self.bands}, but there is no {self.matrix} strategy of this size.")
        return found.damped(self.shrink)

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
        if self.is_banded:
            scaled = "" if self.shrink == 1.0 else f", off-diagonals scaled to {self.shrink:g}"
            bands = f"{self.bands} band{'s' if self.bands > 1 else ''}"
            return name_of(scheme, bands, self.bands == self.min_sep == 1) + scaled
        damped = "" if self.shrink == 1.0 else f", damped by {self.shrink:.4g} a step"
        return f"{scheme}, {recipes()[self.matrix].name(self.bands)}{damped}"


@lru_cache(maxsize=32)
def _optimal_strategy(iterations: int, bands: int, workload: Workload) -> BandedToeplitz:
    return BandedToeplitz.optimal(iterations=iterations, bands=bands, workload=workload)


@lru_cache(maxsize=64)
def _dense_strategy(kind: str, size: int, setting: Setting) -> Dampable | None:
    return recipes()[kind].strategy(size, setting)


def setting_of(request: Request) -> Setting:
    """Return what strategies are made for whose participations overlap: one participation an epoch."""
    epoch = request.sizes.epoch
    return Setting(request.iterations, epoch, -(-request.iterations // epoch), request.workload)


def _size_of(strategy: Strategy) -> int:
    recipe = recipes().get(strategy.kind)
    return strategy.bands if recipe is None else recipe.size_of(strategy)


def candidates(request: Request) -> Iterator[Candidate]:
    """Yield what is to be tried: bands 1, 2, 4, ..., and separations from the bands to the epoch, doubling.

    Where the size of the model is known, the memory of noise counts: strategies with little memory are tried as well.
    """
    known = families()
    tried = [known[kind] for kind in request.schemes]
    epoch_is_tried = request.user_bound == 1 and any(family.an_epoch_apart for family in tried)
    for family in tried:
        for bands in family.bands(request.max_bands):
            for separation in family.separations(request.sizes, bands, request.min_sep, epoch_is_tried):
                reason = _reason_to_skip(request, family, bands, separation)
                yield _within_memory(Candidate(family.kind, bands, separation, skipped=reason), request)
    for family in tried:
        if family.takes_dense and request.model_size is not None:
            yield from _with_little_memory(family, request)


def _with_little_memory(family: type[Family], request: Request) -> Iterator[Candidate]:
    separation = request.sizes.epoch
    reason = _reason_to_skip(request, family, 1, separation)
    if not reason and request.max_batch_size is not None:
        reason = "its privacy is not known with truncated batches"
    for kind, recipe in recipes().items():
        for size in recipe.sizes(request.max_bands):
            candidate = Candidate(family.kind, size, separation, skipped=reason, matrix=kind)
            yield _within_memory(candidate, request)


def _within_memory(candidate: Candidate, request: Request) -> Candidate:
    """Return a candidate, skipped if its noise does not fit."""
    needed = candidate.noise_bytes * (request.model_size or 0)
    if candidate.skipped or needed <= request.noise_memory:
        return candidate
    reason = f"its noise needs {in_bytes(needed)}, more than the {in_bytes(request.noise_memory)} allowed"
    return replace(candidate, skipped=reason, too_large=True)


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
    return ""
