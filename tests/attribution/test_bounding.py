from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import minsep
from tests.attribution.test_graph import GRAPHS


def sizes_of(lists):
    sets = [set(users) for users in lists]
    return [sum(bool(one & two) for two in sets) for one in sets]


@settings(max_examples=200, deadline=None)
@given(GRAPHS, st.integers(1, 5), st.booleans(), st.none() | st.integers(1, 6), st.integers(0, 5))
def test_what_is_kept_is_within_bounds_and_maximal(lists, user_bound, duplicates, neighbourhood_bound, seed):
    graph = minsep.AttributionGraph.from_lists(lists)
    bounded = minsep.bound_contributions(
        graph, user_bound, duplicates=duplicates, neighbourhood_bound=neighbourhood_bound, seed=seed
    )
    kept = [lists[k] for k in bounded.examples]
    used = Counter(user for users in kept for user in users)
    assert max(used.values()) <= user_bound
    assert [bounded.graph.users_of(k).tolist() for k in range(len(kept))] == kept
    times = Counter(bounded.examples.tolist())
    if not duplicates:
        assert max(times.values()) == 1
    if neighbourhood_bound is not None:
        assert max(sizes_of(kept)) <= neighbourhood_bound
    for example, users in enumerate(lists):
        if example in times and not duplicates:
            continue
        fits = all(used[user] < user_bound for user in users)
        if fits and neighbourhood_bound is not None:
            fits = max(sizes_of([*kept, users])) <= neighbourhood_bound
        assert not fits
    summary = bounded.summary()
    assert summary["examples_kept"] == len(kept)
    assert summary["distinct_examples_kept"] == len(times)
    assert summary["users_kept"] == len(used)
    assert summary["largest_neighbourhood"] == max(sizes_of(kept))


def test_copies_come_after_the_first_pass():
    """Repeats only use the room that one pass over all examples left."""
    generator = np.random.default_rng(0)
    graph = minsep.AttributionGraph.from_lists(
        [sorted(set(generator.integers(0, 300, size=3).tolist())) for _ in range(200)]
    )
    once = minsep.bound_contributions(graph, 3, seed=4)
    more = minsep.bound_contributions(graph, 3, duplicates=True, seed=4)
    assert_array_equal(np.unique(more.examples), once.examples)
    assert more.examples.size > once.examples.size


def test_the_order_follows_the_seed():
    graph = minsep.AttributionGraph.from_lists([[0, k + 1] for k in range(100)])
    kept = [tuple(minsep.bound_contributions(graph, 3, seed=seed).examples) for seed in (0, 0, 1, 2)]
    assert kept[0] == kept[1]
    assert len(set(kept)) == 3


@settings(max_examples=100, deadline=None)
@given(GRAPHS, st.integers(1, 12), st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(0, 3))
def test_fixed_batches_keep_their_promises_or_are_refused(lists, iterations, size, min_sep, most, seed):
    graph = minsep.AttributionGraph.from_lists(lists)
    if size > graph.num_examples:
        return
    try:
        batches = minsep.fixed_batches(graph, iterations, size, min_sep, most, seed=seed)
    except ValueError:
        return
    assert batches.shape == (iterations, size)
    times: dict[int, list[int]] = {}
    for time, batch in enumerate(batches):
        for example in batch:
            for user in lists[example]:
                times.setdefault(user, []).append(time)
    for taken in times.values():
        assert len(taken) <= most
        assert all(later - earlier >= min_sep for earlier, later in pairwise(taken))


def test_fixed_batches_are_found_where_there_is_ample_room():
    graph = minsep.AttributionGraph.from_lists([[k, k + 1] for k in range(400)])
    assert minsep.fixed_batches(graph, 50, 8, 5, 3).shape == (50, 8)
    with pytest.raises(ValueError, match="No batches were found: batch 0 of 50 has"):
        minsep.fixed_batches(graph, 50, 300, 5, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"user_bound": 0}, "user_bound is 0"),
        ({"user_bound": 2, "neighbourhood_bound": 0}, "neighbourhood_bound is 0"),
        ({"user_bound": 2, "seed": -1}, "seed is -1"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        minsep.bound_contributions(minsep.AttributionGraph.from_lists([[0]]), **arguments)


@pytest.mark.parametrize("size", [200, 1000, 3000])
@pytest.mark.parametrize("user_bound", [1, 2, 4])
def test_the_ascending_order_keeps_more(size, user_bound):
    generator = np.random.default_rng(0)
    users = max(size * 3 // 4, 1)
    lists = [np.unique(generator.integers(0, users, generator.integers(1, 4))).tolist() for _ in range(size)]
    graph = minsep.AttributionGraph.from_lists(lists, num_users=users)
    kept = {order: minsep.bound_contributions(graph, user_bound, order=order) for order in ("ascending", "random")}
    assert kept["ascending"].graph.num_examples > kept["random"].graph.num_examples
    for bounded in kept.values():
        bounded.graph.check_user_bound(user_bound)
    with pytest.raises(ValueError, match="order is 'best', but it must be one of 'ascending', 'random'"):
        minsep.bound_contributions(graph, user_bound, order="best")
