"""The statistic of an audit, log P/Q of the certified mechanism, and what to expect of it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from minsep.accounting import DIRECTIONS, Direction, ParticipationPair, pair_of
from minsep.auditing.bound import epsilon_bound
from minsep.core.arrays import FloatArray
from minsep.mechanism import Mechanism
from minsep.participation import IndependentScheme
from minsep.randomness import Key

Side = Literal["present", "absent"]

_LEAST_SAMPLES, _MOST_SAMPLES = 1 << 14, 1 << 17
_CANDIDATE_THRESHOLDS = 256
_RATES_AROUND_BEST = (0.25, 4.0)
_CHANCE_SHARE_OF_BEST = 0.75
_ENOUGH_POSITIVES = 1000


@dataclass(frozen=True)
class Statistic:
    """log P/Q of what is seen of one canary, with samples of it under the certified mechanism.

    Attributes:
        pair: The dominating pair of the mechanism.
        present: Sorted samples of log P/Q with the canary.
        absent: Sorted samples of log P/Q without the canary.
    """

    pair: ParticipationPair
    present: FloatArray
    absent: FloatArray

    @classmethod
    def of(cls, mechanism: Mechanism, trials: int, key: Key) -> "Statistic":
        """Return the statistic for an audit.

        Args:
            mechanism: The certified mechanism.
            trials: Number of trials of the audit.
            key: The key from which the samples are drawn.
        """
        pair = canary_pair(mechanism)
        count = min(max(trials, _LEAST_SAMPLES), _MOST_SAMPLES)
        present, absent = (
            np.sort(_samples(pair, side, count, key.derive(f"samples, {side}"))) for side in ("present", "absent")
        )
        return cls(pair, present, absent)

    def of_outputs(self, outputs: FloatArray) -> FloatArray:
        """Return log P/Q of w = C y, one canary a row."""
        return self.pair.log_ratios(outputs) if len(outputs) else np.zeros(0)

    def false_positives(self, threshold: float) -> float:
        """Return the chance that log P/Q is above a threshold without the canary, also where that is rare."""
        direct = int(np.count_nonzero(self.absent > threshold))
        if direct >= _ENOUGH_POSITIVES or self.pair.upper_bound:
            return direct / self.absent.size
        above = self.present[self.present > threshold]
        return float(np.exp(-above).sum()) / self.present.size


@dataclass(frozen=True)
class Rule:
    """A rule that names trials by their log P/Q.

    Attributes:
        direction: Whether the rule names the trials above the threshold ("remove") or below it ("add").
        threshold: The threshold of log P/Q.
        share: The part of the chance of an error that the bound by this rule may take.
    """

    direction: Direction
    threshold: float
    share: float = 0.0

    def names(self, ratios: FloatArray) -> int:
        """Return how many trials the rule names."""
        above = ratios > self.threshold
        return int(np.count_nonzero(above if self.direction == "remove" else ratios < self.threshold))

    def bound(self, present: FloatArray, absent: FloatArray, delta: float, chance: float) -> float:
        """Return the lower bound on epsilon by this rule.

        Args:
            present: Log ratios of the trials with the canary.
            absent: Log ratios of the trials without it.
            delta: The delta at which epsilon is bounded.
            chance: The chance of an error of the whole audit's bound, of which this rule takes its share.
        """
        right, wrong = (present, absent) if self.direction == "remove" else (absent, present)
        return float(epsilon_bound(self.names(right), self.names(wrong), right.size, delta, chance * self.share))


def canary_pair(mechanism: Mechanism) -> ParticipationPair:
    """Return the pair whose log P/Q is the statistic: that of the mechanism before its batches are truncated."""
    scheme = mechanism.scheme
    if not isinstance(scheme, IndependentScheme) or scheme.law.ordered:
        raise ValueError(
            f"certificate is for {scheme.name}, but an audit needs examples that take part at random and independently "
            "of each other, as in b-min-sep, Poisson, random allocation, cyclic Poisson and balls-in-bins sampling."
        )
    pair = pair_of(Mechanism(mechanism.strategy, scheme, mechanism.noise_multiplier), np.float64).scored
    if pair is None:
        raise ValueError(f"certificate is for {mechanism.name}, but its likelihood ratio has no form for an audit.")
    return pair


def rules_for(statistic: Statistic, trials: int, delta: float, chance: float) -> tuple[Rule, ...]:
    """Return the rules of an audit, from the certified mechanism alone: nothing of the loop has been seen.

    For each direction they are the threshold with the largest bound that is to be expected, and two around it, for
    loops that differ. The best of all has most of the chance of an error.

    Args:
        statistic: The statistic of the audit.
        trials: Number of trials of the audit.
        delta: The delta at which epsilon is bounded.
        chance: The chance of an error, which the rules share.
    """
    found = [rule for direction in DIRECTIONS for rule in _candidates(statistic, direction, trials, delta, chance)]
    expected = [value for value, _ in found]
    best = int(np.argmax(expected))
    rest = (1 - _CHANCE_SHARE_OF_BEST) / (len(found) - 1)
    return tuple(
        Rule(rule.direction, rule.threshold, _CHANCE_SHARE_OF_BEST if place == best else rest)
        for place, (_, rule) in enumerate(found)
    )


def _candidates(
    statistic: Statistic, direction: Direction, trials: int, delta: float, chance: float
) -> list[tuple[float, Rule]]:
    """Return three rules of a direction with the bounds that are to be expected of them."""
    ratios = statistic.present if direction == "remove" else -statistic.absent[::-1]
    # Rules by how many samples of the side they bet on lie beyond; the chance of the other side follows from log P/Q.
    beyond = np.unique(np.geomspace(16, ratios.size - 1, _CANDIDATE_THRESHOLDS).astype(int))
    thresholds = ratios[ratios.size - 1 - beyond]
    right = beyond / ratios.size
    wrong = np.cumsum(np.exp(-ratios[::-1]))[beyond - 1] / ratios.size
    half = trials / 2
    bounds = epsilon_bound(right * half, np.minimum(wrong, 1.0) * half, half, delta, chance * _CHANCE_SHARE_OF_BEST)
    best = int(np.argmax(bounds))
    places = [best, *(int(np.abs(np.log(right / right[best] / factor)).argmin()) for factor in _RATES_AROUND_BEST)]
    sign = 1.0 if direction == "remove" else -1.0
    return [(float(bounds[place]), Rule(direction, float(sign * thresholds[place]))) for place in places]


def _samples(pair: ParticipationPair, side: str, count: int, key: Key) -> FloatArray:
    chunks = []
    for chunk in range(-(-count // pair.samples_in_chunk)):
        rows = pair.noise(key, chunk)
        if side == "present":
            pair.filter.add_columns(rows, *pair.participations(key, chunk))
        chunks.append(pair.log_ratios_of_scores(pair.filter.scores(rows)).copy())
    return np.concatenate(chunks)[:count]
