"""What an attacker can do who wants to know whether somebody took part.

An attacker's test has a rate of false positives, when the person did not take part, and one of true positives, when
they did. Differential privacy in both directions bounds the second by the first.
"""

import math

import numpy as np

from minsep.accounting import privacy_curve
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism

_GRID, _WIDEST, _LEAST_TOP = 33, 1.5, 1.0  # points, up to some times epsilon, and at least up to here


def estimated_true_positives(
    mechanism: Mechanism, false_positives: list[float], epsilon: float, *, compute: Compute = LOCAL
) -> list[float | None]:
    """Estimate the largest rate of true positives of any test on the output of a mechanism. It is not a guarantee.

    A rate is None where too few points of the privacy curve are resolved.

    Args:
        mechanism: What was run.
        false_positives: The rates of false positives of the tests.
        epsilon: A typical privacy loss, such as the certified one: the curve is estimated around it.
        compute: Where samples are drawn, which does not change the result.

    >>> import minsep
    >>> identity = minsep.BandedToeplitz.identity(iterations=100)
    >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=1.0)
    >>> [round(rate, 3) for rate in estimated_true_positives(mechanism, [0.01, 0.1], epsilon=2.0)]
    [0.022, 0.157]
    """
    epsilons = np.linspace(0.0, max(_WIDEST * epsilon, _LEAST_TOP), _GRID)
    curve = privacy_curve(mechanism, epsilons, samples=20_000, compute=compute)
    points = epsilons.tolist()
    accused, spared = (
        [(at, delta) for at, delta, error in zip(points, deltas.tolist(), errors, strict=True) if error < math.inf]
        for deltas, errors in ((curve.remove, curve.remove_stderr), (curve.add, curve.add_stderr))
    )
    if not accused or not spared:
        return [None] * len(false_positives)
    return [
        min(
            1.0,
            min(math.exp(at) * rate + delta for at, delta in accused),
            min(1.0 - math.exp(-at) * max(1.0 - delta - rate, 0.0) for at, delta in spared),
        )
        for rate in false_positives
    ]
