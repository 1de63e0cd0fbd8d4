"""A run that stops early is a run of the prefix: its noise, its participations, and what it costs."""

import numpy as np
import pytest

import minsep
from minsep.participation import Scheme
from minsep.strategy import Strategy
from tests.oracles.participation import participation_law

ITERATIONS = 6
RNG = np.random.default_rng(7)
STRATEGIES = {
    "Toeplitz": minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=3),
    "identity": minsep.BandedToeplitz.identity(iterations=ITERATIONS),
    "inverse": minsep.BandedInverseToeplitz.square_root(iterations=ITERATIONS, bands=3),
    "lambda-CGD": minsep.LambdaCGD(0.6, iterations=ITERATIONS),
    "gamma-BIFR": minsep.GammaBIFR(0.7, bands=3, iterations=ITERATIONS),
    "buffered": minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=ITERATIONS),
    "dense": minsep.Dense(np.tril(RNG.uniform(0.1, 1.0, (ITERATIONS, ITERATIONS)))),
}
SCHEMES = {
    "Poisson": minsep.Poisson(rate=0.3),
    "warm": minsep.MinSep(rate=0.2, min_sep=3),
    "cold": minsep.MinSep(rate=0.2, min_sep=3, start="cold"),
    "cyclic": minsep.CyclicPoisson(rate=0.2, cycle=3),
    "balls in bins": minsep.BallsInBins(epoch=4),
    "allocation": minsep.RandomAllocation(epoch=4),
    "fixed order": minsep.Unamplified(min_sep=2, participations=3),
}
SOME = minsep.Mechanism(STRATEGIES["Toeplitz"], SCHEMES["warm"], 1.5, minsep.Truncation(8, 20))


def covariance(mechanism):
    rows = np.linalg.inv(mechanism.strategy.dense())
    return mechanism.noise_multiplier**2 * rows @ rows.T


@pytest.mark.parametrize("iterations", range(1, ITERATIONS + 1))
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_the_first_rows_of_noise_have_the_covariance_of_the_prefix(strategy, iterations):
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), 1.5)
    prefix = mechanism.prefix(iterations)
    assert prefix.iterations == iterations
    expected = covariance(mechanism)[:iterations, :iterations]
    assert np.allclose(covariance(prefix), expected, rtol=1e-10, atol=1e-12)
    assert prefix.strategy.column_norms.max() == pytest.approx(1.0)
    assert prefix.noise_multiplier >= mechanism.noise_multiplier


@pytest.mark.parametrize("iterations", range(1, ITERATIONS + 1))
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_the_first_participations_have_the_law_of_the_prefix(scheme, iterations):
    expected = {}
    for participations, probability in participation_law(scheme, ITERATIONS).items():
        first = participations[:iterations]
        expected[first] = expected.get(first, 0.0) + probability
    shorter = scheme.prefix(iterations)
    shorter.check_iterations(iterations)
    found = participation_law(shorter, iterations)
    assert found.keys() == expected.keys()
    assert all(found[first] == pytest.approx(probability) for first, probability in expected.items())


def test_a_fixed_order_costs_only_the_participations_that_the_prefix_has_room_for():
    identity = minsep.BandedToeplitz.identity(iterations=6)
    mechanism = minsep.Mechanism(identity, SCHEMES["fixed order"], 2.0)
    one = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=2), minsep.Unamplified(2, 1), 2.0)
    assert minsep.estimate_delta(mechanism.prefix(2), 1.0).value == minsep.estimate_delta(one, 1.0).value


def test_whole_runs_and_prefixes_of_prefixes():
    assert SOME.prefix(ITERATIONS) is not SOME
    assert SOME.prefix(ITERATIONS) == SOME
    assert SOME.prefix(5).prefix(4) == SOME.prefix(4)
    assert SOME.prefix(4).truncation == SOME.truncation
    assert SOME.design.prefix(2) == SOME.prefix(2).design
    assert np.array_equal(SOME.prefix(3).strategy.coefficients, SOME.strategy.coefficients)
    assert minsep.Mechanism.from_description(SOME.prefix(2).describe()) == SOME.prefix(2)


def test_users_keep_their_graph():
    graph = minsep.AttributionGraph.from_lists([[0], [0], [1]])
    scheme = minsep.UserMinSep(rate=0.1, min_sep=2, user_bound=2, graph=graph)
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=5), scheme, 1.0)
    assert mechanism.prefix(3).scheme.graph is graph
    by_blocks = minsep.MultiAttributionMinSep(sampling_prob=0.1, min_sep=2, graph=graph, accept_assumption=True)
    assert by_blocks.prefix(3) is by_blocks


@pytest.mark.parametrize("iterations", [0, ITERATIONS + 1, 1.5])
def test_a_prefix_is_no_longer_than_the_run(iterations):
    with pytest.raises(ValueError, match=f"iterations is {iterations}, but it must be an integer"):
        SOME.prefix(iterations)


def test_strategies_and_schemes_of_other_people_are_refused():
    with pytest.raises(ValueError, match="does not know the leading block"):
        Strategy.prefix(STRATEGIES["dense"], 3)
    with pytest.raises(ValueError, match="does not know how its runs begin"):
        Scheme.prefix(SCHEMES["warm"], 3)


def test_checkpoints_are_certified_close_to_their_estimates():
    strategy = minsep.BandedToeplitz.optimal(iterations=60, bands=3)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.05, min_sep=5), 1.0)
    told = []
    found = minsep.certify_checkpoints(mechanism, [60, 20], delta=1e-3, seed=1, num_examples=900, progress=told.append)
    assert list(found) == [20, 60]
    assert any("20 iterations" in str(event) for event in told)
    for checkpoint, certificate in found.items():
        assert certificate.mechanism == mechanism.prefix(checkpoint)
        assert certificate.attempts == 6
        assert certificate.num_examples == 900
        assert minsep.verify(certificate).holds
        estimate = minsep.estimate_epsilon(mechanism.prefix(checkpoint), 1e-3).value
        assert estimate < certificate.curve.epsilon(1e-3) <= certificate.epsilon < 1.25 * estimate
    assert found[20].curve.epsilon(1e-3) < found[60].curve.epsilon(1e-3)
    minsep.compose(found.values(), 1e-2)  # their samples have seeds of their own


@pytest.mark.parametrize("checkpoints", [[], [5, 5]])
def test_checkpoints_must_differ(checkpoints):
    with pytest.raises(ValueError, match="must be one or more different numbers of iterations"):
        minsep.certify_checkpoints(SOME, checkpoints, 1e-3)
