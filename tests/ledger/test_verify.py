"""Ledgers whose lines have right hashes, but which `add` would not have written: each is refused in one sentence."""

import json

import pytest

import minsep
from minsep.accounting import plain_event
from minsep.ledger.chain import linked
from tests.ledger.small import EVENT, certificate, create, sampled


def plain(item):
    return json.loads(item.to_json()) if isinstance(item, minsep.Certificate) else item.describe()


def forge(book, *items, charge=None):
    """Write a line to a ledger as nobody would who uses `add`."""
    content = {"name": "forged", "date": "2026-01-01", "booking": None, "charge": charge, "items": list(items)}
    with open(book.path, "ab") as file:
        file.write(linked(content, len(book.entries) + 1, book.head)[0] + b"\n")
    return minsep.Ledger.open(book.path)


def changed(**fields):
    return {"certificate": json.loads(certificate().to_json()) | fields}


def quieter():
    content = plain(certificate())
    content["mechanism"]["noise_multiplier"] *= 2
    return {"certificate": content}


def truncated(num_examples):
    scheme, truncation = minsep.Poisson(rate=0.01), minsep.Truncation(30, num_examples)
    return minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=20), scheme, 20.0, truncation)


def test_a_ledger_that_add_wrote_holds(tmp_path):
    book = create(tmp_path, num_examples=1000)
    assert book.verify().entries == ()
    book.add(certificate(), name="first model")
    book.add([EVENT, truncated(1000)])
    balance = book.verify()
    assert (balance.entries, balance.head, balance.total) == (book.entries, book.head, book.total)
    assert balance.costs[0] == (2.5, 1e-6)
    assert balance.costs[1] == pytest.approx((minsep.compose([EVENT, truncated(1000)], 1e-5).epsilon, 1e-5))
    assert balance.spent.epsilon == book.spent().epsilon


def test_an_adaptive_ledger_that_add_wrote_holds(tmp_path):
    book = create(tmp_path, adaptive=True, epsilon=8.0)
    book.add(certificate())
    book.add([certificate(), EVENT], delta=2e-6)
    book.add(EVENT, delta=1e-6)
    balance = book.verify()
    assert balance.costs == tuple((entry.charge.epsilon, entry.charge.delta) for entry in book.entries)


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (quieter(), "entry 2 does not hold: The certificate does not hold"),
        (changed(unit="user"), "cannot be read|does not hold"),
        (changed(adjacency="replace-one"), "entry 2 does not hold: The certificate is about the neighbours"),
        (changed(num_examples=999), "entry 2 does not hold: The certificate was made for 999 examples"),
        ({"mechanism": truncated(999).describe()}, "entry 2 does not hold: The mechanism was made for 999 examples"),
        ({"event": {"class_name": "GaussianDpEvent", "noise_multiplier": 0.5}}, "its entries exceed its total of"),
    ],
)
def test_an_entry_that_add_refuses_is_refused(tmp_path, content, refusal):
    book = create(tmp_path, num_examples=1000)
    book.add(certificate())
    book = forge(book, content)
    with pytest.raises(ValueError, match=refusal) as error:
        book.verify()
    assert "\n" not in str(error.value)


def test_certificates_are_verified_unless_one_says_not_to(tmp_path):
    book = forge(create(tmp_path), quieter())
    book.verify(certificates=False)
    with pytest.raises(ValueError, match="entry 1 does not hold"):
        book.verify()


@pytest.mark.parametrize(
    ("adaptive", "charge", "refusal"),
    [
        (True, None, r"entry 1 is invalid \(it has no charge\)"),
        (False, {"epsilon": 1.0, "delta": 1e-6}, "it has a charge, which only adaptive ledgers have"),
        (True, {"epsilon": 0.01, "delta": 1e-6}, r"entry 1 does not hold: It was charged \(0.01, 1e-06\)-DP"),
        (True, {"epsilon": 5.0, "delta": 1e-6}, "its entries exceed its total of .* epsilon 5 and delta 1e-06"),
    ],
)
def test_a_charge_that_add_would_not_write_is_refused(tmp_path, adaptive, charge, refusal):
    with pytest.raises(ValueError, match=refusal):
        forge(create(tmp_path, adaptive=adaptive), {"event": plain_event(EVENT)}, charge=charge).verify()


@pytest.mark.parametrize("adaptive", [False, True])
def test_what_does_not_compose_is_never_added(tmp_path, adaptive):
    book = create(tmp_path, epsilon=20.0, delta=0.1, adaptive=adaptive)
    book.add(sampled(1), verify=False)
    book.add(certificate(num_examples=1000))
    other = json.loads(sampled(1).to_json()) | {"date": "2020-01-01"}
    with pytest.raises(ValueError, match="samples of the same seed"):
        book.add(minsep.Certificate.from_json(json.dumps(other)), verify=False)
    tuning = minsep.TuningCertificate.of([certificate(num_examples=999)])
    for item in (certificate(num_examples=999), truncated(999), tuning):
        delta = 1e-3 if adaptive else None
        with pytest.raises(ValueError, match="would be for 1,000 and 999 examples, but all must be about one dataset"):
            book.add(item, delta=delta)
    assert len(book.entries) == 2
    book.verify(certificates=False)
