"""How often an example takes part in each iteration, by its renewal law."""

import numpy as np

from minsep.core.arrays import FloatArray
from minsep.participation.renewal import RenewalLaw


def participation_rates(law: RenewalLaw, iterations: int) -> FloatArray:
    """Return the probability that an example takes part in each iteration.

    >>> participation_rates(RenewalLaw.min_sep(0.5, 2, warm=False), 4)
    array([0.5   , 0.25  , 0.375 , 0.3125])
    >>> participation_rates(RenewalLaw.allocation(epoch=4), 3)
    array([0.25, 0.25, 0.25])
    """
    if law.epoch:
        return np.full(iterations, 1 / law.epoch)
    waits = np.zeros(iterations + law.rest + law.stride)  # probability of waiting for so many iterations more
    turns = np.arange(0, iterations, law.stride)
    waits[turns] = law.prob * (1 - law.prob) ** (turns // law.stride)
    rates = np.zeros(iterations)
    for phase in range(min(law.phases, iterations)):
        weight = law.first_phase if phase == 0 else (1 - law.first_phase) / (law.phases - 1)
        rates[phase:] += weight * waits[: iterations - phase]
    for time in range(iterations - law.gap):
        rates[time + law.gap :] += rates[time] * waits[: iterations - time - law.gap]
    return rates
