"""What a run tells about one example, at every epsilon at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from minsep.accounting.curves.composed import losses_of
from minsep.accounting.curves.points import PointCurve
from minsep.accounting.curves.rounded import RoundedRuns
from minsep.accounting.curves.trials import Trials, trials_of
from minsep.accounting.curves.tuned import tuned_points
from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.exact import DeltaCurve, GaussianCurve
from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.budget import Budget

_STEPS = 4000  # between the epsilons at which a curve is looked at
_STEPS_OF_A_PAIR = 4  # how many of these epsilons are one of a pair that stands for the curve
_SPLITS = 800  # of an epsilon between two steps
_TAIL = 1e-12
_CLOSE = 1e-6
_USUAL_DELTA = 1e-5
_LARGEST_EPSILON = 512.0


@dataclass(frozen=True)
class Curve:
    """A proven bound on delta at every epsilon, for one run or for several together.

    Every number is an upper bound. It includes the chance that the proofs err, once, and what rounding in the run may
    add. Nothing in it is an estimate.

    Attributes:
        exact: The curve of the mechanisms in exact numbers, without the chance of an error.
        runs: The runs that rounding is accounted for.
        chance: The chance that the proofs behind the curve err. It is part of every delta, once.
        promised: Budgets that are proven beside the curve, the chance of an error included.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
        >>> curve = minsep.certify(mechanism, epsilon=2.0, delta=1e-5).curve
        >>> print(f"{curve.delta(1.0):.1e}, {curve.epsilon(1e-5):.2f}, {curve.true_positives(0.01):.3f}")
        2.6e-03, 1.83, 0.029
    """

    exact: DeltaCurve
    runs: RoundedRuns = field(default_factory=RoundedRuns)
    chance: float = 0.0
    promised: tuple[Budget, ...] = ()

    def delta(self, epsilon: float, direction: Direction | None = None) -> float:
        """Return the least delta that is proven at an epsilon.

        Args:
            epsilon: The epsilon, at least 0.
            direction: "remove" or "add". By default it is the larger of the two directions.
        """
        epsilon = validate.real(epsilon=epsilon, at_least=0)
        directions = DIRECTIONS
        if direction is not None:
            validate.choice(DIRECTIONS, direction=direction)
            directions = (direction, direction)
        return max(float(self._at(np.array([epsilon]), each)[0]) for each in directions)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that is proven at a delta, rounded up.

        Args:
            delta: The delta. One below what the proofs carry is refused.
        """
        delta = validate.real(delta=delta, above=0, at_most=1)
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > _LARGEST_EPSILON:
                raise ValueError(f"delta is {delta:g}, but the proofs carry no delta below {self._least_delta:.2g}.")
        while high - low > _CLOSE * max(high, 1e-3):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def true_positives(self, false_positives: float) -> float:
        """Return the highest rate of true positives that an attacker can have, whichever of the two it looks for.

        Args:
            false_positives: The attacker's rate of false positives.
        """
        rate = validate.real(false_positives=false_positives, at_least=0, at_most=1)
        sizes = np.exp(self._epsilons)
        remove, add = self._deltas["remove"], self._deltas["add"]
        # A test that finds members, and one that finds those who are not: for either, both directions are bounds.
        members = np.minimum(sizes * rate + remove, 1 - (1 - rate - add) / sizes)
        others = np.minimum(sizes * rate + add, 1 - (1 - rate - remove) / sizes)
        return float(min(max(members.min(), others.min()), 1.0))

    @property
    def advantage(self) -> float:
        """The most that an attacker's true positives can exceed its false positives by."""
        return self.delta(0.0)

    @cached_property
    def mu(self) -> float:
        """An upper bound on the Gaussian parameter, as far as it is proven.

        It is the least mu for which the run tells no more than one Gaussian mechanism with sensitivity mu and noise 1,
        at all epsilons up to `mu_reach`. Behind that the curve may lie above the Gaussian one, as every curve from
        samples does far enough out.
        """
        # Between two epsilons the curve is at most what it is at the first, and a Gaussian one at least at the second.
        size = max(int(np.searchsorted(self._epsilons, self.mu_reach)), 1)  # of those below the reach, 0 among them
        bounds = np.maximum(*self._deltas.values())[:size]
        places = np.append(self._epsilons[1:size], self.mu_reach)

        def excess(mu: float) -> float:
            return float((bounds - GaussianCurve(mu).delta(places, "remove")).max())

        low, high = 0.0, 1.0
        while excess(high) > 0:
            low, high = high, 2 * high
        while high - low > _CLOSE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
        return high

    @cached_property
    def mu_reach(self) -> float:
        """The largest epsilon that `mu` is about: that of the promised budgets, or at which delta is 1e-5."""
        if self.promised:
            return min(min(budget.epsilon, self.epsilon(budget.delta)) for budget in self.promised)
        return self.epsilon(max(_USUAL_DELTA, 2 * self._least_delta))

    def replacing(self) -> "Curve":
        """Return the curve for neighbours that differ in one example instead of one that is zeroed out or not.

        Removing one example and adding another is two steps. For every way to share epsilon between them, delta is at
        most that of the first, and e^(its epsilon) times that of the second.
        """
        firsts = np.linspace(0.0, self._epsilons[-1], _SPLITS + 1)
        sizes, remove = np.exp(firsts), self.exact.delta(firsts, "remove")

        def least(epsilon: float) -> float:
            return min(float((remove + sizes * self.exact.delta(epsilon - firsts, "add")).min()), 1.0)

        reach = min(2 * float(firsts[-1]), _LARGEST_EPSILON)
        both = tuple((epsilon, least(epsilon)) for epsilon in np.linspace(0.0, reach, _SPLITS + 1).tolist())
        # Rounding is that of one run; the same proofs serve both steps.
        doubled = ((2 * each.epsilon, (1 + math.exp(each.epsilon)) * each.delta) for each in self.promised)
        return replace(self, exact=PointCurve(both, both), promised=budgets_of(*doubled))

    def tuned(self, trials: float | Trials = 10, law: str = "geometric") -> "Curve":
        """Return the curve of the best of a secret, random number of such runs.

        Each run draws its configuration at random from a public list, and all have this curve. Only the run with the
        best score is released, and the score is a function of what the run released, and of public data.

        Args:
            trials: The expected number of runs, or a distribution such as
                `minsep.accounting.NegativeBinomial(10, eta=0.5)`.
            law: The distribution, by name: "geometric", "logarithmic", "poisson" or "binomial" (at most twice the
                expected number).

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
            >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
            >>> curve = minsep.certify(mechanism, epsilon=2.0, delta=1e-5).curve
            >>> round(curve.epsilon(1e-5), 2), round(curve.tuned(trials=10).epsilon(1e-5), 2)
            (1.83, 2.68)
        """
        points = tuned_points(self.pair, trials_of(trials, law))
        return Curve(points, chance=self.chance)

    def privacy_loss_distribution(self, width: float = 1e-4) -> Any:
        """Return the curve as a `PrivacyLossDistribution` of dp_accounting, which its accountants compose.

        It includes what rounding adds, and not the chance of an error: add `chance` to what comes out, once.

        Args:
            width: The spacing of privacy losses. They are rounded up.
        """
        if not self.runs.runs:
            return losses_of(self.exact, width).losses
        return losses_of(self.pair, width).losses

    @cached_property
    def pair(self) -> PointCurve:
        """What is proven without the chance of an error, rounding in the runs included, as the curve of one pair."""
        if isinstance(self.exact, PointCurve) and not self.runs.runs:
            return self.exact
        vertices = self.exact.epsilons if isinstance(self.exact, PointCurve) else np.zeros(0)
        epsilons = np.union1d(self._epsilons[::_STEPS_OF_A_PAIR], vertices)
        remove, add = (
            tuple(zip(epsilons.tolist(), self.runs.delta(self.exact, epsilons, way).tolist(), strict=True))
            for way in DIRECTIONS
        )
        return PointCurve(remove, add)

    def _at(self, epsilons: FloatArray, direction: Direction) -> FloatArray:
        """Return what is proven of a direction at each epsilon, the chance of an error included."""
        found = self.runs.delta(self.exact, np.minimum(epsilons, _LARGEST_EPSILON), direction) + self.chance
        for budget in self.promised:
            # That of the randomised response that tells as much as anything with this budget.
            size = math.exp(budget.epsilon)
            below = (1 - budget.delta) * np.maximum(size - np.exp(np.minimum(epsilons, _LARGEST_EPSILON)), 0.0)
            found = np.minimum(found, budget.delta + below / (1 + size))
        return np.minimum(found, 1.0)

    @cached_property
    def _epsilons(self) -> FloatArray:
        """Epsilons that show the curve: evenly spaced ones, its vertices, and those of promised budgets."""
        if isinstance(self.exact, PointCurve):
            vertices = self.exact.epsilons
            reach = float(vertices.max(initial=1.0))
        else:
            vertices, reach = np.zeros(0), 1.0
            # What rounding may add is left at every epsilon: more of the curve is not worth a look.
            enough = max(_TAIL, 2 * self._exact_at(_LARGEST_EPSILON))
            while reach < _LARGEST_EPSILON and self._exact_at(reach) > enough:
                reach *= 1.25
        promised = [budget.epsilon for budget in self.promised]
        return np.unique(np.concatenate([np.linspace(0.0, reach, _STEPS + 1), vertices, promised]))

    def _exact_at(self, epsilon: float) -> float:
        return max(float(self.exact.delta(epsilon, way)) for way in DIRECTIONS)

    @cached_property
    def _deltas(self) -> dict[Direction, FloatArray]:
        return {way: self._at(self._epsilons, way) for way in DIRECTIONS}

    @cached_property
    def _least_delta(self) -> float:
        """The least delta that the proofs carry at any epsilon."""
        return min(self.delta(float(epsilon)) for epsilon in self._epsilons)


