"""Events are written and read without a loss, and become mechanisms where they are exactly one."""

import json
import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    dp_event,
)
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

import minsep
from minsep.accounting.exact.events import _TYPES, read_event
from minsep.reading import write_event
from minsep.reading.dp_events import DpEvents, run_of

shares = st.floats(0, 1)
noises = st.floats(0, 1e6)
counts = st.integers(1, 10**6)
gaussians = st.builds(GaussianDpEvent, noises)
sampled = st.builds(PoissonSampledDpEvent, shares, gaussians | st.builds(LaplaceDpEvent, noises))
mixtures = st.lists(st.floats(0.01, 1), min_size=1, max_size=4).map(
    lambda weights: dp_event.MixtureOfGaussiansDpEvent(
        1.5, [float(place) for place in range(len(weights))], [weight / math.fsum(weights) for weight in weights]
    )
)
leaves = (
    gaussians
    | sampled
    | mixtures
    | st.builds(LaplaceDpEvent, noises)
    | st.builds(dp_event.DiscreteLaplaceDpEvent, noises, counts)
    | st.builds(dp_event.RandomizedResponseDpEvent, shares, counts)
    | st.builds(dp_event.TruncatedSubsampledGaussianDpEvent, counts, shares, counts, noises)
    | st.just(NoOpDpEvent())
    | st.just(dp_event.NonPrivateDpEvent())
)
events = st.recursive(
    leaves,
    lambda inner: (
        st.builds(SelfComposedDpEvent, inner, counts)
        | st.lists(inner, min_size=1, max_size=3).map(ComposedDpEvent)
        | st.builds(dp_event.RepeatAndSelectDpEvent, inner, st.floats(0.1, 50), noises)
    ),
    max_leaves=6,
)
OTHERS = [
    dp_event.ZCDpEvent(0.5, 0.0),
    dp_event.SingleEpochTreeAggregationDpEvent(1.0, 8),
    dp_event.SingleEpochTreeAggregationDpEvent(1.0, [3, 4]),
    dp_event.SampledWithReplacementDpEvent(100, 5, GaussianDpEvent(1.0)),
    dp_event.SampledWithoutReplacementDpEvent(100, 5, GaussianDpEvent(1.0)),
    dp_event.UnsupportedDpEvent(),
]


def read(text):
    """Return the event that JSON describes, before it becomes a mechanism."""
    content = json.loads(text)
    assert DpEvents.recognises(content)
    return read_event(content)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(events)
def test_an_event_that_is_written_is_read_again(event):
    assert read(write_event(event)) == event
    assert read(json.dumps(event.to_named_tuple())) == event


@pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
def test_other_events_are_read_again(event):
    assert read(write_event(event)) == event


def test_every_event_that_dp_accounting_has_a_distribution_for_is_among_them():
    known = {type(event).__name__ for event in OTHERS} | {
        "GaussianDpEvent", "LaplaceDpEvent", "PoissonSampledDpEvent", "MixtureOfGaussiansDpEvent",
        "DiscreteLaplaceDpEvent", "RandomizedResponseDpEvent", "TruncatedSubsampledGaussianDpEvent", "NoOpDpEvent",
        "NonPrivateDpEvent", "SelfComposedDpEvent", "ComposedDpEvent", "RepeatAndSelectDpEvent",
    }  # fmt: skip
    assert known <= set(_TYPES)


def dp_sgd(iterations, rate, noise_multiplier, truncation=None):
    identity = minsep.BandedToeplitz.identity(iterations=iterations)
    return minsep.Mechanism(identity, minsep.Poisson(rate=rate), noise_multiplier, truncation)


@pytest.mark.parametrize(
    ("event", "mechanism"),
    [
        (GaussianDpEvent(2.0), dp_sgd(1, 1.0, 2.0)),
        (SelfComposedDpEvent(GaussianDpEvent(2.0), 7), dp_sgd(7, 1.0, 2.0)),
        (PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), dp_sgd(1, 0.1, 2.0)),
        (SelfComposedDpEvent(SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2)), 3), 4),
         dp_sgd(12, 0.1, 2.0)),
        (ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(2.0), 7)]), dp_sgd(7, 1.0, 2.0)),
        (SelfComposedDpEvent(dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 12, 2.0), 7),
         dp_sgd(7, 0.1, 2.0, minsep.Truncation(12, 100))),
    ],
)  # fmt: skip
def test_repeated_gaussians_are_one_mechanism(event, mechanism):
    assert run_of(event) == mechanism
    theirs = PLDAccountant(NeighboringRelation.REPLACE_SPECIAL).compose(event).get_delta(1.0)
    ours = max(proof.delta for proof in minsep.certify(mechanism, 1.0, 0.4).proofs)
    assert ours == pytest.approx(theirs, rel=1e-2)


@pytest.mark.parametrize(
    "event",
    [
        NoOpDpEvent(),
        LaplaceDpEvent(1.0),
        GaussianDpEvent(0.0),
        PoissonSampledDpEvent(0.0, GaussianDpEvent(1.0)),
        PoissonSampledDpEvent(0.5, SelfComposedDpEvent(GaussianDpEvent(1.0), 2)),
        SelfComposedDpEvent(GaussianDpEvent(1.0), 2**31),
        ComposedDpEvent([GaussianDpEvent(1.0), GaussianDpEvent(2.0)]),
        dp_event.TruncatedSubsampledGaussianDpEvent(2**33, 0.1, 12, 2.0),
    ],
)
def test_everything_else_stays_an_event(event):
    assert run_of(event) is event


class OwnDpEvent(DpEvent):
    pass


@pytest.mark.parametrize(
    "event", [OwnDpEvent(), ComposedDpEvent([OwnDpEvent()]), GaussianDpEvent(math.inf), GaussianDpEvent("1")]
)
def test_events_that_cannot_be_written_are_refused(event):
    with pytest.raises(ValueError, match="must be"):
        write_event(event)
