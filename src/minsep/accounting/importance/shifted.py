"""Q shifted along a tangent of log P/Q, for the direction `add`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from scipy import optimize

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import BoundedLaw
from minsep.accounting.importance.interleaved import add_to_samples, inner_products
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.importance.tangents import tangents
from minsep.accounting.pairs import Pair, Tangent, TiltablePair
from minsep.accounting.pairs.rounding import distance_of_draws, rounding_of, rounding_of_inner_product
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.randomness import Key

_MOST_STRENGTH = 100.0


@dataclass(frozen=True)
class ShiftedLaw(BoundedLaw):
    """Q shifted to where P/Q is small, along a tangent of log P/Q: only for `add`.

    The density is exp(-a <g, y> - (a s)^2/2), and P/Q is at least e^m e^<g, y>, so X is bounded: see `tangents`.
    """

    pair: TiltablePair
    tangent_distance: float
    """Where the tangent touches, in standard deviations of the noise from 0."""
    strength: float
    """a: how far Q is moved against the gradient, in units of the variance."""
    direction: Direction = "add"
    payoff: Payoff = field(default=ALONE, kw_only=True)
    kind = "shifted"

    @property
    def power(self) -> int:
        """0: the density contains no mean over participations."""
        return 0

    @property
    def scale(self) -> float:
        """How far Q is shifted, in units of the variance times the gradient."""
        return -self.strength

    @property
    def log_constant(self) -> float:
        """Logarithm of the normalising constant of the density."""
        return (self.strength * self.tangent.deviation) ** 2 / 2

    @property
    def rounding(self) -> float:
        """h: the error of log R plus that of one inner product."""
        along = self.strength * self.tangent.deviation
        return self.grid + rounding_of(self.pair) + rounding_of_inner_product(self.pair, along)

    @property
    def distance(self) -> float:
        """Probability that a drawn sample is not close; the grid also affects the law's own density."""
        return distance_of_draws(self.pair, self.grid, 0, self.strength)

    @cached_property
    def tangent(self) -> Tangent:
        """The tangent that bounds P/Q from below."""
        tangent = self.pair.tangent(self.tangent_distance)
        if tangent is None:
            raise ValueError(
                f"tangent_distance is {self.tangent_distance!r}, but there is no tangent at that distance."
            )
        return tangent

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        gradient = self.tangent.gradient
        rows = self.pair.noise(key.derive(self.direction), chunk)
        moved = (self.strength * self.pair.noise_multiplier**2 * gradient).astype(rows.dtype)
        add_to_samples(rows, -moved)
        along = inner_products(rows, gradient)
        log_ratio = self.pair.log_ratios_of_scores(self.pair.filter.scores(rows))
        return log_ratio, -self.strength * along - self.log_constant

    def log_bound(self, epsilon: float) -> float:
        """Return the logarithm of W, the largest possible X."""
        return _log_bound(self.tangent, self.strength, epsilon, self.payoff)

    @classmethod
    def read(
        cls, description: Description, pair: Pair, direction: Direction, payoff: Payoff = ALONE
    ) -> "ShiftedLaw | None":
        """Return the law of a pair and direction that gave a description; None unless there is exactly such a law."""
        match description:
            case {
                "kind": cls.kind,
                "tangent_distance": float() as distance,
                "strength": float() as strength,
                **rest,
            } if not rest and (tiltable := pair.tiltable) is not None:
                if direction == "add" and strength > 0:
                    return cls(tiltable, distance, strength, payoff=payoff)
        return None

    @classmethod
    def in_words(cls, description: Description) -> str:
        """Return what is drawn, in words."""
        match description:
            case {"strength": strength}:
                return f"noise moved along a tangent of log P/Q (strength {strength:.3g})"
        return super().in_words(description)

    def describe(self) -> Description:
        """Return the law as plain data."""
        return {"kind": self.kind, "tangent_distance": self.tangent_distance, "strength": self.strength}


def shifted_laws(pair: TiltablePair, epsilon: float, payoff: Payoff = ALONE) -> Iterator[ShiftedLaw]:
    """Yield a shifted law for every tangent, with the strength of least bound."""
    for tangent in tangents(pair):

        def log_bound(strength: float, tangent: Tangent = tangent) -> float:
            return _log_bound(tangent, strength, epsilon, payoff)

        found = optimize.minimize_scalar(log_bound, bounds=(0.01, _MOST_STRENGTH), method="bounded")
        yield ShiftedLaw(pair, tangent.distance, round(float(found.x), 4), payoff=payoff)


def _log_bound(tangent: Tangent, strength: float, epsilon: float, payoff: Payoff) -> float:
    grown = (strength * tangent.deviation) ** 2 / 2
    return grown - strength * (tangent.constant + epsilon) + payoff.log_peak(strength)
