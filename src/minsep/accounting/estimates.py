"""Estimates of delta and epsilon, with their standard errors. An estimate is not a guarantee."""

import math
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minsep import _validation as validate
from minsep.accounting.exact import Event, ExactCurve, PldCurve, event_curve, exact_curve
from minsep.accounting.moments import integrand_moments
from minsep.accounting.pairs import DIRECTIONS, Direction, Pair
from minsep.accounting.support import pair_of, unsupported
from minsep.engine import run_chunks
from minsep.mechanism import Mechanism
from minsep.randomness import Key

FloatArray = NDArray[np.float64]
Method = Literal["auto", "exact", "plain"]

_METHODS = ("auto", "exact", "plain")
_PILOT_SAMPLES = 4096
_GRID = 2049
_COMPOSED_GRID = 257
_FEWEST_IN_TAIL = 10


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error, and where it comes from.

    `value` is the larger of the two directions. A `stderr` of 0 means that no samples were needed.
    """

    value: float
    stderr: float
    direction: Direction
    method: str
    samples: int
    remove: float
    add: float
    upper_bound: bool = False
    """Whether what was estimated is itself an upper bound of the quantity asked for."""

    def __str__(self) -> str:
        error = "no sampling error" if self.stderr == 0 else f"standard error {self.stderr:.2g}"
        bound = ", upper bound" if self.upper_bound else ""
        return f"{self.value:.4g} (estimate by {self.method}, {error}, {self.direction}{bound})"


@dataclass(frozen=True)
class PrivacyCurve:
    """delta at several epsilons, all from the same samples."""

    epsilons: FloatArray
    remove: FloatArray
    add: FloatArray
    remove_stderr: FloatArray
    add_stderr: FloatArray
    method: str
    samples: int
    upper_bound: bool = False

    @property
    def deltas(self) -> FloatArray:
        """The larger of the two directions at each epsilon."""
        return np.maximum(self.remove, self.add)

    @property
    def stderrs(self) -> FloatArray:
        """Standard error of the larger of the two directions at each epsilon."""
        return np.where(self.remove >= self.add, self.remove_stderr, self.add_stderr)


def privacy_curve(
    mechanism: Mechanism,
    epsilons: ArrayLike,
    samples: int = 100_000,
    seed: int = 0,
    *,
    method: Method = "auto",
    compose_with: Event | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> PrivacyCurve:
    """Estimate delta at several epsilons from one set of samples. Arguments are as for `estimate_delta`.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=0.8)
    >>> curve = privacy_curve(mechanism, [0.5, 1.0, 2.0], samples=20_000)
    >>> bool((np.diff(curve.deltas) < 0).all())
    True
    """
    asked = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    if asked.ndim != 1 or asked.size == 0 or not (np.isfinite(asked) & (asked >= 0)).all():
        raise ValueError(f"epsilons is {epsilons!r}, but it must be finite numbers of at least 0.")
    increasing, places = np.unique(asked, return_inverse=True)
    exact, event = _prepare(mechanism, method, compose_with)
    if exact is not None:
        nothing = np.zeros(asked.size)
        remove, add = (exact.delta(asked, direction) for direction in DIRECTIONS)
        return PrivacyCurve(asked, remove, add, nothing, nothing, exact.method, 0)
    work = _Sampling(mechanism, validate.integer(samples=samples, at_least=2), seed, event, workers, executor)
    (remove, remove_stderr), (add, add_stderr) = (work.deltas(increasing, direction) for direction in DIRECTIONS)
    return PrivacyCurve(
        asked,
        remove[places],
        add[places],
        remove_stderr[places],
        add_stderr[places],
        "plain",
        work.samples,
        work.pair.upper_bound,
    )


def estimate_delta(
    mechanism: Mechanism,
    epsilon: float,
    samples: int = 100_000,
    seed: int = 0,
    *,
    method: Method = "auto",
    compose_with: Event | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Estimate:
    """Estimate the delta of a mechanism at an epsilon.

    - `method="auto"` takes an exact value where there is one, and else the mean over samples; `"exact"` and `"plain"`
      insist on one or the other.
    - `compose_with` adds another event: one of dp_accounting's, or a privacy loss distribution.
    - `executor` does the work elsewhere; by default it is done in `workers` threads, as many as there are cores.
    - The result is a function of (mechanism, epsilon, samples, seed), whoever does the work.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=0.8)
    >>> estimate = estimate_delta(mechanism, epsilon=2.0, samples=20_000)
    >>> estimate.direction, estimate.method
    ('remove', 'plain')
    >>> estimate.stderr < 0.2 * estimate.value
    True
    """
    epsilon = validate.real(epsilon=epsilon)
    curve = privacy_curve(
        mechanism,
        [epsilon],
        samples,
        seed,
        method=method,
        compose_with=compose_with,
        workers=workers,
        executor=executor,
    )
    remove, add = float(curve.remove[0]), float(curve.add[0])
    return Estimate(
        float(curve.deltas[0]),
        float(curve.stderrs[0]),
        "remove" if remove >= add else "add",
        curve.method,
        curve.samples,
        remove,
        add,
        curve.upper_bound,
    )


def estimate_epsilon(
    mechanism: Mechanism,
    delta: float,
    samples: int = 100_000,
    seed: int = 0,
    *,
    method: Method = "auto",
    compose_with: Event | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Estimate:
    """Estimate the epsilon of a mechanism at a delta. Arguments are as for `estimate_delta`.

    >>> import minsep
    >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
    >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
    >>> estimate = estimate_epsilon(mechanism, delta=1e-5)
    >>> round(estimate.value, 3), estimate.method, estimate.stderr
    (1.828, 'pld', 0.0)
    """
    delta = validate.real(delta=delta, above=0, at_most=1)
    exact, event = _prepare(mechanism, method, compose_with)
    if exact is not None:
        remove, add = (exact.epsilon(delta, direction) for direction in DIRECTIONS)
        return Estimate(max(remove, add), 0.0, "remove" if remove >= add else "add", exact.method, 0, remove, add)
    work = _Sampling(mechanism, validate.integer(samples=samples, at_least=2), seed, event, workers, executor)
    (remove, remove_stderr), (add, add_stderr) = (work.epsilon(delta, direction) for direction in DIRECTIONS)
    larger: Direction = "remove" if remove >= add else "add"
    return Estimate(
        max(remove, add),
        remove_stderr if larger == "remove" else add_stderr,
        larger,
        "plain",
        work.samples,
        remove,
        add,
        work.pair.upper_bound,
    )


def _prepare(
    mechanism: Mechanism, method: Method, compose_with: Event | None
) -> tuple[ExactCurve | None, PldCurve | None]:
    """Return the exact curve, composed with the other event, or None and the curve of the event alone."""
    validate.choice(_METHODS, method=method)
    event = None if compose_with is None else event_curve(compose_with)
    exact = None if method == "plain" else exact_curve(mechanism)
    if exact is None and method == "exact":
        raise unsupported(mechanism, "exact")
    if exact is not None and event is not None:
        return PldCurve(exact.distribution().compose(event.distribution())), event
    return exact, event


@lru_cache(maxsize=16)
def _cached_pair(mechanism: Mechanism) -> Pair:
    # Single precision moves a log ratio by about 1e-5: nothing beside the error of an estimate.
    return pair_of(mechanism, np.float32)


class _Sampling:
    """Plain Monte Carlo estimates of one mechanism, from samples that are drawn again for each question."""

    def __init__(
        self,
        mechanism: Mechanism,
        samples: int,
        seed: int,
        event: PldCurve | None,
        workers: int | None,
        executor: Executor | None,
    ) -> None:
        self.pair = _cached_pair(mechanism)
        self.samples = samples
        self._mechanism = mechanism
        self._key = Key.from_seed(seed).derive("estimate")
        self._event = event
        self._workers, self._executor = workers, executor

    def deltas(self, epsilons: FloatArray, direction: Direction) -> tuple[FloatArray, FloatArray]:
        """Return estimates and standard errors at increasing epsilons."""
        if direction == "add" and self._event is None:
            # P/Q is at least the probability of no participation, so from here on the integrand is 0 everywhere.
            free = np.exp(-epsilons) <= self.pair.no_participation
            if free.all():
                return np.zeros(epsilons.size), np.zeros(epsilons.size)
        if direction == "add" and self.pair.upper_bound:
            least = -math.log(self.pair.no_participation) if self.pair.no_participation > 0 else math.inf
            raise ValueError(
                f"epsilon is {epsilons[0]:g}, but the bound for more bands than min_sep covers `add` only alone and "
                f"from epsilon {least:.4g} on, where e^-epsilon is at most the probability to never take part."
            )
        moments = self._moments(epsilons, direction)
        means = moments[0] / self.samples
        variances = np.maximum(moments[1] / self.samples - means**2, 0.0)
        # 1/samples keeps an estimate that saw no loss at all from looking certain.
        stderrs = np.sqrt(variances / self.samples + self.samples**-2)
        if direction == "add" and self._event is None:
            means[free], stderrs[free] = 0.0, 0.0
        return means, stderrs

    def epsilon(self, delta: float, direction: Direction) -> tuple[float, float]:
        """Return the epsilon at which the estimated delta is this one, at least 0, and its standard error."""
        if delta * self.samples < _FEWEST_IN_TAIL:
            raise ValueError(
                f"delta is {delta:g}, but {self.samples:,} plain samples resolve no delta below "
                f"{_FEWEST_IN_TAIL / self.samples:.2g}: ask for at least {math.ceil(_FEWEST_IN_TAIL / delta):,}."
            )
        least = 0.0
        if direction == "add" and self._event is None:
            if self.pair.no_participation == 1:
                return 0.0, 0.0
            if self.pair.upper_bound:
                return (-math.log(self.pair.no_participation) if self.pair.no_participation > 0 else math.inf), 0.0
        greatest = self._pilot(direction)
        while True:
            grid = np.linspace(least, greatest, _GRID if self._event is None else _COMPOSED_GRID)
            deltas, stderrs = self.deltas(grid, direction)
            if deltas[0] <= delta:
                return least, 0.0
            if deltas[-1] <= delta:
                return _crossing(grid, deltas, stderrs, delta)
            least, greatest = greatest, 2 * greatest

    def _pilot(self, direction: Direction) -> float:
        """Return an epsilon beyond which few losses lie."""
        chunks = -(-min(_PILOT_SAMPLES, self.samples) // self.pair.samples_in_chunk)
        losses = run_chunks(
            partial(_chunk_losses, self._mechanism, direction, self._key),
            chunks,
            workers=self._workers,
            executor=self._executor,
        )
        greatest = max(float(part.max()) for part in losses)
        if self._event is not None:
            greatest += self._event.epsilon(1e-3, direction)
        return max(1.25 * greatest, 1.0)

    def _moments(self, epsilons: FloatArray, direction: Direction) -> FloatArray:
        chunks = -(-self.samples // self.pair.samples_in_chunk)
        work = partial(_chunk_moments, self._mechanism, direction, self._key, epsilons, self._event, self.samples)
        total = np.zeros((2, epsilons.size))
        for moments in run_chunks(work, chunks, workers=self._workers, executor=self._executor):
            total += moments
        return total


def _chunk_losses(mechanism: Mechanism, direction: Direction, key: Key, chunk: int) -> FloatArray:
    ratios = _cached_pair(mechanism).draw_log_ratios(direction, key, chunk)
    if not np.isfinite(ratios).all():
        raise FloatingPointError(f"A log likelihood ratio of chunk {chunk} is not finite: no estimate can be given.")
    return ratios if direction == "remove" else -ratios


def _chunk_moments(
    mechanism: Mechanism,
    direction: Direction,
    key: Key,
    epsilons: FloatArray,
    event: PldCurve | None,
    samples: int,
    chunk: int,
) -> FloatArray:
    losses = _chunk_losses(mechanism, direction, key, chunk)
    losses = losses[: samples - chunk * losses.size]
    if event is None:
        return integrand_moments(losses, np.zeros(losses.size), epsilons)
    # With a second event of its own loss, delta is the mean of its delta at what the first loss leaves of epsilon.
    values = event.delta(epsilons - losses[:, None], direction)
    return np.stack([values.sum(axis=0), (values**2).sum(axis=0)])


def _crossing(grid: FloatArray, deltas: FloatArray, stderrs: FloatArray, delta: float) -> tuple[float, float]:
    """Interpolate the epsilon of a delta, and carry the standard error over by the slope."""
    k = int(np.argmax(deltas <= delta))
    above, below = deltas[k - 1], deltas[k]
    if below > 0:
        share = math.log(above / delta) / math.log(above / below)
    else:
        share = (above - delta) / above
    width = grid[k] - grid[k - 1]
    return float(grid[k - 1] + share * width), float(stderrs[k - 1] * width / (above - below))
