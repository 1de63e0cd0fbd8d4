"""Separations longer than the run: no example takes part twice, so a shorter separation is equivalent.

With b > n the recursion of a warm start has f = 1 for all starts beyond the run, so

    R_b = share R_n + 1 - share,      share = (1 + (n - 1) p) / (1 + (b - 1) p),

where R_n is that of separation n: with probability 1 - share the example never takes part. Hence

    remove:  E_Q (R_b - e^eps)+ = share E_Q (R_n - e^eps')+,       e^eps' = 1 + (e^eps - 1)/share
    add:     E_Q (1 - e^eps R_b)+ = c E_Q (1 - e^eps' R_n)+,       c = 1 - e^eps (1 - share),  e^eps' = e^eps share/c,

and `add` is 0 where c is not positive. A cold start is the same as with separation n. `Pair.shortened` gives R_n and
its share.
"""

import math

from minsep.accounting.directions import Direction
from minsep.accounting.reduction.base import Shift


def shift_of(share: float, epsilon: float, direction: Direction) -> Shift:
    """Return the epsilon and the factor at which the shorter pair has the delta of the longer one."""
    if share == 1:
        return Shift(epsilon)
    if direction == "remove":
        return Shift(math.log1p(math.expm1(epsilon) / share), factor=share)
    factor = math.exp(epsilon) * share - math.expm1(epsilon)
    if factor <= 0:
        return Shift(epsilon, vanishes=True)
    return Shift(epsilon + math.log(share / factor), factor=factor)
