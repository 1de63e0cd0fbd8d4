"""Estimates of delta and epsilon, with their standard errors. An estimate is not a guarantee."""

import math
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from minsep import _validation as validate
from minsep.accounting.exact import Event, ExactCurve, PldCurve, event_curve, exact_curve
from minsep.accounting.moments import integrand_moments
from minsep.accounting.pairs import DIRECTIONS, Direction, MinSepPair, TruncatedPair
from minsep.accounting.proposals import EstimationProposal, MixedProposal, PlainProposal, TiltedProposal, affordable
from minsep.accounting.separation import shift_of, shortened
from minsep.accounting.support import pair_of, samples_can_be_drawn, tiltable, unsupported
from minsep.engine import run_chunks
from minsep.mechanism import Mechanism
from minsep.randomness import Key

FloatArray = NDArray[np.float64]
Drawn = PlainProposal | EstimationProposal | TiltedProposal | MixedProposal
Method = Literal["auto", "exact", "plain", "tilted"]

_LONGEST_TILTED = 1024  # separation, of a run that is shorter and composed with another event
_METHODS = ("auto", "exact", "plain", "tilted")
_PILOT_SAMPLES = 2048
_PILOT_ROWS = 32  # of two samples each, from every candidate
_NEAR = 0.5
_MOST_PARTS = 4
_SCALES = (1.0, 1.5, 2.0, 3.0, 4.5, 7.0)
_WEIGHTS = (1.0, 4.0, 16.0, 64.0)
_PAIR_SCALES = (1.0, 1.15, 1.4)
_MOST_GRIDS = 40
_MOST_EPSILON = 1e4
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
    _check_work(samples, seed, workers)
    exact, event = _prepare(mechanism, method, compose_with)
    if exact is not None:
        nothing = np.zeros(asked.size)
        remove, add = (exact.delta(asked, direction) for direction in DIRECTIONS)
        mostly_rounding = not all(map(exact.carries, np.maximum(remove, add)))
        return PrivacyCurve(asked, remove, add, nothing, nothing, exact.method, 0, exact.upper_bound or mostly_rounding)
    work = Sampling(mechanism, samples, seed, method, event, workers, executor)
    (remove, remove_stderr), (add, add_stderr) = (work.deltas(increasing, direction) for direction in DIRECTIONS)
    return PrivacyCurve(
        asked,
        remove[places],
        add[places],
        remove_stderr[places],
        add_stderr[places],
        work.method,
        work.samples,
        work.upper_bound,
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

    - `method="auto"` takes an exact value where there is one, and else samples, tilted towards the losses that matter
      where that is known how; `"exact"`, `"tilted"` and `"plain"` insist.
    - `compose_with` adds another event: one of dp_accounting's, or a privacy loss distribution.
    - `executor` does the work elsewhere; by default it is done in `workers` threads, as many as there are cores.
    - The result is a function of (mechanism, epsilon, samples, seed), whoever does the work.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
    >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=0.8)
    >>> estimate = estimate_delta(mechanism, epsilon=2.0, samples=20_000)
    >>> estimate.direction, estimate.method
    ('remove', 'tilted')
    >>> estimate.stderr < 0.1 * estimate.value
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
    _check_work(samples, seed, workers)
    exact, event = _prepare(mechanism, method, compose_with)
    if exact is not None and not exact.carries(delta):
        if method == "exact" or not samples_can_be_drawn(mechanism):
            raise exact.refusal(delta)
        exact = None
    if exact is not None:
        remove, add = (exact.epsilon(delta, direction) for direction in DIRECTIONS)
        larger: Direction = "remove" if remove >= add else "add"
        return Estimate(max(remove, add), 0.0, larger, exact.method, 0, remove, add, exact.upper_bound)
    work = Sampling(mechanism, samples, seed, method, event, workers, executor)
    (remove, remove_stderr), (add, add_stderr) = (work.epsilon(delta, direction) for direction in DIRECTIONS)
    larger = "remove" if remove >= add else "add"
    return Estimate(
        max(remove, add),
        remove_stderr if larger == "remove" else add_stderr,
        larger,
        work.method,
        work.samples,
        remove,
        add,
        work.upper_bound,
    )


