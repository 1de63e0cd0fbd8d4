"""How far a computed log likelihood ratio can be from the true one, and drawn samples from their exact law.

docs/certified-sampling.md, section 5, derives both.
"""

import math

from minsep.accounting.pairs.base import Pair

_UNIT = 2.0**-53
_LEAST_ERROR = 1e-6
_SAFETY_FACTOR = 2.0
_LARGEST_NORMAL = 8.6
_A_STEP, _A_TABLE_STEP = 40.0, 20.0


def rounding_of(pair: Pair, copies: int = 1, scale: float = 1.0) -> float:
    """Return h, a bound on the errors of ln R and ln F at any drawn sample, and of ln M.

    It is 1e-6 in all but extreme settings: tiny noise, long runs.

    Args:
        copies: The number of copies of a tilted distribution.
        scale: The scale of a tilted distribution.

    >>> from minsep import BandedToeplitz
    >>> from minsep.accounting.pairs import MinSepPair
    >>> strategy = BandedToeplitz.optimal(iterations=1000, bands=8)
    >>> rounding_of(MinSepPair(strategy, 0.5, prob=0.01, min_sep=8), copies=2, scale=1.1)
    1e-06
    >>> rounding_of(MinSepPair(strategy, 1e-5, prob=0.01, min_sep=8)) > 1e-3
    True
    """
    strategy, sigma = pair.strategy, pair.noise_multiplier
    n, gap = strategy.iterations, pair.law.gap
    turns = pair.law.most_participations(n)
    moved = max(abs(scale), 1.0) * pair.columns_moved
    moved_by_all = moved * max(copies, 1)
    # A score involves noise and, of each participation vector, two columns, or all if they overlap.
    near = 2 if strategy.bands <= gap else turns
    within_reach = _LARGEST_NORMAL * sigma * math.sqrt(strategy.bands) + moved_by_all * near
    whole = _LARGEST_NORMAL * sigma * math.sqrt(n) + moved_by_all * (
        math.sqrt(turns) if strategy.bands <= gap else turns
    )
    overlap = moved**2 / 4 if pair.vectors > 1 else 0.0  # columns of several vectors meet
    largest_gain = (moved * within_reach + moved**2 / 2 + overlap) / sigma**2
    error_of_score = pair.filter.error_of_score(within_reach, whole)
    a_step = _A_STEP + (turns * largest_gain if pair.takes_logarithms(largest_gain) else 0.0)
    of_ratio = turns * (moved * error_of_score / sigma**2 + 2 * largest_gain) + n * a_step
    # A step of the table rounds its terms, and a logarithm that grows with the participations behind it.
    of_table = n * (_A_TABLE_STEP + (1 + turns) * (moved_by_all / sigma) ** 2) if copies > 1 or scale != 1 else 0.0
    return max(_LEAST_ERROR, _SAFETY_FACTOR * _UNIT * (of_ratio + of_table))


def rounding_of_inner_product(pair: Pair, deviation: float) -> float:
    """Return a bound on the error of an inner product with a sample shifted by that many standard deviations.

    Under the noise alone the inner product has the same standard deviation.
    """
    n = pair.strategy.iterations
    return _SAFETY_FACTOR * _UNIT * n * deviation * (_LARGEST_NORMAL * math.sqrt(n) + deviation)


def distance_of_draws(pair: Pair, grid: float, copies: int = 1, scale: float = 1.0, vectors: int = 1) -> float:
    """Return the probability that a drawn sample is, in a coupling, not close to one of its exact distribution.

    Close means that ln R and ln F are within `grid` of theirs: drawn normals lie on a grid, and exact ones do not.

    Args:
        vectors: The number of vectors of each copy of a tilted distribution.

    >>> from minsep import BandedToeplitz
    >>> from minsep.accounting.pairs import MinSepPair
    >>> strategy = BandedToeplitz.optimal(iterations=7200, bands=256)
    >>> distance_of_draws(MinSepPair(strategy, 0.45, prob=0.0001, min_sep=256, warm=True), 1e-4, 2, 1.1) < 1e-7
    True
    """
    n, gap = pair.strategy.iterations, pair.law.gap
    turns = pair.law.most_participations(n)
    overlapping = 1 if pair.strategy.bands <= gap else turns
    # How far the normals of a sample may be moved in total, in standard deviations.
    moved = max(abs(scale), 1.0) * pair.columns_moved
    room = grid * pair.noise_multiplier / (moved * overlapping)
    of_normals = n * 2.0**-52 / room + (100 * n * 2.0**-53 / room) ** 4
    drawn = max(copies * vectors, pair.vectors)
    starts_of_copy = math.comb(min(gap, n) + vectors - 1, vectors)
    starts = math.comb(starts_of_copy - 1 + drawn // vectors, drawn // vectors)
    # Chances of moves are differences of logarithms, which grow with the participations behind them.
    of_logarithms = n * (1 + turns) * (moved * copies / pair.noise_multiplier) ** 2
    of_participations = (drawn * (turns + 2) * (n + 2) + starts + 64 * n + of_logarithms) * 2.0**-52
    return min(of_normals + of_participations + pair.error_of_other_draws, 1.0)
