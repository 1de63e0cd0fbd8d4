"""Cyclic Poisson and balls-in-bins sampling: a mean over the phases of an example."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minsep.accounting.pairs.base import ParticipationPair
from minsep.accounting.pairs.kernels import cyclic_log_ratios
from minsep.accounting.pairs.places import Places
from minsep.accounting.pairs.tangents import Tangent
from minsep.core.arrays import FloatArray, Rows
from minsep.participation.renewal import RenewalLaw


@dataclass(frozen=True)
class CyclicPair(ParticipationPair):
    """Cyclic Poisson sampling with a uniform phase that the adversary does not know; `bands <= cycle`."""

    prob: float = 1.0
    cycle: int = 1

    @property
    def law(self) -> RenewalLaw:
        """Law of the participation times: a uniform phase, with whole cycles in between."""
        return RenewalLaw.cyclic(self.prob, self.cycle)

    @property
    def no_participation(self) -> float:
        """Probability that the example never takes part."""
        turns, longer = divmod(self.strategy.iterations, self.cycle)
        miss = 1 - self.prob
        return (longer * miss ** (turns + 1) + (self.cycle - longer) * miss**turns) / self.cycle

    def log_ratios_of_scores(self, scores: Rows) -> FloatArray:
        """Return log P/Q of samples by their scores."""
        offsets = math.log(self.prob) - self.half_norms
        ratios: FloatArray = cyclic_log_ratios(scores, offsets, self.law.log_miss, self.cycle, self._overlaps)
        return ratios

    @cached_property
    def _overlaps(self) -> FloatArray:
        """Minus the inner products of the columns of one participation vector over the variance, for each phase."""
        return np.zeros(min(self.cycle, self.strategy.iterations))


@dataclass(frozen=True)
class BallsInBinsPair(CyclicPair):
    """Balls-in-bins sampling, exact with any strategy: there is one participation vector for each phase."""

    @property
    def phases(self) -> "BallsInBinsPair":
        """The pair itself."""
        return self

    @cached_property
    def places(self) -> Places:
        """What a sample is moved by, for each phase."""
        return Places(self.strategy, self.noise_multiplier, self.cycle)

    def tangent(self, distance: float) -> Tangent:
        """Return a plane below log P/Q that touches it near a point so far from 0."""
        return self.places.tangent(distance)

    def log_means(self, scores: Rows, tilt: float) -> FloatArray:
        """Return log E_x exp(tilt (<C x, y>/s2 - |C x|^2/(2 s2))): log P/Q when the tilt is 1."""
        tilted = scores * scores.dtype.type(tilt)
        offsets, constants = -tilt * self.half_norms, tilt * self._overlaps
        means: FloatArray = cyclic_log_ratios(tilted, offsets, self.law.log_miss, self.cycle, constants)
        return means

    @cached_property
    def _overlaps(self) -> FloatArray:
        shared = np.zeros(min(self.cycle, self.strategy.iterations))
        for lag in range(self.cycle, self.strategy.bands, self.cycle):
            products = self.strategy.gram(lag)
            np.add.at(shared, np.arange(products.size) % self.cycle, products)
        return -shared / self.noise_multiplier**2
