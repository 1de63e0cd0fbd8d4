"""Algorithms 3 and 4 of the paper on small graphs, by enumeration of every coin."""

from itertools import combinations_with_replacement, permutations, product

import numpy as np

from tests.oracles.participation import Law


def all_coins(num_examples: int, iterations: int) -> np.ndarray:
    """Return every outcome of the coins: outcomes x iterations x examples."""
    coins = np.array(list(product((False, True), repeat=num_examples * iterations)))
    return coins.reshape(-1, iterations, num_examples)


def neighbours(lists: list[set[int]]) -> np.ndarray:
    """Return whether two examples share a user."""
    return np.array([[bool(one & two) for two in lists] for one in lists])


def batches(coins: np.ndarray, adjacent: np.ndarray, min_sep: int, block: str) -> np.ndarray:
    """Return who takes part, for every outcome of the coins: straight from the definition."""
    taking_part = np.zeros_like(coins)
    blocking = coins if block == "sampled" else taking_part
    for i in range(coins.shape[1]):
        excluded = np.zeros_like(coins[:, 0])
        for j in range(max(0, i - min_sep + 1), i):
            excluded |= (blocking[:, j, :, None] & adjacent[None]).any(axis=1)
        taking_part[:, i] = coins[:, i] & ~excluded
    return taking_part


def probabilities(coins: np.ndarray, prob: float) -> np.ndarray:
    heads = coins.sum(axis=(1, 2))
    return prob**heads * (1 - prob) ** (coins.shape[1] * coins.shape[2] - heads)


def user_law(adjacent: np.ndarray, mine: list[int], prob: float, min_sep: int, block: str, iterations: int) -> Law:
    """Return the law of the numbers of a user's examples in the batches."""
    coins = all_coins(adjacent.shape[0], iterations)
    counts = batches(coins, adjacent, min_sep, block)[:, :, mine].sum(axis=2)
    vectors, inverse = np.unique(counts, axis=0, return_inverse=True)
    weights = np.bincount(inverse.ravel(), weights=probabilities(coins, prob))
    return {tuple(map(int, x)): float(weight) for x, weight in zip(vectors, weights, strict=True) if weight > 0}


def small_graphs(most_examples: int, most_users: int) -> list[tuple[np.ndarray, list[int]]]:
    """Return (neighbours, examples of a user) of every user of every graph of at most that size, each up to order."""
    subsets = [{u for u in range(most_users) if mask >> u & 1} for mask in range(1, 2**most_users)]
    seen: dict[tuple, tuple[np.ndarray, list[int]]] = {}
    for size in range(1, most_examples + 1):
        for lists in combinations_with_replacement(subsets, size):
            adjacent = neighbours(list(lists))
            for user in range(most_users):
                mine = [user in users for users in lists]
                if any(mine):
                    form = min(
                        (tuple(np.array(mine)[list(p)]), tuple(adjacent[np.ix_(p, p)].ravel()))
                        for p in map(list, permutations(range(size)))
                    )
                    if (size, form) not in seen:
                        seen[size, form] = adjacent, list(np.flatnonzero(mine))
    return list(seen.values())


def deltas(
    law: Law, matrix: np.ndarray, sigma: float, epsilons: np.ndarray, grid: np.ndarray, cell: float
) -> np.ndarray:
    """Return H_epsilon(P, Q) and H_epsilon(Q, P) for all epsilons, by a sum over a grid of points."""
    from tests.oracles.divergence import log_ratio

    n = matrix.shape[0]
    density = np.exp(-(grid**2).sum(axis=1) / (2 * sigma**2)) * cell**n / (sigma * np.sqrt(2 * np.pi)) ** n
    ratio = np.exp(log_ratio(law, matrix, sigma, grid))
    scale = np.exp(epsilons)[:, None]
    remove = np.maximum(ratio - scale, 0) @ density
    add = np.maximum(1 - scale * ratio, 0) @ density
    return np.stack([remove, add])


def grid_of(iterations: int, low: float, high: float, points: int) -> tuple[np.ndarray, float]:
    """Return the midpoints of equal cells of a cube, one in each row, and the side of a cell."""
    side = (high - low) / points
    line = low + side * (np.arange(points) + 0.5)
    return np.stack(np.meshgrid(*[line] * iterations, indexing="ij"), axis=-1).reshape(-1, iterations), side
