import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

import minsep
from tests.attribution.test_graph import GRAPHS
from tests.oracles.attribution import all_coins, batches, neighbours, probabilities
from tests.participation.test_stream import chi_square

FALSE_ALARM = 1e-7
BLOCKS = ["sampled", "participated"]
CHAIN = minsep.AttributionGraph.from_lists([[k, k + 1] for k in range(60)])


def scheme(graph, prob, min_sep, block="sampled", **options):
    return minsep.MultiAttributionMinSep(prob, min_sep, graph, block=block, accept_assumption=True, **options)


def mechanism(made, iterations=8, truncation=None):
    return minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=iterations), made, 1.0, truncation)


def stationary_law(lists, prob, min_sep, block, iterations, burn_in):
    """Return the law of the batches, one bit an example and iteration, by enumeration of all coins."""
    coins = all_coins(len(lists), burn_in + iterations)
    drawn = batches(coins, neighbours([set(users) for users in lists]), min_sep, block)[:, burn_in:]
    flat = drawn.reshape(drawn.shape[0], -1)
    vectors, inverse = np.unique(flat, axis=0, return_inverse=True)
    weights = np.bincount(inverse.ravel(), weights=probabilities(coins, prob))
    return {tuple(map(int, x)): float(weight) for x, weight in zip(vectors, weights, strict=True)}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    ("lists", "min_sep", "iterations", "burn_in"),
    [
        pytest.param([[0], [0, 1], [1]], 2, 4, 0, marks=pytest.mark.slow),
        pytest.param([[0], [0, 1], [1]], 3, 3, 2, marks=pytest.mark.slow),
        ([[0], [0, 1], [1, 2], [2]], 2, 3, 1),
        ([[0, 1, 2], [0], [1], [3]], 3, 4, 0),
    ],
)
def test_batches_follow_the_enumerated_law(block, lists, min_sep, iterations, burn_in):
    """Many copies of a small graph in one: each is drawn independently of the others."""
    copies, prob = 30_000, 0.3
    users = 1 + max(map(max, lists))
    graph = minsep.AttributionGraph.from_lists([[u + users * c for u in row] for c in range(copies) for row in lists])
    made = scheme(graph, prob, min_sep, block, burn_in=burn_in)
    x = np.zeros((iterations, graph.num_examples), dtype=int)
    for time, batch in enumerate(mechanism(made, iterations).batches(graph.num_examples, seed=3)):
        x[time, batch] = 1
    observed = x.reshape(iterations, copies, len(lists)).transpose(1, 0, 2).reshape(copies, -1)
    law = stationary_law(lists, prob, min_sep, block, iterations, burn_in)
    assert sum(law.values()) == pytest.approx(1)
    assert chi_square(Counter(map(tuple, observed.tolist())), law, copies) > FALSE_ALARM
    if iterations + burn_in > 3:
        other = stationary_law(lists, prob, min_sep, BLOCKS[block == "sampled"], iterations, burn_in)
        if set(other) == set(law):
            assert chi_square(Counter(map(tuple, observed.tolist())), other, copies) < FALSE_ALARM


@settings(max_examples=100, deadline=None)
@given(
    GRAPHS,
    st.sampled_from(BLOCKS),
    st.integers(1, 7),
    st.floats(0.01, 1.0),
    st.integers(1, 30),
    st.none() | st.integers(0, 9),
    st.integers(0, 2**100),
)
def test_no_user_takes_part_twice_within_min_sep(lists, block, min_sep, prob, iterations, burn_in, seed):
    graph = minsep.AttributionGraph.from_lists(lists)
    made = scheme(graph, prob, min_sep, block, burn_in=burn_in)
    last = {}
    drawn = list(mechanism(made, iterations).batches(graph.num_examples, seed=seed))
    assert len(drawn) == iterations
    for time, batch in enumerate(drawn):
        assert batch.dtype == np.int64
        assert (np.diff(batch) > 0).all()
        users = Counter(user for example in batch for user in lists[example])
        assert max(users.values(), default=0) <= made.user_bound
        for user in users:
            assert time - last.get(user, -min_sep) >= min_sep
            last[user] = time


@pytest.mark.parametrize("block", BLOCKS)
def test_with_one_user_an_example_batches_are_those_of_single_examples(block):
    """Participation blocks as in cold-start b-min-sep; what is sampled blocks more."""
    total, iterations, min_sep, prob = 100_000, 8, 3, 0.3
    graph = minsep.AttributionGraph.from_lists([[k] for k in range(total)])
    x = np.zeros((total, iterations), dtype=int)
    stream = mechanism(scheme(graph, prob, min_sep, block, burn_in=0), iterations).batches(total, seed=1)
    for time, batch in enumerate(stream):
        x[batch, time] = 1
    from tests.oracles.participation import participation_law

    cold = minsep.MinSep(rate=prob / (1 + (min_sep - 1) * prob), min_sep=min_sep, start="cold")
    assert cold.sampling_prob == pytest.approx(prob)
    p_value = chi_square(Counter(map(tuple, x.tolist())), participation_law(cold, iterations), total)
    assert (p_value > FALSE_ALARM) == (block == "participated")


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("truncation", [None, minsep.Truncation(batch_size=3)])
def test_a_stream_resumes_anywhere(block, truncation):
    mech = mechanism(scheme(CHAIN, 0.1, 3, block), 12, truncation)
    whole = list(mech.batches(60, seed=5))
    for position in range(13):
        stream = mech.batches(60, seed=5)
        for _ in range(position):
            next(stream)
        state = stream.state_dict()
        assert set(state) == {"version", "stream", "mechanism", "num_examples", "graph", "key", "position"}
        resumed = mech.batches(60)
        next(resumed)
        resumed.load_state_dict(state)
        rest = list(resumed)
        assert len(rest) == 12 - position
        for one, other in zip(rest, whole[position:], strict=True):
            assert_array_equal(one, other)


