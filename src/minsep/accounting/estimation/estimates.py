"""Estimates of delta and epsilon, with their standard errors. An estimate is not a guarantee."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.estimation.sampling import Method, Sampling
from minsep.accounting.exact import Event, ExactCurve, PldCurve, composed_curve, event_curve
from minsep.accounting.schemes import exact_curve, has_pair, unsupported
from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism

_METHODS = ("auto", "exact", "plain", "tilted")


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and its origin. It is not a guarantee.

    Attributes:
        remove: The value in the direction `remove`.
        add: The value in the direction `add`.
        remove_stderr: The standard error of `remove`: 0 if it needed no samples, and infinite if it cannot be trusted.
        add_stderr: The standard error of `add`: 0 if it needed no samples, and infinite if it cannot be trusted.
        method: How the value was computed.
        samples: The number of samples in each direction.
        upper_bound: Whether the estimated quantity is itself an upper bound on the requested one.
        remove_bound: An upper bound on `remove` where it is not resolved: proven, or from plain samples with a chance
            of error of 1e-6. Elsewhere it is None, and for an epsilon where no bound is known.
        add_bound: An upper bound on `add`, as `remove_bound` is one on `remove`.
    """

    remove: float
    add: float
    remove_stderr: float
    add_stderr: float
    method: str
    samples: int
    upper_bound: bool = False
    remove_bound: float | None = None
    add_bound: float | None = None

    @property
    def direction(self) -> Direction:
        """The direction with the larger value."""
        return "remove" if self.remove >= self.add else "add"

    @property
    def value(self) -> float:
        """The larger of the two directions."""
        return max(self.remove, self.add)

    @property
    def stderr(self) -> float:
        """Standard error of the larger of the two directions."""
        return self.remove_stderr if self.direction == "remove" else self.add_stderr

    @property
    def resolved(self) -> bool:
        """Whether the value can be trusted: no direction that is not resolved may be larger than it."""
        bounds = [
            math.inf if bound is None else bound
            for stderr, bound in ((self.remove_stderr, self.remove_bound), (self.add_stderr, self.add_bound))
            if math.isinf(stderr)
        ]
        return math.isfinite(self.stderr) and all(bound <= self.value for bound in bounds)

    @property
    def bound(self) -> float | None:
        """Upper bound where the value is not resolved, if one is known; None elsewhere.

        A direction that is resolved counts with six standard errors.
        """
        if self.resolved:
            return None
        directions = (
            (self.remove, self.remove_stderr, self.remove_bound),
            (self.add, self.add_stderr, self.add_bound),
        )
        highest = [bound if math.isinf(stderr) else value + 6 * stderr for value, stderr, bound in directions]
        known = [value for value in highest if value is not None]
        return max(known) if len(known) == len(highest) else None

    def __str__(self) -> str:
        if not self.resolved:
            most = "" if self.bound is None else f": at most {self.bound:.3g}"
            return f"not resolved by {self.samples:,} samples{most}"
        error = "no sampling error" if self.stderr == 0 else f"standard error {self.stderr:.2g}"
        bound = ", upper bound" if self.upper_bound else ""
        return f"{self.value:.4g} (estimate by {self.method}, {error}, {self.direction}{bound})"


@dataclass(frozen=True)
class PrivacyCurve:
    """delta at several epsilons, all from the same samples.

    Attributes:
        epsilons: The epsilons.
        remove: The delta of the direction `remove` at each epsilon.
        add: The delta of the direction `add` at each epsilon.
        remove_stderr: The standard errors of `remove`. One that cannot be trusted is infinite.
        add_stderr: The standard errors of `add`. One that cannot be trusted is infinite.
        method: How the deltas were computed.
        samples: The number of samples in each direction.
        upper_bound: Whether the estimated quantities are themselves upper bounds on the requested ones.
    """

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
    compute: Compute = LOCAL,
) -> PrivacyCurve:
    """Estimate delta at several epsilons from one set of samples.

    Args:
        mechanism: As for `estimate_delta`.
        epsilons: The epsilons, each at least 0.
        samples: As for `estimate_delta`.
        seed: As for `estimate_delta`.
        method: As for `estimate_delta`.
        compose_with: As for `estimate_delta`.
        compute: As for `estimate_delta`.

    Returns:
        The deltas of both directions at each epsilon, with their standard errors.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=0.8)
        >>> curve = privacy_curve(mechanism, [0.5, 1.0, 2.0], samples=20_000)
        >>> bool((np.diff(curve.deltas) < 0).all())
        True
    """
    return _curve(mechanism, epsilons, samples, seed, method, compose_with, compute)[0]


