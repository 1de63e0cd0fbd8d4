"""First and second moments of the integrand of delta, at many epsilons from one set of samples."""

import numba
import numpy as np

from minsep.core.arrays import FloatArray


def integrand_moments(losses: FloatArray, log_weights: FloatArray, epsilons: FloatArray) -> FloatArray:
    """Return the sums over samples of X and of X^2 with X = w (1 - e^(epsilon - loss))+, at each increasing epsilon.

    The loss is log P/Q for `remove` and log Q/P for `add`; the weight w corrects for samples from a law other
    than P or Q.

    >>> integrand_moments(np.array([1.0, 3.0]), np.zeros(2), np.array([0.0, 2.0])).round(4)
    array([[1.5823, 0.6321],
           [1.3025, 0.3996]])
    """
    moments = np.empty((2, epsilons.size))
    _moments(losses, log_weights, epsilons, moments)
    return moments


@numba.njit(nogil=True, cache=True)
def _moments(losses, log_weights, epsilons, moments):  # type: ignore[no-untyped-def]  # pragma: no cover
    count = epsilons.size
    # Sums over the samples between two epsilons: w, w u, w^2, w^2 u, w^2 u^2 with u = e^(epsilon below - loss) <= 1.
    bins = np.zeros((5, count))
    for s in range(losses.size):
        k = np.searchsorted(epsilons, losses[s], side="right") - 1
        if k >= 0:
            w = np.exp(log_weights[s])
            u = np.exp(epsilons[k] - losses[s])
            bins[0, k] += w
            bins[1, k] += w * u
            bins[2, k] += w * w
            bins[3, k] += w * w * u
            bins[4, k] += w * w * u * u
    above = np.zeros(5)
    for k in range(count - 1, -1, -1):
        step = np.exp(epsilons[k] - epsilons[k + 1]) if k + 1 < count else 0.0
        above[0] += bins[0, k]
        above[1] = above[1] * step + bins[1, k]
        above[2] += bins[2, k]
        above[3] = above[3] * step + bins[3, k]
        above[4] = above[4] * step * step + bins[4, k]
        moments[0, k] = above[0] - above[1]
        moments[1, k] = above[2] - 2.0 * above[3] + above[4]
