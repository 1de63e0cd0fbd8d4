"""What tangents of log P/Q prove about the direction `add`, without samples.

log f = log P/Q lies above each of its tangents: log f(y) >= m + <g, y>. Under Q the right-hand side is normal, with
mean m and deviation s = sigma |g|. Hence, for every tangent,

    H_epsilon(Q, P) = E_Q (1 - e^epsilon f)_+  <=  E (1 - e^(epsilon + m + s Z))_+ ,

which has a closed form. Points are tried at several distances from 0, each against the gradient there, which is where f
is small and Q is not.
"""

from collections.abc import Iterator

from minsep.accounting.exact.normal import normal_excess
from minsep.accounting.pairs import Pair, Tangent

# Far more than the rounding errors of the sums behind a tangent.
_MARGIN = 1e-9
_DISTANCES = tuple(0.5 * step for step in range(13))


def tangents(pair: Pair) -> Iterator[Tangent]:
    """Yield tangents at several distances."""
    return (tangent for distance in _DISTANCES if (tangent := pair.tangent(distance)) is not None)


def add_bound(tangent: Tangent, epsilon: float) -> float:
    """Return the upper bound of H_epsilon(Q, P) that a tangent proves.

    >>> import minsep
    >>> from minsep.accounting.pairs import MinSepPair
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=1000, bands=8)
    >>> pair = MinSepPair(strategy, 1.0, prob=0.0035, min_sep=8, group=2)
    >>> best_tangent(pair, 4.0)[0] < 1e-6 < best_tangent(pair, 3.0)[0]
    True
    """
    return _normal_bound(epsilon + tangent.constant, tangent.deviation)


def best_tangent(pair: Pair, epsilon: float) -> tuple[float, Tangent | None]:
    """Return the least bound of H_epsilon(Q, P) by a tangent, and the tangent; 1 and None where there is none."""
    bounds = ((add_bound(tangent, epsilon), tangent) for tangent in tangents(pair))
    return min(bounds, key=lambda found: found[0], default=(1.0, None))


def _normal_bound(middle: float, deviation: float) -> float:
    """Return E (1 - exp(middle + deviation Z))_+, rounded up."""
    # It may grow or fall with the deviation, so both ends of what that may be are looked at.
    return max(float(normal_excess(middle - _MARGIN, deviation * (1 + side * _MARGIN))) for side in (-1, 1))
