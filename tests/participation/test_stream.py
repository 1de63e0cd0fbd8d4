from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

import minsep
from minsep.participation.times import draw_times
from minsep.randomness import Key, KeyedWords
from tests.oracles.participation import participation_law

FALSE_ALARM = 1e-7

SCHEMES = [
    minsep.Poisson(rate=0.3),
    minsep.Poisson(rate=1.0),
    minsep.CyclicPoisson(rate=0.1, cycle=3),
    minsep.CyclicPoisson(rate=0.25, cycle=4),
    minsep.BallsInBins(epoch=4),
    minsep.BallsInBins(epoch=12),
    minsep.RandomAllocation(epoch=1),
    minsep.RandomAllocation(epoch=3),
    minsep.RandomAllocation(epoch=4),
    minsep.RandomAllocation(epoch=12),
    minsep.MinSep(rate=0.15, min_sep=1),
    minsep.MinSep(rate=0.15, min_sep=3),
    minsep.MinSep(rate=0.15, min_sep=3, start="cold"),
    minsep.MinSep(rate=0.15, min_sep=5),
    minsep.MinSep(rate=0.15, min_sep=5, start="cold"),
    minsep.MinSep(rate=0.25, min_sep=4),
    minsep.MinSep(rate=0.25, min_sep=4, start="cold"),
    minsep.MinSep(rate=0.05, min_sep=12),
]
FIXED = minsep.Unamplified(min_sep=3, participations=4)


def mechanism(scheme, iterations=8, truncation=None):
    return minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=iterations), scheme, 1.0, truncation)


def participation(scheme, iterations, num_examples, seed):
    """Return examples x iterations, 1 where the example takes part."""
    x = np.zeros((num_examples, iterations), dtype=np.int8)
    for time, batch in enumerate(mechanism(scheme, iterations).batches(num_examples, seed=seed)):
        x[batch, time] = 1
    return x


def chi_square(observed: Counter, law, total: int) -> float:
    """Return the p-value of counts against probabilities, with rare cells put together."""
    assert set(observed) <= set(law)
    common = [x for x, probability in law.items() if probability * total >= 10]
    counts = [observed[x] for x in common]
    expected = [law[x] * total for x in common]
    if total - sum(expected) > 1e-9 * total:
        counts.append(total - sum(counts))
        expected.append(total - sum(expected))
    if len(counts) == 1:
        return float(counts == [total])
    return float(stats.chisquare(counts, np.array(expected) * (total / sum(expected))).pvalue)


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
@pytest.mark.parametrize("iterations", [3, 8, pytest.param(10, marks=pytest.mark.slow)])
def test_participation_vectors_follow_the_enumerated_law(scheme, iterations):
    total = 100_000
    x = participation(scheme, iterations, total, seed=iterations)
    law = participation_law(scheme, iterations)
    assert sum(law.values()) == pytest.approx(1)
    assert chi_square(Counter(map(tuple, x.tolist())), law, total) > FALSE_ALARM


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_examples_are_independent_of_each_other(scheme):
    """Two neighbours over many short runs: the joint law is the product, and runs of other seeds are fresh."""
    total, iterations = 1500, 3
    law = participation_law(scheme, iterations)
    joint = {one + two: p * q for one, p in law.items() for two, q in law.items()}
    counts = Counter()
    for seed in range(total):
        x = participation(scheme, iterations, 2, seed)
        counts[tuple(x[0].tolist() + x[1].tolist())] += 1
    assert chi_square(counts, joint, total) > FALSE_ALARM


def test_the_oracle_sees_a_wrong_law():
    x = participation(minsep.MinSep(rate=0.15, min_sep=3), 8, 100_000, seed=0)
    cold = participation_law(minsep.MinSep(rate=0.15, min_sep=3, start="cold"), 8)
    assert chi_square(Counter(map(tuple, x.tolist())), cold, 100_000) < FALSE_ALARM


def test_special_cases_are_one_law():
    for one, two in [
        (minsep.MinSep(rate=0.15, min_sep=1), minsep.Poisson(rate=0.15)),
        (minsep.MinSep(rate=0.25, min_sep=4), minsep.BallsInBins(epoch=4)),
        (minsep.CyclicPoisson(rate=0.25, cycle=4), minsep.BallsInBins(epoch=4)),
        (minsep.RandomAllocation(epoch=7), minsep.BallsInBins(epoch=7)),
        (minsep.RandomAllocation(epoch=9), minsep.BallsInBins(epoch=9)),
        (minsep.RandomAllocation(epoch=1), minsep.Poisson(rate=1.0)),
    ]:
        assert participation_law(one, 7) == pytest.approx(participation_law(two, 7))


