"""The least noise that an exact curve allows."""

import math
from collections.abc import Callable
from functools import partial

from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.estimation import ESTIMATED_DIGITS, noise_at_target
from minsep.accounting.exact import ExactCurve, spacing_for
from minsep.accounting.reduction import Alongside
from minsep.accounting.schemes import exact_curve, unsupported
from minsep.core.identity import to_digits
from minsep.mechanism import NOISE_DIGITS, Design, Mechanism

_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e6
_LEAST_TOLERANCE = 2e-5  # neighbours of six digits are up to 1e-5 apart
_FINE_SPACING, _COARSE_SPACING = 1e-4, 1e-3  # spacing of privacy losses
_CLEAR_ROUNDINGS = 1e3  # times the rounding of a curve


def exact_mechanism(
    design: Design,
    epsilon: float,
    delta: float,
    tolerance: float = 1e-4,
    finest: float = _FINE_SPACING,
    guess: float = 1.0,
    alongside: Alongside | None = None,
) -> Mechanism:
    """Return the mechanism with the smallest noise multiplier that the exact curve of its design allows.

    The noise multiplier has six significant digits.

    Args:
        tolerance: How far the noise multiplier may be above the smallest one, relative to it. It is at least 2e-5.
        finest: The finest spacing of losses.
        guess: The first noise multiplier to try.
        alongside: What runs beside the mechanism, if anything.

    >>> import minsep
    >>> design = minsep.Design(minsep.BandedToeplitz.identity(iterations=25), minsep.Unamplified(1, 25))
    >>> round(exact_mechanism(design, epsilon=1.0, delta=0.7876).noise_multiplier, 3)
    1.667
    """
    tolerance = max(tolerance, _LEAST_TOLERANCE)
    wider = spacing_for(epsilon) / _FINE_SPACING

    def curve_at(sigma: float, spacing: float = _FINE_SPACING) -> ExactCurve:
        mechanism = design.with_noise(sigma)
        curve = exact_curve(mechanism, wider * max(spacing, finest))
        if alongside is not None:
            curve = alongside.with_curve(curve)
        if curve is None:
            raise unsupported(mechanism, "exact")
        if not curve.carries(delta):
            raise curve.refusal(delta)
        return curve

    def delta_of(curve: ExactCurve) -> float:
        return max(float(curve.delta(epsilon, direction)) for direction in DIRECTIONS)

    def log_excess(sigma: float, spacing: float = _FINE_SPACING) -> float:
        curve = curve_at(sigma, spacing)
        found = delta_of(curve)
        # Far below the target a delta may be mostly rounding, by which a search should not go.
        clear = found >= min(_CLEAR_ROUNDINGS * curve.rounding, 0.1 * delta)
        return math.log(found / delta) if clear and found > 0 else -math.inf

    def enough(sigma: float) -> bool:
        return delta_of(curve_at(sigma)) <= delta

    near = noise_at_target(partial(log_excess, spacing=_COARSE_SPACING), guess, max(tolerance, 0.05))
    guess = near if finest >= _COARSE_SPACING else noise_at_target(log_excess, near, tolerance)
    # From here on only numbers of few digits are compared, so that every processor finds the same one.
    guess = to_digits(guess, ESTIMATED_DIGITS)
    low, high = _bracket(enough, guess, 1 + tolerance / 4)
    if high is None:
        raise ValueError(
            f"epsilon is {epsilon:g} at delta {delta:g}, but no noise multiplier up to {_MOST_NOISE:g} is known to "
            "give it."
        )
    while high > low * (1 + tolerance):
        middle = to_digits(math.sqrt(low * high), NOISE_DIGITS)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return design.with_noise(high)


def _bracket(enough: Callable[[float], bool], guess: float, step: float) -> tuple[float, float | None]:
    """Return a noise multiplier that is not enough and one that is (None: there is none), by growing steps."""
    sigma, following = guess, to_digits(guess / step, NOISE_DIGITS)
    if enough(guess):
        while sigma > _LEAST_NOISE and enough(following):
            step = step**2
            sigma, following = following, to_digits(following / step, NOISE_DIGITS)
        return following, sigma
    following = to_digits(guess * step, NOISE_DIGITS)
    while not enough(following):
        step = step**2
        sigma, following = following, to_digits(following * step, NOISE_DIGITS)
        if sigma > _MOST_NOISE:
            return sigma, None
    return sigma, following
