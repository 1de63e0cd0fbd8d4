"""A study of thousands of tunings: what the released runs show of the data stays below the certified curve.

Each run releases one number, and its score is chosen to tell as much as possible of the data. The events and their
number are fixed before anything is drawn, so limits of Clopper and Pearson hold for all of them together.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from scipy.stats import beta, norm

import minsep
from minsep.accounting import BinomialTrials, NegativeBinomial, PoissonTrials
from minsep.tuning import Configuration, tune
from minsep.tuning.procedure import _best_of
from tests.oracles.tuning import best_of, chances_of

LAWS = [NegativeBinomial(10.0, 1.0), NegativeBinomial(10.0, 0.0), PoissonTrials(10.0), BinomialTrials(10.0, 20)]
each_law = pytest.mark.parametrize("law", LAWS, ids=["geometric", "logarithmic", "poisson", "binomial"])
MOST = 170  # trials that the exact probabilities sum over
EPSILONS = np.linspace(0.0, 10.0, 101)
ONE_STEP = minsep.BandedToeplitz.identity(iterations=1)


@dataclass(frozen=True)
class OneNumber:
    """A run that releases noise of standard deviation 1, plus a shift, with a probability, if the example is there.

    Attributes:
        shift: The shift.
        rate: The probability that the example takes part.
    """

    shift: float
    rate: float

    @cached_property
    def certificate(self):
        scheme = minsep.Poisson(rate=self.rate) if self.rate < 1 else minsep.Unamplified(min_sep=1, participations=1)
        return minsep.certify(minsep.Mechanism(ONE_STEP, scheme, 1 / self.shift), epsilon=12.0, delta=1e-5)

    def runs(self, there, generator):
        """Yield what one run after another releases."""
        while True:
            taken = there * (generator.random(100_000) < self.rate)
            yield from (self.shift * taken + generator.standard_normal(100_000)).tolist()

    def below(self, place, there):
        """Return the probability that a run releases less."""
        rate = self.rate if there else 0.0
        return float((1 - rate) * norm.cdf(place) + rate * norm.cdf(place - self.shift))


GAUSSIAN, SAMPLED = OneNumber(0.91, 1.0), OneNumber(2.0, 0.5)


def released(law, configurations, runs, score, tunings):
    """Return the numbers that so many tunings release. NaN is none."""
    best = (_best_of(lambda configuration: next(runs), configurations, score, law) for _ in range(tunings))
    return np.array([math.nan if found is None else found[1] for found in best])


@dataclass(frozen=True)
class Attack:
    """The best scores are those of numbers below a cut, and then the larger ones are better. Mirrored for `add`.

    Attributes:
        cut: The cut.
        events: Thresholds. An attacker bets on the example if the released number is above one of them.
        sign: 1, or -1 to mirror all numbers.
    """

    cut: float
    events: tuple[float, ...]
    sign: int = 1

    def score(self, number):
        place = self.sign * number
        return 100.0 - place if place < self.cut else place

    def counts(self, numbers):
        return [int((self.sign * numbers > event).sum()) for event in self.events]

    def probabilities(self, mechanism, law, there):
        """Return the exact probability of each event: no number below the cut, and one above the threshold."""
        chances = chances_of(law, MOST)

        def no_trial(share):
            return float(chances @ (1 - share) ** np.arange(chances.size))

        def below(place):
            return mechanism.below(place, there) if self.sign > 0 else 1 - mechanism.below(-place, there)

        return [no_trial(below(self.cut)) - no_trial(below(self.cut) + 1 - below(event)) for event in self.events]


def limits(count, tunings, chance):
    """Return limits of Clopper and Pearson for a probability, each of which is wrong with at most the chance."""
    low = beta.ppf(chance, count, tunings - count + 1) if count else 0.0
    high = beta.isf(chance, count + 1, tunings - count) if count < tunings else 1.0
    return float(low), float(high)


def excess(curve, with_one, without):
    """Return by how much an event's probabilities exceed what a curve allows, at the worst epsilon and direction.

    Args:
        curve: The curve.
        with_one: Limits of the probability with the example.
        without: The same without it.
    """

    def over(direction, first, second):
        deltas = np.array([curve.delta(epsilon, direction) for epsilon in EPSILONS.tolist()])
        sizes = np.exp(EPSILONS)
        event = first[0] - (sizes * second[1] + deltas).min()
        complement = (1 - first[1]) - (sizes * (1 - second[0]) + deltas).min()
        return max(event, complement)

    return max(over("remove", with_one, without), over("add", without, with_one))


def study(mechanism, law, attack, tunings, chance):
    """Return the limits of the probability of each event, with the example and without it."""
    configurations = [Configuration("the only one", mechanism.certificate)]
    found = []
    for there in (True, False):
        runs = mechanism.runs(there, np.random.default_rng())
        counts = attack.counts(released(law, configurations, runs, attack.score, tunings))
        found.append([limits(count, tunings, chance) for count in counts])
    return list(zip(*found, strict=True))


def agrees(mechanism, law, attack, events):
    """Whether the exact probabilities of all events are within their limits."""
    known = zip(*(attack.probabilities(mechanism, law, there) for there in (True, False)), strict=True)
    pairs = zip(known, events, strict=True)
    return all(low <= exact <= high for both in pairs for exact, (low, high) in zip(*both, strict=True))


def tuned_curve(mechanism, law):
    """Return what `tune` proves of a tuning."""
    return tune(lambda one: 0.0, [Configuration(1, mechanism.certificate)], score=float, trials=law).curve


ATTACK = Attack(cut=-1.0, events=(1.8, 2.2))
MIRRORED = Attack(cut=-2.0, events=(0.1, 0.7), sign=-1)
CASES = [*((GAUSSIAN, ATTACK, law) for law in LAWS), (SAMPLED, MIRRORED, LAWS[0])]
NAMES = ["geometric", "logarithmic", "poisson", "binomial", "sampled, geometric"]


@pytest.mark.parametrize(("mechanism", "attack", "law"), CASES, ids=NAMES)
def test_ten_thousand_tunings_tell_less_than_the_certified_curve(mechanism, attack, law):
    """40 limits that are wrong with a chance of 2.5e-8 each: a false alarm of at most 1e-6 in all cases together.

    The last two lines need limits that are narrow enough, and fail with a probability of at most 1e-6 as well: a curve
    of one run and the law of a quarter as many trials do not pass.
    """
    events = study(mechanism, law, attack, 10_000, 2.5e-8)
    assert agrees(mechanism, law, attack, events)
    assert max(excess(tuned_curve(mechanism, law), *event) for event in events) <= 0
    assert max(excess(mechanism.certificate.curve, *event) for event in events) > 0.01
    assert not agrees(mechanism, replace(law, mean=law.mean / 4), attack, events)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "attack"), [(GAUSSIAN, ATTACK), (SAMPLED, MIRRORED)], ids=["gaussian", "sampled"]
)
@each_law
def test_many_tunings_tell_less_than_the_certified_curve(mechanism, attack, law):
    """64 limits that are wrong with a chance of 1.5e-8 each. Curves of too few trials do not pass."""
    events = study(mechanism, law, attack, 200_000, 1.5e-8)
    assert agrees(mechanism, law, attack, events)
    assert max(excess(tuned_curve(mechanism, law), *event) for event in events) <= 0
    fewer = replace(law, mean=1.5 if law is LAWS[1] else 2.0)
    assert max(excess(tuned_curve(mechanism, fewer), *event) for event in events) > 0.01
    assert not agrees(mechanism, replace(law, mean=law.mean / 2), attack, events)


@each_law
def test_the_first_of_equally_good_trials_is_as_good_as_a_random_one(law):
    """With one score for all, what is released is one run, and with two, one among the better ones.

    16 limits that are wrong with a chance of 6e-8 each: a false alarm of at most 1e-6.
    """
    configurations, tunings = [Configuration(1, GAUSSIAN.certificate)], 5000
    chances = chances_of(law, MOST)
    lowest, low = GAUSSIAN.below(-0.5, True), GAUSSIAN.below(0.5, True)
    some_low = 1 - float(chances @ (1 - low) ** np.arange(chances.size))
    for score, probability in (
        (lambda number: 0.0, (1 - chances[0]) * lowest),
        (lambda number: float(number < 0.5), some_low * lowest / low),
    ):
        runs = GAUSSIAN.runs(True, np.random.default_rng())
        numbers = released(law, configurations, runs, score, tunings)
        below, above = limits(int((numbers < -0.5).sum()), tunings, 6e-8)
        assert below <= probability <= above


@each_law
def test_configurations_ties_and_failures_have_the_law_of_the_enumeration(law):
    """40 limits that are wrong with a chance of 2.5e-8 each: a false alarm of at most 1e-6."""
    law, tunings, generator = replace(law, mean=2.0), 5000, np.random.default_rng()
    quiet, loud = (
        Configuration(name, GAUSSIAN.certificate, weight) for name, weight in (("quiet", 1.0), ("loud", 2.5))
    )
    chances = {"quiet": (0.5, 0.2, 0.3), "loud": (0.1, 0.6, 0.3)}  # of a good score, a better one, and a failure
    scores = {("quiet", 0): 1.0, ("quiet", 1): 2.0, ("loud", 0): 2.0, ("loud", 1): 3.0}

    def train(configuration):
        good, better, _ = chances[configuration.settings]
        number = generator.random()
        if number > 0.9:
            raise RuntimeError("diverged")
        return configuration.settings, int(number > good) + int(number > good + better)

    def score(result):
        return scores.get(result, math.nan)

    trials = (_best_of(train, [quiet, loud], score, law) for _ in range(tunings))
    found = Counter(None if best is None else best[1] for best in trials)
    masses = np.array([chances[name][place] * (1.0 if name == "quiet" else 2.5) / 3.5 for name, place in scores])
    number_of_trials = chances_of(law, 15)
    *known, none = best_of(np.append(masses, 0.3), [[*scores.values(), -1.0]], number_of_trials)[0]
    failed = known.pop() + none
    for outcome, probability in zip((*scores, None), (*known, failed), strict=True):
        low, high = limits(found[outcome], tunings, 2.5e-8)
        assert low - (1 - number_of_trials.sum()) <= probability <= high
