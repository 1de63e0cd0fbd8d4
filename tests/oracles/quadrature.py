"""delta by numerical integration, for one or two iterations."""

import numpy as np
from numpy.polynomial.legendre import leggauss

from tests.oracles.divergence import log_ratio
from tests.oracles.participation import Law


def delta(law: Law, matrix: np.ndarray, noise_multiplier: float, epsilon: float, direction: str) -> float:
    """Return H_epsilon(P, Q) for `remove` and H_epsilon(Q, P) for `add`, to about 1e-3 of its value."""
    n = matrix.shape[0]
    reach = 9 * noise_multiplier
    highest = float((np.array(list(law)) @ matrix.T).max())
    nodes, weights = leggauss(8)
    cells = np.linspace(-reach, highest + reach, 401 if n == 1 else 81)
    half = (cells[1] - cells[0]) / 2
    points = (cells[:-1, None] + half + half * nodes).ravel()
    point_weights = np.tile(half * weights, cells.size - 1)
    grid = np.stack(np.meshgrid(*[points] * n, indexing="ij"), axis=-1).reshape(-1, n)
    grid_weights = np.prod(np.stack(np.meshgrid(*[point_weights] * n, indexing="ij"), axis=-1).reshape(-1, n), axis=1)
    log_q = -(grid**2).sum(axis=1) / (2 * noise_multiplier**2) - n * np.log(noise_multiplier * np.sqrt(2 * np.pi))
    ratio = np.exp(log_ratio(law, matrix, noise_multiplier, grid))
    if direction == "remove":
        integrand = np.maximum(ratio - np.exp(epsilon), 0)
    else:
        integrand = np.maximum(1 - np.exp(epsilon) * ratio, 0)
    return float(grid_weights @ (np.exp(log_q) * integrand))
