"""A new scheme in one file: what it describes, how it is accounted for, and that the rest of the library takes it."""

import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp

import minsep
from minsep.accounting import SchemeAccounting, Support, supported
from minsep.accounting.exact import GaussianCurve
from minsep.accounting.importance import law_from
from minsep.accounting.pairs import ParticipationPair
from minsep.core import validation as validate
from minsep.participation import Family, IndependentScheme
from minsep.participation.renewal import RenewalLaw
from minsep.serve.cost import seconds_of
from minsep.serve.inputs import read, schemes
from minsep.show.report import plot, write_report
from tests.oracles.quadrature import delta as integrated


@dataclass(frozen=True, eq=False)
class Once(IndependentScheme):
    """Every example takes part once, in a uniformly random one of the first `epoch` iterations."""

    kind = "once"

    epoch: int

    def __post_init__(self):
        validate.integer(epoch=self.epoch, at_least=1)

    rate = property(lambda self: 1 / self.epoch)
    sampling_prob = 1.0
    min_sep = property(lambda self: 10**6)
    name = property(lambda self: f"once in {self.epoch}")
    law = property(lambda self: RenewalLaw.min_sep(1.0, self.epoch, warm=True)._replace(rest=10**9))

    def describe(self):
        return {"kind": self.kind, "epoch": self.epoch}


def define_family():
    """Offer the scheme to plans and people: in a test of its own, as every plan in this process would try it."""

    class OnceFamily(Family):
        kind = Once.kind
        words = "once in a while"
        is_planned = True

        @classmethod
        def scheme(cls, sizes, separation):
            return Once(min(sizes.epoch, sizes.iterations))

        @classmethod
        def name(cls, separation):
            return "once in an epoch"

        @classmethod
        def bands(cls, max_bands):
            return [1]


@dataclass(frozen=True)
class OncePair(ParticipationPair):
    epoch: int = 1

    law = property(lambda self: Once(self.epoch).law)
    no_participation = 0.0

    def log_ratios_of_scores(self, scores):
        n = self.strategy.iterations
        by_sample = scores[:, : 2 * n].reshape(-1, n, 2).transpose(0, 2, 1).reshape(-1, n).astype(np.float64)
        gains = by_sample[:, : self.epoch] - self.half_norms[: self.epoch]
        return logsumexp(gains, axis=1) - math.log(self.epoch)


class OnceAccounting(SchemeAccounting[Once]):
    kind = Once.kind
    support = (Support("`Once(epoch)`", "any strategy", exact="Gaussian if `epoch` is 1", sampled="a mean"),)

    def exact_curve(self, mechanism, scheme, spacing):
        whole = scheme.epoch == 1 and mechanism.truncation is None
        return GaussianCurve(mechanism.strategy.column_norms[0] / mechanism.noise_multiplier) if whole else None

    def pair(self, mechanism, scheme, dtype):
        if mechanism.truncation is not None or scheme.epoch > mechanism.iterations:
            return None
        return OncePair(mechanism.strategy, mechanism.noise_multiplier, dtype, epoch=scheme.epoch)


STRATEGY = minsep.BandedToeplitz.from_coefficients([1.0, 0.6], iterations=2)
MECHANISM = minsep.Mechanism(STRATEGY, Once(2), 1.5)


def test_it_is_estimated():
    law = {(1, 0): 0.5, (0, 1): 0.5}
    estimate = minsep.estimate_delta(MECHANISM, 0.3, samples=200_000)
    for direction in ("remove", "add"):
        truth = integrated(law, STRATEGY.dense(), 1.5, 0.3, direction)
        error = getattr(estimate, f"{direction}_stderr")
        assert abs(getattr(estimate, direction) - truth) < 6 * error  # false alarm: 2e-9
    assert minsep.estimate_delta(minsep.Mechanism(STRATEGY, Once(1), 1.5), 0.3).method == "gaussian"


def test_it_is_certified_checked_and_calibrated():
    certificate = minsep.certify(MECHANISM, 1.0, 0.1, seed=0)
    assert certificate.passed
    again = minsep.Certificate.from_json(certificate.to_json())
    assert minsep.verify(again).holds
    assert not minsep.certify(MECHANISM.with_noise_multiplier(0.3), 1.0, 0.1, seed=0).passed
    best = minsep.calibrate(STRATEGY, Once(2), epsilon=1.0, delta=0.05, seed=0)
    assert best.certificate.passed
    assert isinstance(best.mechanism.scheme, Once)
    assert minsep.Mechanism.from_description(best.mechanism.describe()) == best.mechanism


