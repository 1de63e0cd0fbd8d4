"""What truncating batches adds to delta, in closed form.

The adversary is given the numbers r of other examples. T is the set of iterations with r_i >= B, and the example is
sampled in one of them with probability at most |T| p0 given r. docs/certified-sampling.md proves, for P and Q
without truncation,

    remove:  delta <= H_(eps + ln(1 - t p0))(P, Q) + p0 E|T| (1 + eta^t / (1 - t p0))
    add:     delta <= p0 E|T|                                       if e^-eps <= Pr[x = 0]
             delta <= p0 E|T| + u H_(eps - ln u)(Q, P) + min(1, (e^eps - 1) p0) eta^t E|T|,   u = 1 + t p0 (e^eps - 1)

for every integer t >= 0 with t p0 < 1, where E|T| = n Pr[Binom(m-1, p0) >= B], eta = n Pr[Binom(m-1, p) >= B].
"""

import math

import numpy as np
from scipy import stats

from minsep.accounting.directions import Direction, add_is_zero
from minsep.accounting.reduction.base import Shift
from minsep.core.arrays import FloatArray
from minsep.participation import MinSep, Truncation

_MOST_ROUNDS = 8


def truncation_bounds(
    scheme: MinSep,
    iterations: int,
    truncation: Truncation,
    direction: Direction,
    epsilon: float,
    no_participation: float,
) -> list[Shift]:
    """Return the valid shifts, one for each useful number of iterations t."""
    if truncation.num_examples is None:
        raise ValueError("num_examples is None, but accounting for truncation needs the number of examples.")
    others, size = truncation.num_examples - 1, truncation.batch_size
    if scheme.start == "cold":
        rates = participation_rates(scheme, iterations)
        cut = float(rates @ stats.binom.sf(size - 1, others, rates))
        if direction == "add":
            # Without a bound on the number of iterations, `add` is covered where it is free.
            return [Shift(epsilon, cut, vanishes=True, rounds=0)] if add_is_zero(epsilon, no_participation) else []
        return [Shift(epsilon, 2 * cut, rounds=0)]
    rate = scheme.rate
    rounds = iterations * float(stats.binom.sf(size - 1, others, rate))
    eta = iterations * float(stats.binom.sf(size - 1, others, scheme.sampling_prob))
    cut = rate * rounds
    if direction == "add" and add_is_zero(epsilon, no_participation):
        return [Shift(epsilon, cut, vanishes=True, rounds=0)]
    shifts = []
    for t in range(_MOST_ROUNDS):
        if t * rate >= 1:
            break
        if direction == "remove":
            terms = cut * (1 + eta**t / (1 - t * rate))
            shifts.append(Shift(epsilon + math.log1p(-t * rate), terms, rounds=t))
        else:
            factor = 1 + t * rate * math.expm1(epsilon)
            if math.log(factor) < epsilon:
                tail = min(1.0, math.expm1(epsilon) * rate) * eta**t * rounds
                shifts.append(Shift(epsilon - math.log(factor), cut + tail, factor, rounds=t))
    return [shift for shift in shifts if shift.epsilon > 0]


def participation_rates(scheme: MinSep, iterations: int) -> FloatArray:
    """Return the probability that an example takes part in each iteration of a cold start."""
    p, b = scheme.sampling_prob, scheme.min_sep
    rates = np.zeros(iterations)
    available = 1.0
    for i in range(iterations):
        rates[i] = p * available
        available -= rates[i]
        if i - b + 1 >= 0:
            available += rates[i - b + 1]
    return rates