@settings(max_examples=60, deadline=None)
@given(
    min_sep=st.integers(1, 20),
    load=st.floats(0.01, 1.0),
    start=st.sampled_from(["warm", "cold"]),
    iterations=st.integers(1, 60),
    num_examples=st.integers(1, 200),
    seed=st.integers(0, 2**200),
)
def test_no_example_returns_within_min_sep(min_sep, load, start, iterations, num_examples, seed):
    scheme = minsep.MinSep(rate=load / min_sep, min_sep=min_sep, start=start)
    last = np.full(num_examples, -min_sep)
    batches = list(mechanism(scheme, iterations).batches(num_examples, seed=seed))
    assert len(batches) == iterations
    for time, batch in enumerate(batches):
        assert batch.dtype == np.int64
        assert (np.diff(batch) > 0).all()
        assert ((batch >= 0) & (batch < num_examples)).all()
        assert (time - last[batch] >= min_sep).all()
        last[batch] = time


@settings(max_examples=40, deadline=None)
@given(
    epoch=st.integers(1, 20),
    iterations=st.integers(1, 60),
    num_examples=st.integers(1, 200),
    seed=st.integers(0, 2**200),
)
def test_random_allocation_is_once_in_every_epoch(epoch, iterations, num_examples, seed):
    x = participation(minsep.RandomAllocation(epoch=epoch), iterations, num_examples, seed)
    for first in range(0, iterations, epoch):
        times = x[:, first : first + epoch].sum(axis=1)
        assert (times <= 1).all()
        if first + epoch <= iterations:
            assert (times == 1).all()


@pytest.mark.parametrize("scheme", [minsep.RandomAllocation(epoch=3), minsep.RandomAllocation(epoch=5)], ids=repr)
def test_times_of_single_examples_follow_the_same_law(scheme):
    """Accounting draws times by `draw_times`, and not from a stream of batches."""
    total, iterations = 50_000, 7
    words = KeyedWords(Key.from_seed(3))
    x = np.zeros((total, iterations), dtype=np.int8)
    x[draw_times(scheme.law, iterations, total, words, 0)] = 1
    assert chi_square(Counter(map(tuple, x.tolist())), participation_law(scheme, iterations), total) > FALSE_ALARM


def test_batch_sizes_are_binomial_from_the_first_iteration():
    scheme, total = minsep.MinSep(rate=0.02, min_sep=30), 20_000
    sizes = [len(batch) for batch in mechanism(scheme, 300).batches(total, seed=0)]
    low, high = stats.binom.ppf([FALSE_ALARM / 600, 1 - FALSE_ALARM / 600], total, scheme.rate)
    assert min(sizes) >= low
    assert max(sizes) <= high
    cold = mechanism(minsep.MinSep(rate=0.02, min_sep=30, start="cold"), 300).batches(total, seed=0)
    assert len(next(cold)) > high


def test_fixed_order_is_fixed_and_even():
    x = participation(FIXED, 12, 7, seed=0)
    assert_array_equal(x, participation(FIXED, 12, 7, seed=1))
    assert (x.sum(axis=1) == 4).all()
    assert set(x.sum(axis=0)) <= {2, 3}
    with pytest.raises(ValueError, match="participations is 4, but 13 iterations in passes of 3 need at least 5"):
        mechanism(FIXED, 13)