def test_it_is_chosen_planned_and_drawn_without_another_edit(tmp_path, monkeypatch):
    monkeypatch.setattr(Family, "_variants", dict(Family._variants))
    define_family()
    wide = os.environ | {"COLUMNS": "200"}
    script = f"from {__name__} import define_family; from minsep.cli import main; define_family(); main()"
    shown = subprocess.run(
        [sys.executable, "-c", script, "plan", "--help"], capture_output=True, text=True, env=wide, check=True
    )
    assert "|once]" in shown.stdout.replace("\n", "")
    plan = minsep.plan(100, 20, 5, 1.0, 0.05, schemes=["poisson", "once"], seed=0)
    assert {one.name for one in plan.table} == {"DP-SGD, Poisson sampling", "DP-SGD, once in an epoch"}
    assert all(one.error is not None for one in plan.table)
    write_report(plan, tmp_path / "plan.html")
    assert "once in a while" in (tmp_path / "plan.html").read_text()
    plot(plan, tmp_path / "plan.png")
    assert {"once"} <= set(schemes())
    asked = read({"examples": "100", "batch_size": "20", "iterations": "5", "epsilon": "1", "delta": "0.05"})
    assert "once" in asked.schemes
    assert seconds_of(asked) > seconds_of(replace(asked, schemes=[kind for kind in asked.schemes if kind != "once"]))


def test_a_pair_claims_nothing_that_it_does_not_say():
    pair = OncePair(STRATEGY, 1.5, epoch=2)
    assert pair.tiltable is pair.allocation is pair.moments is pair.tangent(1.0) is None
    assert pair.shortened() == (pair, 1.0)
    for description in (
        {"kind": "tilted", "copies": 1, "tilt": 1.0},
        {"kind": "allocated", "copies": 1},
        {"kind": "shifted", "tangent_distance": 1.0, "strength": 1.0},
        {"kind": "once"},
        {"kind": []},
        {},
        None,
        [],
    ):
        for direction in ("remove", "add"):
            with pytest.raises(ValueError, match="this mechanism has no such law"):
                law_from(description, pair, direction)
    assert law_from({"kind": "plain"}, pair, "remove").pair == pair


def test_it_has_batches():
    batches = list(minsep.Mechanism(STRATEGY, Once(2), 1.0).batches(100, seed=0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(100))


@pytest.mark.parametrize("truncation", [minsep.Truncation(3, 10), None])
def test_what_it_does_not_have_is_refused_like_the_others(truncation):
    mechanism = minsep.Mechanism(STRATEGY, Once(2 if truncation else 5), 1.0, truncation)
    for attempt in (
        lambda: minsep.estimate_delta(mechanism, 1.0),
        lambda: minsep.certify(mechanism, 1.0, 0.1),
        lambda: minsep.calibrate(mechanism.design, epsilon=1.0, delta=0.1),
    ):
        with pytest.raises(ValueError, match=r"has no sampled accounting; supported are: .*Once\(epoch\) with any"):
            attempt()
    assert any(row.scheme == "`Once(epoch)`" for row in supported())


def test_a_scheme_that_nobody_accounts_for_is_refused():
    class Unknown(Once):
        kind = "unknown"

    with pytest.raises(ValueError, match="has no sampled accounting"):
        minsep.certify(minsep.Mechanism(STRATEGY, Unknown(2), 1.0), 1.0, 0.1)


def test_a_class_that_only_inherits_a_kind_is_refused():
    class Other(Once):
        law = property(lambda self: RenewalLaw.min_sep(1.0, 1, warm=True))

    with pytest.raises(ValueError, match="its class Other must name a `kind` of its own"):
        minsep.Mechanism(STRATEGY, Other(2), 1.0)


def test_a_kind_that_is_taken_is_refused():
    with pytest.raises(TypeError, match="EveryStep has the kind 'poisson', but so has Poisson"):

        class EveryStep(minsep.Poisson):
            kind = "poisson"