def _check_work(samples: int, seed: int, workers: int | None) -> None:
    validate.integer(samples=samples, at_least=2)
    validate.integer(seed=seed, at_least=0)
    if workers is not None:
        validate.integer(workers=workers, at_least=1)


def _prepare(
    mechanism: Mechanism, method: Method, compose_with: Event | None
) -> tuple[ExactCurve | None, PldCurve | None]:
    """Return the exact curve, composed with the other event, or None and the curve of the event alone."""
    validate.choice(_METHODS, method=method)
    event = None if compose_with is None else event_curve(compose_with)
    exact = None if method in ("plain", "tilted") else exact_curve(mechanism)
    if exact is None and method == "exact":
        raise unsupported(mechanism, "exact")
    if exact is not None and event is not None:
        try:
            whole = exact.distribution().compose(event.distribution())
            count = exact.compositions if isinstance(exact, PldCurve) else 1
            return PldCurve(whole, upper_bound=exact.upper_bound, compositions=count), event
        except ValueError as error:
            raise ValueError(f"compose_with does not compose with this mechanism: {error}") from None
    return exact, event


class Sampling:
    """Monte Carlo estimates of one mechanism, from samples that are drawn again for each question."""

    def __init__(
        self,
        mechanism: Mechanism,
        samples: int,
        seed: int,
        method: Method,
        event: PldCurve | None,
        workers: int | None,
        executor: Executor | None,
        proposals: Mapping[Direction, Drawn] | None = None,
    ) -> None:
        # Single precision moves a log ratio by about 1e-5: nothing beside the error of an estimate.
        pair = tiltable(pair_of(mechanism, np.float32))
        # Beside another event the two parts of a mixture cannot be told apart.
        self.pair, self._share = shortened(pair) if event is None else (pair, 1.0)
        self.samples = samples
        # Of a truncated mechanism the adversary sees more than there is to see.
        self.upper_bound = self.pair.upper_bound or isinstance(self.pair, TruncatedPair)
        tilts = (
            isinstance(self.pair, MinSepPair)
            and not self.pair.upper_bound
            and self.pair.min_sep <= max(self.pair.strategy.iterations, _LONGEST_TILTED)
        )
        if method == "tilted" and not tilts:
            raise unsupported(mechanism, "tilted")
        self.method = "tilted" if tilts and method != "plain" else "plain"
        self._key = Key.from_seed(seed).derive("estimate")
        self._event = event
        self.proposals: dict[Direction, Drawn] = dict(proposals or {})
        """What was drawn from last in each direction; what is given here is used as it is, for this mechanism."""
        self._given = bool(self.proposals)
        self._workers, self._executor = workers, executor

    def deltas(self, epsilons: FloatArray, direction: Direction) -> tuple[FloatArray, FloatArray]:
        """Return estimates and standard errors at increasing epsilons."""
        shifts = [shift_of(self._share, float(epsilon), direction) for epsilon in epsilons]
        factors = np.array([0.0 if shift.free else shift.factor for shift in shifts])
        means, stderrs = np.zeros(epsilons.size), np.zeros(epsilons.size)
        asked = factors > 0
        if asked.any():
            shifted = np.array([shift.epsilon for shift in shifts])[asked]
            means[asked], stderrs[asked] = self._deltas_of_pair(shifted, direction)
        return factors * means, factors * stderrs

    def _deltas_of_pair(self, epsilons: FloatArray, direction: Direction) -> tuple[FloatArray, FloatArray]:
        free = np.zeros(epsilons.size, dtype=bool)
        if direction == "add" and self._event is None:
            # P/Q is at least the probability of no participation, so from here on the integrand is 0 everywhere.
            free = np.exp(-epsilons) <= self.pair.no_participation
            if free.all():
                return np.zeros(epsilons.size), np.zeros(epsilons.size)
        if direction == "add" and self.pair.upper_bound:
            raise ValueError(
                f"epsilon is {epsilons[0]:g}, but the bound for more bands than min_sep covers `add` only alone and "
                f"from epsilon {self._free_from():.4g} on, where e^-epsilon is at most the probability to never take "
                "part."
            )
        proposal = self._proposal_for(direction, epsilons[~free])
        self.proposals[direction] = proposal
        samples = self.samples
        if isinstance(proposal, MixedProposal):
            # Whole rounds of the parts, so that each has its share.
            size = proposal.samples_in_chunk * len(proposal.parts)
            samples = -(-samples // size) * size
        moments = self._moments(proposal, epsilons, samples)
        means = moments[0] / samples
        variances = np.maximum(moments[1] / samples - means**2, 0.0)
        # An estimate that saw no loss at all must not look certain; a plain one cannot see less than 1/samples.
        floor = 1 / self.samples if isinstance(proposal, PlainProposal) or not means.any() else 0.0
        stderrs = np.sqrt(variances / samples + floor**2)
        means[free], stderrs[free] = 0.0, 0.0
        return means, stderrs

    def epsilon(self, delta: float, direction: Direction) -> tuple[float, float]:
        """Return the epsilon at which the estimated delta is this one, at least 0, and its standard error."""
        if self.method == "plain" and delta * self.samples < _FEWEST_IN_TAIL:
            raise ValueError(
                f"delta is {delta:g}, but {self.samples:,} plain samples resolve no delta below "
                f"{_FEWEST_IN_TAIL / self.samples:.2g}: ask for at least {math.ceil(_FEWEST_IN_TAIL / delta):,}."
            )
        if direction == "add" and self._event is None and self.pair.upper_bound:
            return self._free_from(), 0.0
        if self._event is not None and self._event.infinite(direction) >= delta:
            return math.inf, 0.0
        low, high = 0.0, self._guess(delta, direction)
        coarse: tuple[float, float] | None = None
        for _ in range(_MOST_GRIDS):
            grid = np.linspace(low, high, _GRID if self._event is None else _COMPOSED_GRID)
            deltas, stderrs = self.deltas(grid, direction)
            if coarse is not None:
                # The finer grid has samples of its own; where they disagree about the bracket, the coarse one stands.
                return _crossing(grid, deltas, stderrs, delta) if deltas[0] > delta >= deltas[-1] else coarse
            if deltas[0] <= delta and low == 0:
                fall = deltas[0] - deltas[1]
                return 0.0, float(stderrs[0] * (grid[1] - grid[0]) / fall) if fall > 0 else 0.0
            if deltas[0] > delta >= deltas[-1]:
                coarse = _crossing(grid, deltas, stderrs, delta)
                if self._event is None:
                    return coarse
                place = int(np.argmax(deltas <= delta))
                low, high = float(grid[max(place - 3, 0)]), float(grid[min(place + 2, grid.size - 1)])
            else:
                low, high = (0.0, low) if deltas[0] <= delta else (high, 2 * high)
        raise FloatingPointError(f"No epsilon was found for delta {delta:g}: the estimates do not settle.")

    def _free_from(self) -> float:
        never = 1 - self._share + self._share * self.pair.no_participation
        return -math.log(never) if never > 0 else math.inf

    def _guess(self, delta: float, direction: Direction) -> float:
        """Return an epsilon somewhat above that of a delta, from few samples."""
        if direction == "add" and self._event is None and self._free_from() < math.inf:
            return max(self._free_from(), 1e-3)
        few = _PILOT_SAMPLES
        high = 1.0
        while True:
            shift = shift_of(self._share, high, direction)
            moments = self._moments(self._proposal(direction, shift.epsilon), np.array([shift.epsilon]), few)
            if shift.factor * moments[0, 0] / few <= delta or high > _MOST_EPSILON:
                return high
            high *= 1.5

    def _proposal_for(self, direction: Direction, epsilons: FloatArray) -> Drawn:
        """Return what to draw from for all these epsilons at once."""
        given = self.proposals.get(direction) if self._given else None
        if isinstance(given, EstimationProposal | TiltedProposal) and isinstance(self.pair, MinSepPair):
            return replace(given, pair=self.pair)
        low, high = float(epsilons.min()), float(epsilons.max())
        if self.method == "plain" or high - low <= _NEAR:
            return self._proposal(direction, high)
        count = min(2 + round((high - low) / 2), _MOST_PARTS)
        parts = [self._proposal(direction, epsilon) for epsilon in np.linspace(low, high, count)]
        distinct = tuple(dict.fromkeys(part for part in parts if isinstance(part, EstimationProposal | TiltedProposal)))
        return MixedProposal(distinct) if len(distinct) > 1 else parts[-1]

    def _proposal(self, direction: Direction, epsilon: float) -> Drawn:
        """Return what to draw from: for tilted sampling the knobs that did best in a pilot of their own."""
        plain = PlainProposal(self.pair, direction)
        if self.method == "plain":
            return plain
        assert isinstance(self.pair, MinSepPair)
        sign = 1.0 if direction == "remove" else -1.0
        candidates: list[EstimationProposal | TiltedProposal] = [
            EstimationProposal(self.pair, direction, sign * scale, weight) for scale in _SCALES for weight in _WEIGHTS
        ]
        if affordable(self.pair, 2):
            candidates += [TiltedProposal(self.pair, direction, 2, sign * scale) for scale in _PAIR_SCALES]
        work = partial(_pilot_chunk, candidates, epsilon, self._key.derive("pilot"))
        chunks = run_chunks(work, len(candidates), workers=self._workers, executor=self._executor)
        integrands, densities = (np.concatenate(parts, axis=-1) for parts in zip(*chunks, strict=True))
        hits = np.isfinite(integrands)
        if not hits.any():
            return plain
        # Every candidate is judged by the samples of all: a region that it neglects shows, and counts against it.
        pooled = logsumexp(densities[:, hits], axis=0) - math.log(len(candidates))
        second_moments = logsumexp(2 * integrands[hits] - densities[:, hits] - pooled, axis=1)
        return candidates[int(np.argmin(second_moments))]

    def _moments(
        self,
        proposal: Drawn,
        epsilons: FloatArray,
        samples: int,
        key: Key | None = None,
    ) -> FloatArray:
        chunks = -(-samples // proposal.samples_in_chunk)
        work = partial(_chunk_moments, proposal, key or self._key, epsilons, self._event, samples)
        total = np.zeros((2, epsilons.size))
        for moments in run_chunks(work, chunks, workers=self._workers, executor=self._executor):
            total += moments
        return total


def _pilot_chunk(
    candidates: list[EstimationProposal | TiltedProposal], epsilon: float, key: Key, chunk: int
) -> tuple[FloatArray, FloatArray]:
    """Draw from one candidate; return the log integrand against Q, and the log densities of all candidates."""
    drawn = candidates[chunk]
    scores = drawn.draw_scores(key, chunk)[:_PILOT_ROWS]
    log_ratio = drawn.pair.log_means(scores, 1.0, 1.0)
    densities = np.stack([candidate.log_density(scores, log_ratio) for candidate in candidates])
    losses = log_ratio if drawn.direction == "remove" else -log_ratio
    with np.errstate(divide="ignore"):
        integrands = np.log(-np.expm1(np.minimum(epsilon - losses, 0.0)))
    return integrands + (log_ratio if drawn.direction == "remove" else 0.0), densities


@lru_cache(maxsize=8)
def _shared(proposal: Drawn) -> Drawn:
    """Return the first equal proposal: its tables are made once in every process."""
    return proposal


def _chunk_moments(
    proposal: Drawn,
    key: Key,
    epsilons: FloatArray,
    event: PldCurve | None,
    samples: int,
    chunk: int,
) -> FloatArray:
    proposal = _shared(proposal)
    direction = proposal.direction
    log_ratio, log_density = proposal.draw(key, chunk)
    if not (np.isfinite(log_ratio).all() and np.isfinite(log_density).all()):
        raise FloatingPointError(f"A log likelihood ratio of chunk {chunk} is not finite: no estimate can be given.")
    wanted = samples - chunk * log_ratio.size
    log_ratio, log_density = log_ratio[:wanted], log_density[:wanted]
    losses, log_weights = (log_ratio, log_ratio - log_density) if direction == "remove" else (-log_ratio, -log_density)
    if event is None:
        return integrand_moments(losses, log_weights, epsilons)
    # With a second event of its own loss, delta is the mean of its delta at what the first loss leaves of epsilon.
    values = np.exp(log_weights)[:, None] * event.delta(epsilons - losses[:, None], direction)
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
