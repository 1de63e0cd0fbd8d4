"""What rounding in runs adds to a curve: the theorem of docs/rounding.md at every epsilon."""

import math
from dataclasses import dataclass

import numpy as np

from minsep.accounting.directions import Direction
from minsep.accounting.exact import DeltaCurve
from minsep.core.arrays import FloatArray
from minsep.noise.rounding_reserve import rounding_cost
from minsep.strategy import Strategy

_SHARE = 1e-5  # of a delta, for the chance that rounding costs more than its epsilon
_LEAST_DELTA = 1e-30


@dataclass(frozen=True)
class RoundedRuns:
    """Runs of mechanisms as a computer executes them.

    Args:
        runs: The strategy of each run, and how many values it may release. Without any, nothing is added.
    """

    runs: tuple[tuple[Strategy, int], ...] = ()

    def __add__(self, others: "RoundedRuns") -> "RoundedRuns":
        """Return these runs and the others."""
        return RoundedRuns(self.runs + others.runs)

    def repeated(self, count: int) -> "RoundedRuns":
        """Return each of these runs as often: together they are one run with as many times the values."""
        return RoundedRuns(tuple((strategy, count * values) for strategy, values in self.runs))

    def delta(self, exact: DeltaCurve, epsilons: FloatArray, direction: Direction) -> FloatArray:
        """Return the delta of the runs at epsilons of at least 0.

        But for probability beta, no probability of a run is changed by more than a factor e^x. So if the mechanisms
        together have the delta d at epsilon - 2x, their runs have at most e^x d + beta (1 + e^epsilon).

        Args:
            exact: The curve of the mechanisms together, in exact numbers.
            epsilons: The epsilons.
            direction: The direction.
        """
        found = exact.delta(epsilons, direction)
        if not self.runs:
            return found
        others = 1 + np.exp(epsilons)
        chance = _SHARE * float((np.maximum(found, _LEAST_DELTA) / others).min()) / len(self.runs)
        costs = [_cost(strategy, values, chance) for strategy, values in self.runs]
        x, beta = (math.fsum(parts) for parts in zip(*costs, strict=True))
        return np.minimum(math.exp(x) * exact.delta(epsilons - 2 * x, direction) + beta * others, 1.0)


def _cost(strategy: Strategy, values: int, chance: float) -> tuple[float, float]:
    """Return what rounding costs one run; nothing is proven where no chance is small enough."""
    try:
        return rounding_cost(strategy, values, chance)
    except ValueError:
        return 0.0, math.inf