def _curve(
    mechanism: Mechanism,
    epsilons: ArrayLike,
    samples: int,
    seed: int,
    method: Method,
    compose_with: Event | None,
    compute: Compute,
) -> tuple[PrivacyCurve, Sampling | None]:
    """Return a curve, and the sampling that it comes from, if it needed any."""
    requested = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    if requested.ndim != 1 or requested.size == 0 or not (np.isfinite(requested) & (requested >= 0)).all():
        raise ValueError(f"epsilons is {epsilons!r}, but its values must be finite numbers of at least 0.")
    increasing, places = np.unique(requested, return_inverse=True)
    _check_work(samples, seed)
    exact, event = _prepare(mechanism, method, compose_with)
    if exact is not None:
        nothing = np.zeros(requested.size)
        remove, add = (exact.delta(requested, direction) for direction in DIRECTIONS)
        mostly_rounding = not all(map(exact.carries, np.maximum(remove, add)))
        upper_bound = exact.upper_bound or mostly_rounding
        return PrivacyCurve(requested, remove, add, nothing, nothing, exact.method, 0, upper_bound), None
    work = Sampling(mechanism, samples, seed, method, event, compute)
    (remove, remove_stderr), (add, add_stderr) = (work.deltas(increasing, direction) for direction in DIRECTIONS)
    curve = PrivacyCurve(
        requested,
        remove[places],
        add[places],
        remove_stderr[places],
        add_stderr[places],
        work.method,
        work.samples,
        work.upper_bound,
    )
    return curve, work


def estimate_delta(
    mechanism: Mechanism,
    epsilon: float,
    samples: int = 100_000,
    seed: int = 0,
    *,
    method: Method = "auto",
    compose_with: Event | None = None,
    compute: Compute = LOCAL,
) -> Estimate:
    """Estimate the delta of a mechanism at an epsilon.

    Args:
        mechanism: The mechanism.
        epsilon: The epsilon, at least 0.
        samples: The number of samples in each direction.
        seed: The seed of the samples.
        method: "auto" uses an exact value if there is one, and otherwise samples, tilted towards the losses that matter
            where possible. "exact", "tilted" and "plain" require that method.
        compose_with: Another event that is added: an event or a privacy loss distribution of dp_accounting.
        compute: Where samples are drawn. It does not change the result.

    Returns:
        The delta, with its standard error.

    Examples:
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
    curve, work = _curve(mechanism, [epsilon], samples, seed, method, compose_with, compute)
    stderrs = float(curve.remove_stderr[0]), float(curve.add_stderr[0])
    bounds = (
        work.bound(epsilon, direction) if work is not None and math.isinf(stderr) else None
        for direction, stderr in zip(DIRECTIONS, stderrs, strict=True)
    )
    return Estimate(
        float(curve.remove[0]),
        float(curve.add[0]),
        *stderrs,
        curve.method,
        curve.samples,
        curve.upper_bound,
        *bounds,
    )


def estimate_epsilon(
    mechanism: Mechanism,
    delta: float,
    samples: int = 100_000,
    seed: int = 0,
    *,
    method: Method = "auto",
    compose_with: Event | None = None,
    compute: Compute = LOCAL,
) -> Estimate:
    """Estimate the epsilon of a mechanism at a delta.

    Args:
        mechanism: As for `estimate_delta`.
        delta: The delta, above 0 and at most 1.
        samples: As for `estimate_delta`.
        seed: As for `estimate_delta`.
        method: As for `estimate_delta`.
        compose_with: As for `estimate_delta`.
        compute: As for `estimate_delta`.

    Returns:
        The epsilon, with its standard error.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
        >>> estimate = estimate_epsilon(mechanism, delta=1e-5)
        >>> round(estimate.value, 3), estimate.method, estimate.stderr
        (1.828, 'pld', 0.0)
    """
    delta = validate.real(delta=delta, above=0, at_most=1)
    _check_work(samples, seed)
    exact, event = _prepare(mechanism, method, compose_with)
    if exact is not None and not exact.carries(delta):
        if method == "exact" or not has_pair(mechanism.design):
            raise exact.refusal(delta)
        exact = None
    if exact is not None:
        remove, add = (exact.epsilon(delta, direction) for direction in DIRECTIONS)
        return Estimate(remove, add, 0.0, 0.0, exact.method, 0, exact.upper_bound)
    work = Sampling(mechanism, samples, seed, method, event, compute)
    (remove, remove_stderr), (add, add_stderr) = (work.epsilon(delta, direction) for direction in DIRECTIONS)
    bounds = (
        work.epsilon_bound(delta, direction) if math.isinf(stderr) else None
        for direction, stderr in zip(DIRECTIONS, (remove_stderr, add_stderr), strict=True)
    )
    return Estimate(remove, add, remove_stderr, add_stderr, work.method, work.samples, work.upper_bound, *bounds)


def _check_work(samples: int, seed: int) -> None:
    validate.integer(samples=samples, at_least=2)
    validate.integer(seed=seed, at_least=0)


def _prepare(
    mechanism: Mechanism, method: Method, compose_with: Event | None
) -> tuple[ExactCurve | None, PldCurve | None]:
    """Return the exact curve composed with the other event, or None and the curve of the other event."""
    validate.choice(_METHODS, method=method)
    event = None if compose_with is None else event_curve(compose_with)
    exact = None if method in ("plain", "tilted") else exact_curve(mechanism)
    if exact is None and method == "exact":
        raise unsupported(mechanism, "exact")
    if exact is not None and event is not None:
        try:
            return composed_curve(exact, event), event
        except ValueError as error:
            raise ValueError(f"compose_with does not compose with this mechanism: {error}") from None
    return exact, event
