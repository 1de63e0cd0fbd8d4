"""The best of a random number of trials, by summing over everything that the trials can be."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from minsep.accounting.curves import BinomialTrials, NegativeBinomial, PointCurve, PoissonTrials, Trials


@cache
def chances_of(law: Trials, most: int) -> np.ndarray:
    """Return the probabilities of 0, 1, ... trials, `most` or as many as there can be, from their definitions."""
    match law:
        case PoissonTrials(mean):
            return np.array([math.exp(-mean) * mean**k / math.factorial(k) for k in range(most + 1)])
        case BinomialTrials(mean, size):
            chance, all_of_them = mean / size, range(min(most, size) + 1)
            return np.array([math.comb(size, k) * chance**k * (1 - chance) ** (size - k) for k in all_of_them])
        case NegativeBinomial(mean, eta):
            weights = shape(eta, gamma_of(mean, eta))
            total = math.fsum(itertools.islice(weights(), 5000))
            return np.array([0.0, *(weight / total for weight in itertools.islice(weights(), most))])
    raise NotImplementedError(law)


def shape(eta: float, gamma: float) -> Callable[[], Iterator[float]]:
    """Return a function that yields (1 - gamma)^k (eta + 1) ... (eta + k - 1) / k! for k = 1, 2, ..."""

    def weights() -> Iterator[float]:
        weight = 1 - gamma
        for count in itertools.count(1):
            yield weight
            weight *= (1 - gamma) * (eta + count) / (count + 1)

    return weights


def gamma_of(mean: float, eta: float) -> float:
    """Return the parameter that gives the mean, by bisection of sums of probabilities."""
    low, high = 1e-3, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        weights = list(itertools.islice(shape(eta, middle)(), 5000))
        average = math.fsum(count * weight for count, weight in enumerate(weights, 1)) / max(math.fsum(weights), 1e-300)
        low, high = (middle, high) if average > mean else (low, middle)
    return high


def best_of(masses: np.ndarray, scores: Sequence[Sequence[float]], chances: np.ndarray) -> np.ndarray:
    """Return the probability that each outcome is released, and, in the last place, that there was no trial.

    Args:
        masses: The probability of each outcome of one trial.
        scores: The score of each outcome, in as many rows as there are in the result. Of trials with the same score,
            each is released with the same probability.
        chances: The probabilities of 0, 1, 2, ... trials.
    """
    counts, orders = bags(masses.size, chances.size - 1)
    probabilities = orders * np.prod(masses**counts, axis=1) * chances[counts.sum(axis=1)]
    rows = []
    for ranks in np.array(scores):
        highest = np.where(counts > 0, ranks, -np.inf).max(axis=1)
        winners = counts * (ranks == highest[:, None])
        shares = winners / np.maximum(winners.sum(axis=1), 1)[:, None]
        rows.append(np.append(probabilities @ shares, chances[0]))
    return np.array(rows)


@cache
def bags(size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how often each outcome occurs in every bag of up to `most` trials, and in how many orders."""
    rows, orders = [], []
    for number in range(most + 1):
        for bag in itertools.combinations_with_replacement(range(size), number):
            counts = [bag.count(outcome) for outcome in range(size)]
            rows.append(counts)
            orders.append(math.factorial(number) / math.prod(math.factorial(count) for count in counts))
    return np.array(rows), np.array(orders)


def weak_orders(size: int) -> list[tuple[int, ...]]:
    """Return every way to rank outcomes, ties included: 3, 13 and 75 ways for two, three and four outcomes."""
    return [ranks for ranks in itertools.product(range(size), repeat=size) if set(ranks) == set(range(max(ranks) + 1))]


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """Return the largest excess of a probability over e^epsilon times the other one."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def curve_of(p: np.ndarray, q: np.ndarray) -> PointCurve:
    """Return the curve of a discrete pair, exactly: its corners are the logarithms of the ratios."""
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.abs(np.log(p / q))
    epsilons = sorted({0.0, *losses[np.isfinite(losses)].tolist()})
    remove, add = (
        tuple((epsilon, hockey_stick(first, second, epsilon)) for epsilon in epsilons)
        for first, second in ((p, q), (q, p))
    )
    return PointCurve(remove, add)
