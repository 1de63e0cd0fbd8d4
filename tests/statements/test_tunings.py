"""Tunings in statements: by the ledger in which they are booked."""

import pytest

import minsep

MECHANISM = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=50), minsep.Poisson(rate=0.05), 3.0)


@pytest.fixture(scope="module")
def whole():
    return minsep.TuningCertificate.of([minsep.certify(MECHANISM, 3.0, 1e-4)], trials=10)


def test_a_booked_tuning_is_stated(whole, tmp_path):
    book = minsep.Ledger.create(tmp_path / "budget.json", dataset="digits", epsilon=3.0, delta=1e-4)
    book.add(whole, name="ten rates")
    text = minsep.ledger_statement(book.path).to_markdown()
    assert "ten rates" in text
    assert f"({whole.epsilon:g}, {whole.delta:g})" in text
    assert "tuning" in text
    assert "only the best run was released, and the number of runs is secret." in text


def test_a_tuning_alone_says_what_to_state(whole, tmp_path):
    whole.save(tmp_path / "tuning.json")
    with pytest.raises(ValueError, match="it is of a tuning: book it in a ledger"):
        minsep.statement(tmp_path / "tuning.json")


def test_the_best_run_of_a_tuning_is_booked_by_its_tuning(whole, tmp_path):
    book = minsep.Ledger.create(tmp_path / "budget.json", dataset="digits", epsilon=3.0, delta=1e-4)
    book.add(whole, name="ten rates")
    (certificate,) = whole.certificates
    text = minsep.statement(certificate, ledger=book, estimate=False).to_markdown()
    assert "entry 1, ten rates (tuning), added on" in text
