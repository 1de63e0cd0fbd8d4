"""What the best of a secret number of runs costs, by several bounds and at least: `python -m benchmarks.tuning`.

Some seconds. `python -m benchmarks.bill` prints these tables, too, and the same for a certified curve.
"""

import math

import numpy as np
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from rich.console import Console
from rich.table import Table
from scipy import optimize
from scipy.stats import norm

from minsep.accounting.curves import Curve, NegativeBinomial, PointCurve, Trials, trials_of
from minsep.accounting.exact import GaussianCurve

MU = 0.91  # about that of the default plan
DELTA = 1e-5
MEANS = (2, 5, 10, 30, 100)
SHAPES = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}
ORDERS = np.concatenate([1 + np.geomspace(0.02, 1, 40), np.geomspace(2.05, 500, 260)])
EDGES = np.concatenate([[-np.inf], np.linspace(-9, 10, 8001), [np.inf]])

ONE = Curve(GaussianCurve(MU))


def of_the_theorem(trials: Trials, law: str) -> float:
    return ONE.tuned(trials).epsilon(DELTA)


def of_an_attack(trials: Trials, law: str) -> float:
    """At least: the best scores are those of numbers below a cut, and then the larger ones are better."""
    size = EDGES.size - 1

    def shown(cut: float) -> float:
        place = int(np.searchsorted(EDGES, cut))
        return least_of_an_order(trials, np.concatenate([np.arange(place), np.arange(size - 1, place - 1, -1)]))

    cuts = np.linspace(-4.0, 3.0, 57)
    best = max(cuts.tolist(), key=shown)
    return max(shown(cut) for cut in np.linspace(best - 0.125, best + 0.125, 26).tolist())


def of_a_likely_score(trials: Trials, law: str) -> float:
    """At least: the larger the number, the better, in whichever direction tells more."""
    order = np.arange(EDGES.size - 1)
    return max(least_of_an_order(trials, order), least_of_an_order(trials, order[::-1]))


def least_of_an_order(trials: Trials, order: np.ndarray) -> float:
    """Return an epsilon that nobody can prove less than, if numbers in small intervals have scores in this order.

    An interval is released with at least what its worst rank gives under P, and at most what its best one does under Q.
    """
    p, q = (masses(shift)[order] for shift in (MU, 0.0))
    lowest = p * trials.weight(np.minimum(np.cumsum(p), 1.0))
    highest = q * trials.weight(np.clip(np.cumsum(q) - q, 0.0, 1.0))
    low, high = 0.0, 100.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        more = np.maximum(lowest - math.exp(middle) * highest, 0.0).sum() > DELTA
        low, high = (middle, high) if more else (low, middle)
    return low


def masses(shift: float) -> np.ndarray:
    """Return the probabilities of the intervals, each from the tail on its side."""
    ends = EDGES - shift
    return np.where(ends[:-1] > 0, norm.sf(ends[:-1]) - norm.sf(ends[1:]), norm.cdf(ends[1:]) - norm.cdf(ends[:-1]))


def of_the_largest_ratio(trials: Trials, law: str) -> float:
    """m delta(epsilon - c), where e^c is the largest ratio of weights that a set of outcomes can have."""
    ranks = norm.cdf(np.linspace(-9, 9, 20_001))
    weights, others = trials.weight(ranks), trials.weight(norm.cdf(norm.ppf(ranks) + MU))
    return float(np.log(weights / others).max()) + ONE.epsilon(DELTA / trials.mean)


def of_a_profile(trials: Trials, law: str) -> float:
    """The bound of 2402.06701, as we read it: m delta(epsilon - c) with the best of its free parameters."""
    if not isinstance(trials, NegativeBinomial):
        return math.nan
    rest = (1 - trials.gamma) / trials.gamma

    def ratio(first: float) -> float:
        return (trials.eta + 1) * math.log(math.exp(first) + rest * ONE.delta(first))

    best = optimize.minimize_scalar(ratio, bounds=(0.0, 10.0), method="bounded", options={"xatol": 1e-6})
    return float(best.fun) + ONE.epsilon(DELTA / trials.mean)


def of_renyi(trials: Trials, law: str) -> float:
    """Papernot and Steinke (2022), by dp_accounting with more orders than it has by default."""
    accountant = RdpAccountant(orders=ORDERS.tolist())
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent(1 / MU), trials.mean, SHAPES[law]))
    return float(accountant.get_epsilon(DELTA))


def of_one_point(trials: Trials, law: str) -> float:
    """The theorem, where no more is known of a run than one epsilon and delta."""
    point = ((ONE.epsilon(0.99 * DELTA / trials.mean), 0.99 * DELTA / trials.mean),)
    return Curve(PointCurve(point, point)).tuned(trials).epsilon(DELTA)


def of_all_runs(trials: Trials, law: str) -> float:
    return Curve(GaussianCurve(MU * math.sqrt(trials.mean))).epsilon(DELTA)


ROWS = {
    "the theorem, as minsep computes it": of_the_theorem,
    "at least, for some scores: an attack": of_an_attack,
    "at least, if larger numbers have better scores": of_a_likely_score,
    "m delta(epsilon - c), largest ratio of weights": of_the_largest_ratio,
    "profile bound (2402.06701, as we read it)": of_a_profile,
    "Renyi (2110.03620), dp_accounting": of_renyi,
    "the theorem, from one point of the curve": of_one_point,
    "all runs released, as many as the mean": of_all_runs,
}


def tables() -> list[Table]:
    found = []
    for law in SHAPES:
        table = empty(f"The best of K runs with a Gaussian curve, mu {MU}, K {law}", ONE, DELTA)
        for name, bound in ROWS.items():
            epsilons = [bound(trials_of(mean, law), law) for mean in MEANS]
            table.add_row(name, *("-" if math.isnan(each) else f"{each:.2f}" for each in epsilons))
        found.append(table)
    return found


def of_one_curve(curve: Curve, delta: float) -> Table:
    """The theorem for a certified curve."""
    table = empty("The best of K runs of this plan, by its certified curve", curve, delta)
    for law in SHAPES:
        table.add_row(law, *(f"{curve.tuned(mean, law).epsilon(delta):.2f}" for mean in MEANS))
    return table


def empty(title: str, curve: Curve, delta: float) -> Table:
    whole = f"{title}: epsilon at delta {delta:g}. One run has {curve.epsilon(delta):.2f}"
    table = Table(title=whole, title_justify="left")
    table.add_column("mean of K")
    for mean in MEANS:
        table.add_column(str(mean), justify="right")
    return table


if __name__ == "__main__":
    console = Console(width=150)
    for each in tables():
        console.print(each)
