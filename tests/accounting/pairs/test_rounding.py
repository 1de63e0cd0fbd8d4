import numpy as np

import minsep
from minsep.accounting.pairs import AllocationPair, MinSepPair
from minsep.accounting.pairs.rounding import rounding_of


def test_the_allowance_for_rounding_grows_with_what_it_must_cover():
    """ln R beside 60 digits, at noise so small that double precision loses its digits."""
    import mpmath

    mpmath.mp.dps = 60
    strategy = minsep.BandedToeplitz.optimal(iterations=12, bands=3)
    for sigma in (1e-5, 1e-3, 0.1, 1.0):
        pair = MinSepPair(strategy, sigma, prob=0.1, min_sep=3)
        samples = strategy.dense() @ np.tile([1.0, 0.0, 0.0], 4) + sigma * np.random.default_rng(0).normal(size=(8, 12))
        columns = [[mpmath.mpf(float(value)) for value in column] for column in strategy.dense().T]
        worst = 0.0
        for sample, found in zip(samples, pair.log_ratios(samples), strict=True):
            f = [mpmath.mpf(1)] * 16
            for i in range(11, -1, -1):
                score = sum(c * mpmath.mpf(float(y)) for c, y in zip(columns[i], sample, strict=True))
                norm = sum(c * c for c in columns[i])
                gain = (score - norm / 2) / mpmath.mpf(sigma) ** 2
                f[i] = mpmath.mpf("0.9") * f[i + 1] + mpmath.mpf("0.1") * mpmath.exp(gain) * f[i + 3]
            worst = max(worst, abs(float(mpmath.log(f[0]) - mpmath.mpf(float(found)))))
        assert worst <= rounding_of(pair)
    assert rounding_of(MinSepPair(strategy, 1e-5, prob=0.1, min_sep=3)) > 1e-6


def test_the_allowance_covers_random_allocation():
    import mpmath

    mpmath.mp.dps = 60
    strategy = minsep.BandedToeplitz.identity(iterations=12)
    for sigma in (1e-5, 1e-3, 0.1, 1.0):
        pair = AllocationPair(strategy, sigma, epoch=5)
        samples = np.eye(12)[2] + np.eye(12)[7] + sigma * np.random.default_rng(0).normal(size=(8, 12))
        worst = 0.0
        for sample, found in zip(samples, pair.log_ratios(samples), strict=True):
            gains = [(mpmath.mpf(float(y)) - mpmath.mpf("0.5")) / mpmath.mpf(sigma) ** 2 for y in sample]
            exact = sum(
                mpmath.log((sum(map(mpmath.exp, gains[k : k + 5])) + 5 - len(gains[k : k + 5])) / 5) for k in (0, 5, 10)
            )
            worst = max(worst, abs(float(exact - mpmath.mpf(float(found)))))
        assert worst <= rounding_of(pair, copies=3)
