"""Which distribution of the number of trials is cheapest for what is wanted."""

from dataclasses import dataclass

from minsep.accounting.curves.curve import Curve
from minsep.accounting.curves.trials import LAWS, Trials, trials_that_find

USUAL_SHARE = 0.1
"""One of the best tenth of all configurations."""
_FEW = 2


@dataclass(frozen=True)
class PricedTrials:
    """A distribution of the number of trials, what it finds, and what it costs.

    Attributes:
        law: The distribution, by the name that `trials_of` knows.
        trials: The distribution.
        success: The probability that one of the best configurations is tried.
        few: The probability of at most two trials.
        epsilon: The epsilon of the best of these trials.
        delta: The delta of the best of these trials.
    """

    law: str
    trials: Trials
    success: float
    few: float
    epsilon: float
    delta: float


def price_trials(
    curve: Curve, delta: float, *, share: float = USUAL_SHARE, probability: float = 0.5
) -> tuple[PricedTrials, ...]:
    """Return the usual distributions of the number of trials with what each costs, the cheapest first.

    Each has the mean at which one of the best configurations is tried with the probability that is asked for.

    Args:
        curve: The curve of one trial.
        delta: The delta of the whole tuning.
        share: The share of the best configurations, such as 0.1 for one of the best tenth.
        probability: The probability that at least one of them is tried.

    Examples:
        >>> from minsep.accounting.exact import GaussianCurve
        >>> for one in price_trials(Curve(GaussianCurve(0.91)), 1e-5):
        ...     print(f"{one.law}: {one.trials.mean:.1f} trials, epsilon {one.epsilon:.2f}")
        geometric: 9.0 trials, epsilon 5.71
        logarithmic: 18.2 trials, epsilon 5.82
        poisson: 6.9 trials, epsilon 6.40
        binomial: 6.8 trials, epsilon 6.85
    """
    found = []
    for law in LAWS:
        trials = trials_that_find(share, probability, law)
        epsilon = curve.tuned(trials).epsilon(delta)
        found.append(PricedTrials(law, trials, trials.success(share), trials.at_most(_FEW), epsilon, delta))
    return tuple(sorted(found, key=lambda one: one.epsilon))
