import pytest

import minsep


def test_sampling_probability_gives_the_rate():
    scheme = minsep.MinSep(rate=1 / 300, min_sep=64)
    # A renewal takes min_sep - 1 iterations of rest and 1/p to succeed.
    assert 1 / (scheme.min_sep - 1 + 1 / scheme.sampling_prob) == pytest.approx(scheme.rate, rel=1e-12)
    assert minsep.CyclicPoisson(rate=1 / 300, cycle=64).sampling_prob == pytest.approx(64 / 300)
    assert minsep.BallsInBins(epoch=300).rate == 1 / 300
    assert minsep.Poisson(rate=0.3).sampling_prob == 0.3


@pytest.mark.parametrize("b", range(1, 400))
def test_a_rate_of_one_in_min_sep_means_certainty(b):
    assert minsep.MinSep(rate=1 / b, min_sep=b).sampling_prob == 1.0
    assert minsep.CyclicPoisson(rate=1 / b, cycle=b).sampling_prob == pytest.approx(1.0)


def test_schemes_are_values():
    assert minsep.MinSep(rate=0.1, min_sep=4) == minsep.MinSep(rate=0.1, min_sep=4)
    assert minsep.MinSep(rate=0.1, min_sep=4) != minsep.MinSep(rate=0.1, min_sep=4, start="cold")
    assert minsep.Poisson(rate=0.25) != minsep.MinSep(rate=0.25, min_sep=1)
    with pytest.raises(AttributeError):
        minsep.Poisson(rate=0.25).rate = 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: minsep.Poisson(rate=-0.1), "rate is -0.1, .* above 0 and at most 1"),
        (lambda: minsep.Poisson(rate=0), "rate is 0, .* above 0"),
        (lambda: minsep.Poisson(rate=1.5), "rate is 1.5, .* at most 1"),
        (lambda: minsep.Poisson(rate=float("nan")), "rate is nan, .* finite"),
        (lambda: minsep.Poisson(rate="0.1"), "rate is '0.1', .* finite number"),
        (lambda: minsep.MinSep(rate=0.3, min_sep=4), "rate is 0.3, but with min_sep 4 .* at most 1/4 = 0.25"),
        (lambda: minsep.MinSep(rate=0.3, min_sep=0), "min_sep is 0, .* at least 1"),
        (lambda: minsep.MinSep(rate=0.1, min_sep=2.5), "min_sep is 2.5, .* integer"),
        (lambda: minsep.MinSep(rate=0.1, min_sep=2, start="hot"), "start is 'hot', .* 'warm', 'cold'"),
        (lambda: minsep.CyclicPoisson(rate=0.3, cycle=4), "rate is 0.3, but with cycle 4 .* at most 1/4"),
        (lambda: minsep.CyclicPoisson(rate=0.3, cycle=-1), "cycle is -1"),
        (lambda: minsep.BallsInBins(epoch=0), "epoch is 0"),
        (lambda: minsep.RandomAllocation(epoch=0), "epoch is 0"),
        (lambda: minsep.BallsInBins(epoch=2**70), "epoch is .* at most 2,147,483,647"),
        (lambda: minsep.Poisson(rate=True), "rate is True"),
        (lambda: minsep.Poisson(rate=b"0.5"), "rate is b'0.5'"),
        (lambda: minsep.Poisson(rate=10**400), "rate is 1000.*finite"),
        (lambda: minsep.CyclicPoisson(rate=0.1, cycle=4, parts="odd"), "parts is 'odd', .* 'random', 'equal'"),
        (lambda: minsep.Unamplified(min_sep=0, participations=1), "min_sep is 0"),
        (lambda: minsep.Unamplified(min_sep=1, participations=0), "participations is 0"),
        (lambda: minsep.Truncation(batch_size=0), "batch_size is 0"),
        (lambda: minsep.Truncation(batch_size=1, num_examples=0), "num_examples is 0"),
        (lambda: minsep.Poisson(rate=0.1).expected_batch_size(0), "num_examples is 0"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