def test_equal_parts_are_public():
    scheme = minsep.CyclicPoisson(rate=0.2, cycle=4, parts="equal")
    x = participation(scheme, 12, 40, seed=0)
    for example in range(40):
        assert set(np.flatnonzero(x[example]) % 4) <= {example * 4 // 40}
    assert 60 < x.sum() < 130


def test_empty_batches_are_yielded():
    batches = list(mechanism(minsep.Poisson(rate=1e-9), 5).batches(10, seed=0))
    assert [batch.size for batch in batches] == [0] * 5
    assert all(batch.dtype == np.int64 for batch in batches)


def test_seeds_and_fresh_entropy():
    drawn = [list(map(tuple, mechanism(minsep.Poisson(0.5)).batches(50, seed=seed))) for seed in (0, 0, 1, None, None)]
    assert drawn[0] == drawn[1]
    assert len({tuple(batches) for batches in drawn}) == 4


@pytest.mark.parametrize("scheme", [*SCHEMES, FIXED], ids=repr)
@pytest.mark.parametrize("truncation", [None, minsep.Truncation(batch_size=6)])
def test_a_stream_resumes_anywhere(scheme, truncation):
    mech = mechanism(scheme, 12, truncation)
    whole = list(mech.batches(40, seed=5))
    for position in range(13):
        stream = mech.batches(40, seed=5)
        for _ in range(position):
            next(stream)
        resumed = mech.batches(40)
        next(resumed)
        resumed.load_state_dict(stream.state_dict())
        assert resumed.position == position
        rest = list(resumed)
        assert len(rest) == 12 - position
        for one, other in zip(rest, whole[position:], strict=True):
            assert_array_equal(one, other)


def test_a_state_can_be_moved_to_another_step():
    mech = mechanism(minsep.MinSep(rate=0.1, min_sep=3), 12)
    whole = list(mech.batches(40, seed=5))
    state = mech.batches(40, seed=5).state_dict() | {"position": 7}
    stream = mech.batches(40)
    stream.load_state_dict(state)
    assert_array_equal(next(stream), whole[7])


@pytest.mark.parametrize(
    ("other", "num_examples", "change", "message"),
    [
        (mechanism(minsep.Poisson(rate=0.2)), 40, {}, "state has mechanism"),
        (mechanism(minsep.Poisson(rate=0.1)), 41, {}, "state has num_examples 40, but this stream has 41"),
        (
            mechanism(minsep.Poisson(rate=0.1)),
            40,
            {"version": 0},
            "state has version 0, but this stream has 1",
        ),
        (mechanism(minsep.Poisson(rate=0.1)), 40, {"stream": "noise"}, "state has stream 'noise'"),
        (mechanism(minsep.Poisson(rate=0.1)), 40, {"position": 9}, "position is 9, .* at most 8"),
        (mechanism(minsep.Poisson(rate=0.1)), 40, {"position": None}, "position is None"),
        (mechanism(minsep.Poisson(rate=0.1)), 40, {"key": "ab"}, "key must be 32 bytes"),
        (mechanism(minsep.Poisson(rate=0.1)), 40, {"key": None}, "key"),
    ],
)
def test_a_foreign_state_is_refused(other, num_examples, change, message):
    state = mechanism(minsep.Poisson(rate=0.1)).batches(40).state_dict()
    with pytest.raises(ValueError, match=message):
        other.batches(num_examples).load_state_dict(state | change)
    with pytest.raises(ValueError, match="must be a dict"):
        other.batches(num_examples).load_state_dict(None)


def test_truncation_cuts_uniformly_and_pads_when_asked():
    total, size, seeds = 20, 4, 4000
    kept, sampled = np.zeros(total), np.zeros(total)
    plain, cut = (
        mechanism(minsep.Poisson(rate=0.3), 2),
        mechanism(minsep.Poisson(rate=0.3), 2, minsep.Truncation(size)),
    )
    for seed in range(seeds):
        streams = plain.batches(total, seed), cut.batches(total, seed), cut.batches(total, seed).with_masks()
        for whole, real, padded in zip(*streams, strict=True):
            assert padded.indices.shape == (size,)
            assert_array_equal(padded.mask, padded.indices >= 0)
            assert_array_equal(padded.indices[padded.mask], real)
            assert real.size == min(size, whole.size)
            assert np.isin(real, whole).all()
            if whole.size > size:
                sampled[whole] += size / whole.size
                kept[real] += 1
    assert stats.chisquare(kept, sampled * kept.sum() / sampled.sum()).pvalue > FALSE_ALARM


def test_an_example_that_was_cut_stays_blocked():
    scheme = minsep.MinSep(rate=0.2, min_sep=5)
    plain = mechanism(scheme, 20).batches(30, seed=3)
    cut = mechanism(scheme, 20, minsep.Truncation(2)).batches(30, seed=3)
    for whole, kept in zip(plain, cut, strict=True):
        assert np.isin(kept, whole).all()


def test_truncation_knows_its_dataset():
    mech = mechanism(minsep.Poisson(rate=0.3), 2, minsep.Truncation(batch_size=4, num_examples=20))
    assert len(list(mech.batches(20))) == 2
    with pytest.raises(ValueError, match="num_examples is 21, but the truncation was accounted for 20"):
        mech.batches(21)


def test_batch_sampler_is_what_a_data_loader_wants():
    mech = mechanism(minsep.Poisson(rate=0.3), 6, minsep.Truncation(batch_size=4))
    stream = mech.batches(20, seed=0)
    sampler = stream.batch_sampler()
    assert len(sampler) == 6
    next(stream)
    assert len(sampler) == 5
    lists = list(sampler)
    assert len(lists) == 5
    assert all(type(index) is int and index >= 0 for batch in lists for index in batch)


@pytest.mark.parametrize("num_examples", [0, -3, 2.5, None])
def test_bad_dataset_sizes_are_refused(num_examples):
    with pytest.raises(ValueError, match="num_examples is .* integer of at least 1"):
        mechanism(minsep.Poisson(rate=0.3)).batches(num_examples)


@pytest.mark.parametrize(
    "scheme",
    [
        minsep.Poisson(rate=1e-19),
        minsep.Poisson(rate=1e-300),
        minsep.CyclicPoisson(rate=1e-19, cycle=10**9),
        minsep.Unamplified(min_sep=2**31 - 1, participations=1),
        minsep.BallsInBins(epoch=2**31 - 1),
        minsep.MinSep(rate=2.0**-31, min_sep=2**31 - 1),
    ],
    ids=repr,
)
def test_rare_participation_is_no_participation(scheme):
    assert sum(batch.size for batch in mechanism(scheme, 20).batches(1000, seed=0)) <= 20


def test_an_interrupted_stream_does_not_go_on():
    mech = mechanism(minsep.Poisson(rate=0.5))
    stream = mech.batches(40, seed=5)
    next(stream)
    state = stream.state_dict()
    stream._steps.take = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    for go_on in (lambda: next(stream), stream.state_dict):
        with pytest.raises(RuntimeError, match="interrupted in the middle of a step"):
            go_on()
    again = mech.batches(40)
    again.load_state_dict(state)
    assert_array_equal(np.concatenate(list(again)), np.concatenate(list(mech.batches(40, seed=5))[1:]))
