"""Log likelihood ratios against enumeration over all participation vectors."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import minsep
from minsep.accounting.pairs import AllocationPair, BallsInBinsPair, CyclicPair, MinSepPair, TruncatedPair
from minsep.randomness import Key
from tests.oracles.divergence import group_law, log_ratio, truncated_laws
from tests.oracles.participation import participation_law

SIZES = [(n, bands) for n in (1, 2, 5, 9, 10) for bands in range(1, 6) if bands <= n]
SIGMAS = [0.3, 1.0, 4.0]


def strategy(n, bands):
    """Return uneven coefficients, so that an error in the order of the last columns shows."""
    return minsep.BandedToeplitz.from_coefficients([1.0, 0.7, 0.9, 0.2, 0.5][:bands], iterations=n)


def samples(n, sigma, seed=0):
    """Return points from near and far, on both sides."""
    generator = np.random.default_rng(seed)
    return generator.standard_normal((17, n)) * sigma * generator.choice([0.3, 1, 4], size=(17, 1)) + generator.choice(
        [0, 1, -1], size=(17, 1)
    )


@pytest.mark.parametrize(("n", "bands"), SIZES)
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("start", ["warm", "cold"])
def test_min_sep_equals_enumeration(n, bands, sigma, start):
    c, y = strategy(n, bands), samples(n, sigma)
    for min_sep, load in itertools.product({bands, bands + 2, n + 3}, (0.05, 0.6, 1.0)):
        if min_sep < bands:
            continue
        scheme = minsep.MinSep(rate=load / min_sep, min_sep=min_sep, start=start)
        pair = MinSepPair(c, sigma, prob=scheme.sampling_prob, min_sep=min_sep, warm=start == "warm")
        law = participation_law(scheme, n)
        assert_allclose(pair.log_ratios(y), log_ratio(law, c.dense(), sigma, y), rtol=1e-11, atol=1e-10)
        assert pair.no_participation == pytest.approx(law.get((0,) * n, 0.0), rel=1e-12, abs=1e-300)
        assert not pair.upper_bound


@pytest.mark.parametrize("bands", [3, 4, 5])
def test_enumeration_sees_reversed_norms_of_the_last_columns(bands, monkeypatch):
    """An error that two bands cannot show: with two, the one shorter column has no order."""
    n, sigma = 9, 1.0
    c, y = strategy(n, bands), samples(n, sigma)
    reversed_tail = c.column_norms.copy()
    reversed_tail[1 - bands :] = reversed_tail[1 - bands :][::-1]
    law = participation_law(minsep.MinSep(rate=0.1, min_sep=bands), n)
    pair = MinSepPair(c, sigma, prob=minsep.MinSep(rate=0.1, min_sep=bands).sampling_prob, min_sep=bands, warm=True)
    monkeypatch.setitem(c.__dict__, "column_norms", reversed_tail)
    assert np.abs(pair.log_ratios(y) - log_ratio(law, c.dense(), sigma, y)).max() > 1e-3


@pytest.mark.parametrize(("n", "bands"), SIZES)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_cyclic_and_balls_in_bins_equal_enumeration(n, bands, sigma):
    c, y = strategy(n, bands), samples(n, sigma)
    for cycle in {bands, bands + 1, n + 2}:
        for load in (0.1, 1.0):
            scheme = minsep.CyclicPoisson(rate=load / cycle, cycle=cycle)
            pair = CyclicPair(c, sigma, prob=scheme.sampling_prob, cycle=cycle)
            law = participation_law(scheme, n)
            assert_allclose(pair.log_ratios(y), log_ratio(law, c.dense(), sigma, y), rtol=1e-11, atol=1e-10)
            assert pair.no_participation == pytest.approx(law.get((0,) * n, 0.0), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("epoch", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_balls_in_bins_is_exact_for_any_strategy(epoch, sigma):
    n = 9
    y = samples(n, sigma)
    law = participation_law(minsep.BallsInBins(epoch=epoch), n)
    for c in (
        strategy(n, 4),
        minsep.BandedInverseToeplitz.square_root(iterations=n, bands=3),
        minsep.LambdaCGD(0.8, iterations=n),
        minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=n),
        minsep.Dense(np.tril(np.random.default_rng(0).random((n, n))) + np.eye(n)),
    ):
        pair = BallsInBinsPair(c, sigma, cycle=epoch)
        assert_allclose(pair.log_ratios(y), log_ratio(law, c.dense(), sigma, y), rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("epoch", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("sigma", [0.03, *SIGMAS])
def test_random_allocation_equals_enumeration(n, epoch, sigma):
    c, y = strategy(n, 1), samples(n, sigma)
    law = participation_law(minsep.RandomAllocation(epoch), n)
    pair = AllocationPair(c, sigma, epoch=epoch)
    assert_allclose(pair.log_ratios(y), log_ratio(law, c.dense(), sigma, y), rtol=1e-11, atol=1e-10)
    assert pair.no_participation == pytest.approx(law.get((0,) * n, 0.0), rel=1e-12, abs=1e-300)


def test_random_allocation_is_a_product_over_epochs():
    """Long epochs, which the kernel takes block by block; the last is cut."""
    n, epoch, sigma = 350, 117, 0.6
    c, y = strategy(n, 1), samples(n, sigma)
    parts = [y[:, first : first + epoch] for first in range(0, n, epoch)]
    expected = sum(BallsInBinsPair(strategy(p.shape[1], 1), sigma, cycle=epoch).log_ratios(p) for p in parts)
    assert_allclose(AllocationPair(c, sigma, epoch=epoch).log_ratios(y), expected, rtol=1e-12)


def test_random_allocation_refuses_bands():
    with pytest.raises(ValueError, match="bands is 2"):
        AllocationPair(strategy(5, 2), 1.0, epoch=2)
    identity = minsep.BandedToeplitz.identity(iterations=6)
    uneven = minsep.Dense(np.diag([1.0, 0.5, 1.0, 1.0, 1.0, 1.0]))
    for c, cut in [(strategy(6, 2), None), (uneven, None), (identity, minsep.Truncation(5, 100))]:
        with pytest.raises(ValueError, match="no sampled accounting; supported are: RandomAllocation"):
            minsep.estimate_delta(minsep.Mechanism(c, minsep.RandomAllocation(3), 1.0, cut), 1.0)


def test_balls_in_bins_is_min_sep_with_certainty():
    c, y = strategy(40, 5), samples(40, 0.5)
    one = BallsInBinsPair(c, 0.5, cycle=8)
    two = MinSepPair(c, 0.5, prob=1.0, min_sep=8, warm=True)
    assert_allclose(one.log_ratios(y), two.log_ratios(y), rtol=1e-12)


@pytest.mark.parametrize("bands", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("prob", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_groups_equal_enumeration(bands, group, prob, sigma):
    n = 6
    c, y = strategy(n, bands), samples(n, sigma)
    for min_sep in (bands, 4):
        pair = MinSepPair(c, sigma, prob=prob, min_sep=min_sep, group=group)
        law = group_law(prob, min_sep, group, n)
        assert_allclose(pair.log_ratios(y), log_ratio(law, c.dense(), sigma, y), rtol=1e-11, atol=1e-10)
        assert pair.no_participation == pytest.approx(law.get((0,) * n, 0.0), abs=1e-15)


@pytest.mark.parametrize("bands", [1, 2, 3])
@pytest.mark.parametrize("start", ["warm", "cold"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_truncated_equals_enumeration(bands, start, sigma):
    n, batch_size = 6, 4
    c, y = strategy(n, bands), samples(n, sigma)
    others = np.random.default_rng(1).integers(0, 9, size=y.shape)
    for min_sep, load in itertools.product((bands, 4), (0.3, 1.0)):
        scheme = minsep.MinSep(rate=load / min_sep, min_sep=min_sep, start=start)
        pair = TruncatedPair(
            c, sigma, prob=scheme.sampling_prob, min_sep=min_sep, warm=start == "warm",
            batch_size=batch_size, num_examples=50,
        )  # fmt: skip
        law = participation_law(scheme, n)
        expected = []
        for sample, sizes in zip(y, others, strict=True):
            p, q = truncated_laws(law, sizes, batch_size)
            row = sample[None]
            expected += [log_ratio(p, c.dense(), sigma, row)[0] - log_ratio(q, c.dense(), sigma, row)[0]]
        assert_allclose(pair.log_ratios_given(y, others), expected, rtol=1e-10, atol=1e-10)


def test_without_cuts_truncation_changes_nothing():
    c, y = strategy(30, 3), samples(30, 0.7)
    arguments = {"prob": 0.1, "min_sep": 5, "warm": True}
    whole = MinSepPair(c, 0.7, **arguments)
    cut = TruncatedPair(c, 0.7, **arguments, batch_size=100, num_examples=50)
    assert_allclose(cut.log_ratios_given(y, np.full(y.shape, 7)), whole.log_ratios(y), rtol=1e-12)


@pytest.mark.parametrize("min_sep", [1, 2, 3])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_r_min_sep_is_an_upper_bound(min_sep, sigma):
    n = 8
    y = samples(n, sigma)
    buffered = minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=n)
    for c in (strategy(n, 5), minsep.BandedInverseToeplitz.square_root(iterations=n, bands=3), buffered):
        for start in ("warm", "cold"):
            scheme = minsep.MinSep(rate=0.4 / min_sep, min_sep=min_sep, start=start)
            pair = MinSepPair(c, sigma, prob=scheme.sampling_prob, min_sep=min_sep, warm=start == "warm")
            assert pair.upper_bound
            exact = log_ratio(participation_law(scheme, n), c.dense(), sigma, y)
            assert (pair.log_ratios(y) >= exact - 1e-10).all()


@pytest.mark.parametrize("bands", [3, 48, 49, 60, 200])
def test_filters_agree_for_any_number_of_bands(bands):
    n = 200
    c = minsep.BandedToeplitz.optimal(iterations=n, bands=bands)
    y = samples(n, 0.8)
    arguments = {"prob": 0.02, "min_sep": 200, "warm": True}
    expected = MinSepPair(minsep.Dense(c.dense()), 0.8, **arguments).log_ratios(y)
    assert_allclose(MinSepPair(c, 0.8, **arguments).log_ratios(y), expected, rtol=1e-10, atol=1e-11)
    single = MinSepPair(c, 0.8, np.float32, **arguments).log_ratios(y)
    assert_allclose(single, expected, rtol=1e-4, atol=1e-4)


def test_extreme_ratios_do_not_overflow():
    n = 60
    c = minsep.BandedToeplitz.optimal(iterations=n, bands=3)
    pairs = [
        MinSepPair(c, 0.02, prob=0.3, min_sep=3, warm=True),
        MinSepPair(c, 0.02, prob=1.0, min_sep=3, warm=True),
        CyclicPair(c, 0.02, prob=0.3, cycle=3),
        BallsInBinsPair(c, 0.02, cycle=3),
        AllocationPair(minsep.BandedToeplitz.identity(iterations=n), 0.02, epoch=7),
    ]
    y = np.stack([np.full(n, 5.0), np.full(n, -5.0), np.zeros(n)])
    for pair in pairs:
        ratios = pair.log_ratios(y)
        assert np.isfinite(ratios).all()
        assert ratios[0] > 1e4
    assert pairs[3].log_ratios(y)[1] < -1e4
    assert pairs[4].log_ratios(y)[1] < -1e4


def test_a_nan_is_not_swallowed():
    c = minsep.BandedToeplitz.identity(iterations=5)
    y = np.array([[0.0, np.nan, 0.0, 0.0, 0.0], [0.0] * 5])
    for pair in (
        MinSepPair(c, 1.0, prob=0.3, min_sep=2, warm=True),
        CyclicPair(c, 1.0, prob=0.3, cycle=2),
        AllocationPair(c, 1.0, epoch=2),
        AllocationPair(c, 1.0, epoch=1),
    ):
        ratios = pair.log_ratios(y)
        assert np.isnan(ratios[0])
        assert np.isfinite(ratios[1])


def test_chunks_are_functions_of_key_and_number():
    pair = MinSepPair(strategy(20, 3), 0.8, np.float32, prob=0.1, min_sep=4, warm=True)
    one, again = (pair.draw_log_ratios("remove", Key.from_seed(0), 5) for _ in range(2))
    assert one.tolist() == again.tolist()
    assert one.size == pair.samples_in_chunk == 1024
    for other in (
        pair.draw_log_ratios("remove", Key.from_seed(0), 6),
        pair.draw_log_ratios("remove", Key.from_seed(1), 5),
        pair.draw_log_ratios("add", Key.from_seed(0), 5),
    ):
        assert not np.intersect1d(one, other).size


def test_a_group_has_no_warm_start():
    with pytest.raises(ValueError, match="group is 2, but it must be 1 in a warm start"):
        MinSepPair(strategy(5, 1), 1.0, prob=0.1, min_sep=2, warm=True, group=2)
