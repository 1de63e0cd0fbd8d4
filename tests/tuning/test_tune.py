"""The best of a random number of private runs, and what all of it costs."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

import minsep
from minsep.accounting import Curve, NegativeBinomial, mean_curve, trials_of
from minsep.accounting.exact import GaussianCurve
from minsep.ledger import OverBudgetError
from minsep.tuning import Configuration, tune
from minsep.tuning.procedure import _best_of

IDENTITY = minsep.BandedToeplitz.identity(iterations=50)


def certified(sigma, epsilon=3.0, delta=1e-4, **more):
    mechanism = minsep.Mechanism(IDENTITY, minsep.Poisson(rate=0.05), sigma)
    return minsep.certify(mechanism, epsilon, delta, **more)


QUIET, LOUD = certified(3.0), certified(1.5)


def test_the_best_of_many_trials_is_kept():
    tried = []

    def train(configuration):
        tried.append(configuration.settings)
        return configuration.settings

    listed = [Configuration(rate, QUIET) for rate in (0.1, 0.2, 0.4)]
    # With a mean of 300 and eta = 100, less than 100 trials have a chance far below 1e-9.
    found = tune(train, listed, score=lambda rate: -abs(rate - 0.2), trials=NegativeBinomial(300.0, 100.0))
    assert (found.settings, found.result) == (0.2, 0.2)
    assert set(tried) == {0.1, 0.2, 0.4}
    assert len(tried) > 100


def test_the_number_of_trials_has_its_distribution():
    counts = []
    for _ in range(400):
        tried = []
        _best_of(tried.append, [Configuration(None, QUIET)], lambda result: 0.0, trials_of(3))
        counts.append(len(tried))
    # Hoeffding's inequality at three places: a false alarm of less than 1e-6 in all.
    room = math.sqrt(math.log(2 * 3 / 1e-6) / (2 * len(counts)))
    for count in (1, 2, 4):
        assert abs(np.mean([each <= count for each in counts]) - trials_of(3).at_most(count)) <= room


def test_configurations_are_drawn_by_their_weights():
    tried = []
    listed = [Configuration("often", QUIET, 3.0), Configuration("seldom", QUIET, 1.0)]
    tune(
        lambda one: tried.append(one.settings), listed, score=lambda result: 0.0, trials=NegativeBinomial(2000.0, 100.0)
    )
    share = np.mean([each == "often" for each in tried])
    assert abs(share - 0.75) <= math.sqrt(math.log(2 / 1e-6) / (2 * len(tried)))


def test_all_of_it_costs_what_the_theorem_says():
    def priced(*certificates):
        listed = [Configuration(place, each) for place, each in enumerate(certificates)]
        return tune(lambda one: 0.0, listed, score=float, trials=10, delta=1e-4).certificate

    whole = priced(QUIET, QUIET)
    assert whole.epsilon == pytest.approx(QUIET.curve.tuned(10).epsilon(1e-4), rel=2e-4)
    assert len(whole.certificates) == 1
    assert whole.weights == (2.0,)
    assert QUIET.curve.tuned(10).epsilon(1e-4) < priced(QUIET, LOUD).epsilon < LOUD.curve.tuned(10).epsilon(1e-4)
    assert "The best of about 10 runs (geometric) is (" in whole.statement


def test_the_curve_of_a_random_configuration_is_the_mean():
    curves = [(Curve(GaussianCurve(0.5)), 1.0), (Curve(GaussianCurve(1.0)), 3.0)]
    mean = mean_curve(curves)
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        truth = sum(weight * curve.delta(epsilon) for curve, weight in curves) / 4
        assert truth * (1 - 1e-9) <= mean.delta(epsilon) <= truth * 1.001 + 1e-12


def test_trials_that_fail_have_the_worst_score_and_say_nothing(capsys):
    def train(configuration):
        if configuration.settings == "bad":
            raise RuntimeError("diverged")
        return configuration.settings

    listed = [Configuration("bad", QUIET), Configuration("good", QUIET)]
    found = tune(train, listed, score=lambda result: math.nan if result is None else 1.0, trials=200)
    assert found.settings in ("good", None)
    assert tune(train, listed[:1], score=lambda result: 1.0, trials=5).settings is None
    assert tune(lambda one: 0, listed, score=lambda result: math.nan, trials=5).settings is None
    assert capsys.readouterr() == ("", "")


def test_one_learning_rate_is_chosen_with_what_it_costs():
    """A whole tuning of a tiny regression, each trial a run of its own."""
    generator = np.random.default_rng(3)
    inputs = generator.standard_normal((400, 3))
    targets = inputs @ np.array([1.0, -2.0, 0.5])
    mechanism = QUIET.mechanism

    def train(configuration):
        weights = np.zeros(3)
        for indices, row in zip(mechanism.batches(400), mechanism.noise(3), strict=True):
            gradients = (inputs[indices] @ weights - targets[indices])[:, None] * inputs[indices]
            norms = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1.0) * 1.001
            noisy = minsep.release((gradients / norms).sum(axis=0), row, 1.0)
            weights = weights - configuration.settings * noisy / 20
        return weights

    public = generator.standard_normal((200, 3))
    truth = public @ np.array([1.0, -2.0, 0.5])
    listed = [Configuration(rate, QUIET) for rate in (1e-6, 0.3)]
    found = tune(train, listed, score=lambda weights: -float(((public @ weights - truth) ** 2).mean()), trials=40)
    assert found.settings in (1e-6, 0.3)
    assert found.certificate.epsilon < 3 * QUIET.curve.epsilon(1e-4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], lambda result: 0.0), "configurations is not a list"),
        (([0.1], lambda result: 0.0), "configurations is not a list"),
        (([Configuration(1, QUIET)], 3), "score is 3, but it must be a function"),
        (([Configuration(1, QUIET)], lambda result: "good"), "score returned a str, but it must return one number"),
        (([Configuration(1, QUIET), Configuration(2, certified(3.0, num_examples=10)),
           Configuration(3, certified(3.0, num_examples=20))], lambda result: 0.0), "runs compose on the same data"),
        (([Configuration(1, certified(0.5, epsilon=0.5))], lambda result: 0.0), "did not pass"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::minsep.core.budget.LargeDeltaWarning")
def test_tunings_that_make_no_sense_are_one_sentence(arguments, sentence):
    listed, score = arguments
    with pytest.raises(ValueError, match=sentence):
        tune(lambda one: 0, listed, score=score, trials=3)


def test_a_tuning_books_itself_before_its_first_run(tmp_path):
    book = minsep.Ledger.create(tmp_path / "budget.json", dataset="digits", epsilon=0.8, delta=1e-4)
    seen = []
    listed = [Configuration(1, QUIET), Configuration(2, QUIET)]

    def train(configuration):
        seen.append(len(book.entries))
        return 0.0

    found = tune(train, listed, score=float, trials=5, ledger=book, name="ten rates")
    assert set(seen) == {1}
    (entry,) = book.entries
    assert (entry.kind, entry.name, entry.items) == ("tuning", "ten rates", (found.certificate,))
    assert book.spent().epsilon <= found.certificate.epsilon
    assert book.left_like(found.certificate) == 0
    with pytest.raises(OverBudgetError, match="has a total of"):
        tune(lambda one: pytest.fail("it must not start"), listed, score=float, trials=100, ledger=book.path)
    assert len(book.entries) == 1


def test_an_adaptive_ledger_charges_a_tuning_what_it_certifies(tmp_path):
    book = minsep.Ledger.create(tmp_path / "budget.json", dataset="digits", epsilon=8.0, delta=1e-3, adaptive=True)
    whole = minsep.TuningCertificate.of([QUIET], trials=5)
    entry = book.add(whole)
    assert entry.charge == whole.budget


def test_configurations_need_certificates():
    with pytest.raises(ValueError, match="certificate is GaussianDpEvent"):
        Configuration(1, GaussianDpEvent(1.0))
