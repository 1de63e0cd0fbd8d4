"""The public grid of released noise: which numbers can come out does not depend on the data (docs/rounding.md)."""

import math
from dataclasses import dataclass
from functools import cached_property

from minsep.strategy import Strategy

SMOOTHING = 1.5
"""Standard deviation, in steps of the grid, of the fresh normal variate that each release adds."""
MOST_STEPS = 2.0**50
"""Sums of gradients, in steps of the grid, that can be released."""
LEAST_NOISE, MOST_NOISE = 1e-30, 1e30
# Below the least one, squares underflow in single precision, and so do the norms that clipping needs.
LEAST_CLIP_NORM, MOST_CLIP_NORM = 1e-9, 1e30

FINENESS = 11  # steps of the grid in a standard deviation, as a power of two: at least so many, below twice as many
_EXACT_STEPS = 2.0**24  # integers up to here are exact in four bytes
DEVIATIONS = 12.0  # a normal variate is larger with probability 4e-33
_MOST_NORM = _EXACT_STEPS / DEVIATIONS / 2.0 ** (FINENESS + 1)


@dataclass(frozen=True)
class Grid:
    """The grid of the rows of C^-1 Z: multiples of a power of two, at most a 2048th of their noise.

    Rows that are kept, and whatever is released, are whole numbers of steps: a released sum in steps of
    `clip_norm * step`.

    Args:
        strategy: The strategy of the mechanism.
        noise_multiplier: The noise multiplier of the mechanism. Noise for which there is no grid is refused.

    >>> from minsep import BandedToeplitz
    >>> Grid(BandedToeplitz.identity(iterations=10), noise_multiplier=1.0).step == 2.0**-11
    True
    """

    strategy: Strategy
    noise_multiplier: float

    def __post_init__(self) -> None:
        if not LEAST_NOISE <= self.noise_multiplier <= MOST_NOISE:
            raise ValueError(
                f"noise_multiplier is {self.noise_multiplier:g}, but released noise has a grid only from "
                f"{LEAST_NOISE:g} to {MOST_NOISE:g}."
            )
        norm = self.strategy.largest_inverse_row_norm
        if not self.reach < _EXACT_STEPS:  # also for NaN
            raise ValueError(
                f"strategy is {self.strategy!r}, but C^-1 has rows of norm up to {norm:.2g}: rounding would remove the "
                f"noise, which is kept in four bytes, where norms up to about {_MOST_NORM:.2g} fit. Use coefficients "
                "whose inverse does not grow, such as BandedToeplitz.optimal."
            )

    @cached_property
    def step(self) -> float:
        """The distance of two points of the grid, for clip norm 1."""
        _, exponent = math.frexp(self.noise_multiplier / float(self.strategy.diagonal.max()))
        return math.ldexp(1.0, exponent - 1 - FINENESS)

    @cached_property
    def reach(self) -> float:
        """What no value of a row exceeds, in steps, but for 12 standard deviations of noise."""
        return reach_of(self.strategy, self.noise_multiplier / self.step)

    def unit(self, clip_norm: float) -> float:
        """Return the step of a released sum. A clip norm for which there is none is refused.

        Args:
            clip_norm: Bound on the norm of the gradient of one example.
        """
        if not LEAST_CLIP_NORM < clip_norm <= MOST_CLIP_NORM:
            raise ValueError(
                f"clip_norm is {clip_norm!r}, but it must be above {LEAST_CLIP_NORM:g} and at most {MOST_CLIP_NORM:g}."
            )
        return clip_norm * self.step


def reach_of(strategy: Strategy, steps: float) -> float:
    """Return what no value of a row exceeds, in steps of a grid, but for 12 standard deviations of noise.

    Args:
        strategy: The strategy of the mechanism.
        steps: The noise multiplier in steps of the grid.
    """
    noise = DEVIATIONS * steps * strategy.largest_inverse_row_norm
    return noise + 0.5 * float(strategy.diagonal.max()) * strategy.largest_inverse_row_sum


def refuse_sum(unit: float) -> ValueError:
    """Return the error for a sum of gradients that is not finite, or too large for its grid.

    Args:
        unit: The step of the released sum.
    """
    return ValueError(
        f"A sum of clipped gradients is not finite, or exceeds {MOST_STEPS * unit:.2g} in size, which is the most that "
        "can be released with this noise multiplier and clip norm."
    )