def budgets_of(*points: tuple[float, float]) -> tuple[Budget, ...]:
    """Return the budgets of pairs of epsilon and delta, without those that promise nothing.

    >>> budgets_of((2.0, 1e-5), (800.0, 1e-5), (2.0, 1.5), (math.inf, 0.1))
    (Budget(epsilon=2.0, delta=1e-05),)
    """
    return tuple(Budget(epsilon, delta) for epsilon, delta in points if epsilon <= _LARGEST_EPSILON and 0 < delta < 1)


def mean_curve(curves: Sequence[tuple[Curve, float]]) -> Curve:
    """Return the curve of a run that is drawn at random from several, and says which it is.

    Args:
        curves: The curves, with their weights.

    >>> quiet, loud = (Curve(GaussianCurve(mu)) for mu in (0.5, 1.0))
    >>> mean = mean_curve([(quiet, 1.0), (loud, 1.0)])
    >>> abs(mean.delta(1.0) - (quiet.delta(1.0) + loud.delta(1.0)) / 2) < 1e-5
    True
    """
    total = math.fsum(weight for _, weight in curves)
    pairs = [(curve.pair, weight / total) for curve, weight in curves]
    epsilons = np.unique(np.concatenate([pair.epsilons for pair, _ in pairs]))
    remove, add = (
        np.sum([share * pair.delta(epsilons, way) for pair, share in pairs], axis=0).tolist() for way in DIRECTIONS
    )
    chances = {id(curve): curve.chance for curve, _ in curves}
    points = (tuple(zip(epsilons.tolist(), deltas, strict=True)) for deltas in (remove, add))
    return Curve(PointCurve(*points), chance=math.fsum(chances.values()))
