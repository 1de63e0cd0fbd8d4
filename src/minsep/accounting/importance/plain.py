"""P itself for `remove`, Q itself for `add`."""

from dataclasses import dataclass, field

import numpy as np

from minsep.accounting.directions import Direction
from minsep.accounting.importance.base import BoundedLaw
from minsep.accounting.importance.payoff import ALONE, Payoff
from minsep.accounting.pairs import Pair
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.randomness import Key


@dataclass(frozen=True)
class PlainLaw(BoundedLaw):
    """P itself for `remove`, Q itself for `add`: X lies in [0, 1]."""

    pair: Pair
    direction: Direction
    payoff: Payoff = field(default=ALONE, kw_only=True)
    kind = "plain"
    # With a bound of 1 it matters most that samples are rarely moved further.
    grid = 1e-3

    @property
    def power(self) -> int:
        """The power of R in the density: 1 for P, 0 for Q."""
        return 1 if self.direction == "remove" else 0

    @property
    def scale(self) -> float:
        """1: samples are moved as P moves them."""
        return 1.0

    @property
    def log_constant(self) -> float:
        """0: the density is R or 1."""
        return 0.0

    def draw(self, key: Key, chunk: int) -> tuple[FloatArray, FloatArray]:
        """Return log R and log dP'/dQ of the samples of a chunk."""
        ratios = self.pair.draw_log_ratios(self.direction, key, chunk)
        return ratios, ratios if self.direction == "remove" else np.zeros(ratios.size)

    def log_bound(self, epsilon: float) -> float:
        """Return 0: X is at most 1."""
        return 0.0

    @classmethod
    def read(
        cls, description: Description, pair: Pair, direction: Direction, payoff: Payoff = ALONE
    ) -> "PlainLaw | None":
        """Return the law of a pair and direction that gave a description; None unless there is exactly such a law."""
        return cls(pair, direction, payoff=payoff) if description == {"kind": cls.kind} else None

    def describe(self) -> Description:
        """Return the law as plain data."""
        return {"kind": self.kind}
