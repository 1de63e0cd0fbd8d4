import numpy as np
import pytest

import minsep
from minsep.accounting.importance import best_tangent
from minsep.accounting.pairs import MinSepPair
from minsep.accounting.pairs.tangents import _log_ratio_and_means
from tests.oracles.divergence import group_law
from tests.oracles.participation import participation_law
from tests.oracles.quadrature import delta


@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.parametrize("prob", [0.1, 0.5])
@pytest.mark.parametrize("group", [1, 2])
def test_the_bound_is_above_the_integral_and_not_far(sigma, prob, group):
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.7], iterations=2)
    pair = MinSepPair(strategy, sigma, prob=prob, min_sep=2, group=group)
    law = group_law(prob, 2, group, 2)
    for epsilon in (0.0, 0.3, 1.0):
        true = delta(law, strategy.dense(), sigma, epsilon, "add")
        assert true - 1e-9 <= best_tangent(pair, epsilon)[0] <= 1.5 * true + 0.1


@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_bound_is_above_the_integral_of_a_warm_start(sigma, rate):
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.7], iterations=2)
    scheme = minsep.MinSep(rate=rate, min_sep=2)
    pair = MinSepPair(strategy, sigma, prob=scheme.sampling_prob, min_sep=2, warm=True)
    law = participation_law(scheme, 2)
    for epsilon in (0.0, 0.3, 1.0):
        true = delta(law, strategy.dense(), sigma, epsilon, "add")
        assert true - 1e-9 <= best_tangent(pair, epsilon)[0] <= 1.5 * true + 0.1


@pytest.mark.parametrize(("group", "warm", "min_sep"), [(3, False, 4), (1, True, 4), (1, True, 12)])
def test_means_are_the_gradient_of_the_log_ratio(group, warm, min_sep):
    n, sigma = 9, 0.8
    strategy = minsep.BandedToeplitz.from_coefficients([1.0, 0.7, 0.9], iterations=n)
    pair = MinSepPair(strategy, sigma, prob=0.2, min_sep=min_sep, warm=warm, group=group)
    point = np.random.default_rng(0).standard_normal(n)
    scores = strategy.dense().T @ point / sigma**2
    log_ratio, means = _log_ratio_and_means(pair, scores)
    assert log_ratio == pytest.approx(pair.log_ratios(point[None])[0], rel=1e-12)
    gradient = strategy.dense() @ means / sigma**2
    for i in range(n):
        step = np.zeros(n)
        step[i] = 1e-5
        ahead, behind = pair.log_ratios(np.stack([point + step, point - step]))
        assert gradient[i] == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_where_nothing_is_known_the_bound_is_trivial():
    wide = minsep.BandedToeplitz.optimal(iterations=20, bands=5)
    assert best_tangent(MinSepPair(wide, 1.0, prob=0.1, min_sep=2), 1.0)[0] == 1.0
    assert best_tangent(MinSepPair(minsep.Dense(np.eye(4)), 1.0, prob=0.1), 1.0)[0] == 1.0