def test_a_state_of_another_graph_is_refused():
    other = minsep.AttributionGraph.from_lists([[k, k + 2] for k in range(60)])
    state = mechanism(scheme(CHAIN, 0.1, 3)).batches(60, seed=0).state_dict()
    with pytest.raises(ValueError, match="The state has graph"):
        mechanism(scheme(other, 0.1, 3)).batches(60, seed=0).load_state_dict(state)


def test_manners_of_a_stream():
    mech = mechanism(scheme(CHAIN, 0.1, 3))
    drawn = [[tuple(batch) for batch in mech.batches(60, seed=seed)] for seed in (0, 0, 1, None, None)]
    assert drawn[0] == drawn[1]
    assert len({tuple(batches) for batches in drawn}) == 4
    with pytest.raises(ValueError, match="num_examples is 59, but the graph has 60"):
        mech.batches(59)
    stream = mech.batches(60, seed=0)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(stream)
    state = stream.state_dict()
    stream._steps.take = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    with pytest.raises(RuntimeError, match="interrupted in the middle"):
        next(stream)
    again = mech.batches(60)
    again.load_state_dict(state)
    assert [tuple(batch) for batch in again] == drawn[0]
    empty = list(mechanism(scheme(CHAIN, 1e-12, 3)).batches(60, seed=0))
    assert [batch.size for batch in empty] == [0] * 8


def test_the_mean_batch_size_is_exact_from_the_first_batch_on():
    """A burn-in of min_sep - 1 is enough when what was sampled blocks: every batch has the mean of the formula."""
    generator = np.random.default_rng(1)
    lists = [sorted(set(generator.integers(0, 4000, size=generator.integers(1, 6)).tolist())) for _ in range(5000)]
    graph = minsep.AttributionGraph.from_lists(lists)
    made = scheme(graph, 0.02, 6)
    runs = np.array(
        [[batch.size for batch in mechanism(made, 3).batches(5000, seed=seed)] for seed in range(600)], dtype=float
    )
    z = (runs.mean(axis=0) - made.mean_batch_size.value) / (runs.std(axis=0, ddof=1) / np.sqrt(600))
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARM / 6)
    assert made.mean_batch_size.stderr == 0
    cold = scheme(graph, 0.02, 6, burn_in=0)
    assert next(mechanism(cold, 3).batches(5000, seed=0)).size > runs[:, 0].max()
    expected = made.mean_batch_size.value
    found = minsep.MultiAttributionMinSep(expected_batch=expected, min_sep=6, graph=graph, accept_assumption=True)
    assert found.sampling_prob == pytest.approx(0.02, rel=1e-7)


def test_the_sampling_probability_for_an_expected_batch_when_participation_blocks():
    generator = np.random.default_rng(2)
    lists = [sorted(set(generator.integers(0, 4000, size=3).tolist())) for _ in range(4000)]
    graph = minsep.AttributionGraph.from_lists(lists)
    made = minsep.MultiAttributionMinSep(
        expected_batch=60, min_sep=5, graph=graph, block="participated", accept_assumption=True
    )
    estimate = made.mean_batch_size
    assert 0 < estimate.stderr < 0.003 * 60
    assert abs(estimate.value - 60) < 0.005 * 60
    sizes = [batch.size for batch in mechanism(made, 2000).batches(4000, seed=0)]
    means = np.reshape(sizes, (20, 100)).mean(axis=1)
    error = np.hypot(means.std(ddof=1) / np.sqrt(20), estimate.stderr)
    assert abs(np.mean(sizes) - estimate.value) < stats.t.isf(FALSE_ALARM / 2, 19) * error
    assert scheme(graph, made.sampling_prob, 5).mean_batch_size.value < 60


def test_an_expected_batch_out_of_reach_is_refused():
    for block in BLOCKS:
        with pytest.raises(ValueError, match="expected_batch is 40, but with min_sep 5 this graph gives at most about"):
            minsep.MultiAttributionMinSep(
                expected_batch=40, min_sep=5, graph=CHAIN, block=block, accept_assumption=True
            )
    with pytest.raises(ValueError, match="expected_batch is 61, but it must be at most the number of examples, 60"):
        minsep.MultiAttributionMinSep(expected_batch=61, min_sep=5, graph=CHAIN, accept_assumption=True)
    with_one = minsep.MultiAttributionMinSep(expected_batch=40, min_sep=1, graph=CHAIN)
    assert with_one.sampling_prob == pytest.approx(40 / 60)
    assert with_one.expected_batch_size(60) == pytest.approx(40)
