import numpy as np
import pytest

import minsep

STRATEGY = minsep.BandedToeplitz.optimal(iterations=40, bands=3)
SHARED = minsep.AttributionGraph.from_lists([[k, k + 1] for k in range(300)])


def test_batches_states_and_truncation_are_those_of_min_sep():
    user = minsep.Mechanism(STRATEGY, minsep.UserMinSep(0.05, 4, 2, graph=SHARED), 1.0)
    plain = minsep.Mechanism(STRATEGY, minsep.MinSep(0.05, 4), 1.0)
    for one, other in zip(user.batches(300, seed=3), plain.batches(300, seed=3), strict=True):
        np.testing.assert_array_equal(one, other)
    stream = user.batches(300, seed=3)
    for _ in range(10):
        next(stream)
    resumed = user.batches(300)
    resumed.load_state_dict(stream.state_dict())
    for one, other in zip(stream, resumed, strict=True):
        np.testing.assert_array_equal(one, other)
    cut = minsep.Mechanism(STRATEGY, minsep.UserMinSep(0.05, 4, 2), 1.0, minsep.Truncation(5))
    assert {batch.size for batch in cut.batches(300, seed=3)} == {5}


def test_a_description_holds_no_graph_and_comes_back():
    scheme = minsep.UserMinSep(rate=0.05, min_sep=4, user_bound=2, start="cold", graph=SHARED)
    mechanism = minsep.Mechanism(STRATEGY, scheme, 1.0)
    again = minsep.Mechanism.from_description(mechanism.describe())
    assert again == mechanism
    assert again.scheme.graph is None
    assert again.scheme == minsep.UserMinSep(0.05, 4, 2, "cold")
    assert again.scheme != minsep.UserMinSep(0.05, 4, 3, "cold")
    assert again.scheme.assumptions == ()
    assert scheme.name == "b-min-sep, b = 4, cold start, at most 2 examples a user"


def test_contributions_are_bounded_first():
    graph = minsep.AttributionGraph.from_lists([[0], [0, 1], [0, 2], [3], [2, 3]])
    with pytest.raises(ValueError, match="user_bound is 2, but user 0 has 3 examples: bound contributions first"):
        minsep.UserMinSep(0.1, 2, 2, graph=graph)
    kept = minsep.bound_contributions(graph, 2).graph
    scheme = minsep.UserMinSep(0.1, 2, 2, graph=kept)
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=3), scheme, 1.0)
    assert len(list(mechanism.batches(kept.num_examples))) == 3
    with pytest.raises(ValueError, match="num_examples is 5, but the graph has 4 examples"):
        mechanism.batches(5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"user_bound": 0}, "user_bound is 0, but it must be an integer of at least 1"),
        ({"user_bound": 1.5}, "user_bound is 1.5"),
        ({"rate": 0.5}, "rate is 0.5, but with min_sep 4 it must be at most 1/4"),
        ({"min_sep": 0}, "min_sep is 0"),
        ({"start": "tepid"}, "start is 'tepid'"),
        ({"coins": "none"}, "coins is 'none'"),
        ({"graph": [[0]]}, r"graph is \[\[0\]\], but it must be an AttributionGraph"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        minsep.UserMinSep(**({"rate": 0.05, "min_sep": 4, "user_bound": 2} | arguments))
