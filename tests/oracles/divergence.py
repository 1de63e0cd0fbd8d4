"""Likelihood ratios by summing over all participation vectors, from the definitions."""

import numpy as np
from scipy.special import logsumexp

from tests.oracles.participation import Law


def log_ratio(law: Law, matrix: np.ndarray, noise_multiplier: float, samples: np.ndarray) -> np.ndarray:
    """Return log of the law's mixture of N(C x, sigma^2) over N(0, sigma^2), for one sample in each row."""
    means = np.array(list(law)) @ matrix.T
    log_weights = np.log(list(law.values()))
    exponents = (samples @ means.T - (means**2).sum(axis=1) / 2) / noise_multiplier**2
    return logsumexp(exponents + log_weights, axis=1)


def group_law(prob: float, min_sep: int, group: int, iterations: int) -> Law:
    """Return the law of a user's participation counts: Binomial(group, prob), barred for min_sep - 1 after any."""
    from math import comb

    states: dict[tuple[tuple[int, ...], int], float] = {((), 0): 1.0}
    for _ in range(iterations):
        after: dict[tuple[tuple[int, ...], int], float] = {}
        for (x, barred), weight in states.items():
            if barred:
                moves = [(0, barred - 1, 1.0)]
            else:
                moves = [
                    (j, min_sep - 1 if j else 0, comb(group, j) * prob**j * (1 - prob) ** (group - j))
                    for j in range(group + 1)
                ]
            for j, state, probability in moves:
                if weight * probability > 0:
                    after[(*x, j), state] = after.get(((*x, j), state), 0.0) + weight * probability
        states = after
    law: Law = {}
    for (x, _), weight in states.items():
        law[x] = law.get(x, 0.0) + weight
    return law


def truncated_laws(law: Law, others: np.ndarray, batch_size: int) -> tuple[Law, Law]:
    """Return the laws of the moves of P and of Q given the other examples' batch sizes.

    Sampled in a batch that is not cut: 1 and 0. Sampled in one that is cut: 2 and -1 with the probability
    batch_size / (others + 1) to survive, else 0 and 0.
    """
    result: list[Law] = []
    for whole, cut in ((1, 2), (0, -1)):
        moves: Law = {}
        for x, weight in law.items():
            branches: Law = {(): weight}
            for part, other in zip(x, others, strict=True):
                extended: Law = {}
                for prefix, probability in branches.items():
                    if not part:
                        options = [(0, 1.0)]
                    elif other < batch_size:
                        options = [(whole, 1.0)]
                    else:
                        kept = batch_size / (other + 1)
                        options = [(cut, kept), (0, 1 - kept)]
                    for move, chance in options:
                        key = (*prefix, move)
                        extended[key] = extended.get(key, 0.0) + probability * chance
                branches = extended
            for key, probability in branches.items():
                moves[key] = moves.get(key, 0.0) + probability
        result.append(moves)
    return result[0], result[1]
