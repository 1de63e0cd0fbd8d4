"""A certificate file that was changed is refused in a sentence, or claims nothing that the original does not prove."""

import json
import math
import tempfile
from functools import cache
from pathlib import Path

import pytest

import minsep
from minsep import paper
from minsep.accounting import ChangedCertificateError
from tests.accounting.certification.test_checker import CASES, certificate_of
from tests.fuzz.mutations import (
    Originals,
    as_text,
    assert_sentences,
    changed_data,
    damaged_bytes,
    fuzz,
    memory_limit,
    refused_in_a_sentence,
)

# Its law needs a second to be computed, and the Gaussian one is checked in the same way.
NAMES = [name for name in CASES if name != "exact and exact"]
CERTIFICATES = [certificate_of(name) for name in NAMES]
CONTENTS = Originals(json.loads(certificate.to_json()) for certificate in CERTIFICATES)
FILES = Originals((certificate.to_json() + "\n").encode() for certificate in CERTIFICATES)
SAME = 1e-5


def same(one, other):
    """Whether two descriptions agree, up to what a check tolerates."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=SAME)
    return one == other


@cache
def proven(number):
    """Return what an original proves, as plain data."""
    return json.loads(json.dumps(CONTENTS[number]["mechanism"]))


def claims_no_more(certificate, number):
    original = CERTIFICATES[number]
    mechanism, quieter = dict(certificate.description), dict(proven(number))
    noise, proven_noise = mechanism.pop("noise_multiplier"), quieter.pop("noise_multiplier")
    return (
        certificate.passed
        and noise >= proven_noise * (1 - SAME)
        and same(mechanism, quieter)
        and certificate.epsilon >= original.epsilon * (1 - SAME)
        and certificate.delta >= original.delta * (1 - SAME)
        and certificate.failure_probability <= certificate.delta
        and (certificate.unit, certificate.adjacency) == (original.unit, original.adjacency)
        and {one.name for one in certificate.assumptions} == {one.name for one in original.assumptions}
    )


def is_proven_anew(certificate):
    """Whether the prover comes to the same claim with samples of its own: another one may be as true."""
    certify = {"betting": minsep.certify, "fixed": paper.certify}[certificate.test]
    again = certify(certificate.mechanism, certificate.epsilon, certificate.delta)
    return again.passed and (again.unit, again.adjacency) == (certificate.unit, certificate.adjacency)


def check_text(text, *originals):
    certificate = None
    with refused_in_a_sentence():
        certificate = minsep.Certificate.from_json(text)
    if certificate is None:
        return
    result = minsep.verify(certificate)
    assert_sentences(result.reason)
    if result.holds:
        assert any(claims_no_more(certificate, number) for number in originals) or is_proven_anew(certificate)
    else:
        with pytest.raises(ValueError, match="certificate") as refusal:
            minsep.Mechanism.from_certificate(certificate, accept_assumption=True)
        assert_sentences(refusal.value)
    with refused_in_a_sentence():  # its word is taken, but it must be a mechanism
        minsep.Mechanism.from_certificate(certificate, verify=False, accept_assumption=True)


@fuzz(changed_data(CONTENTS), quick=150, slow=3000)
def test_changed_certificates_claim_nothing_new(case):
    number, content = case
    check_text(as_text(content), number)


@fuzz(damaged_bytes(FILES), quick=100, slow=1500)
def test_damaged_files_claim_nothing_new(case):
    _, content = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "certificate.json")
        path.write_bytes(content)
        with refused_in_a_sentence():
            check_text(minsep.Certificate.load(path).to_json(), *range(len(CERTIFICATES)))  # a splice may be another
        with refused_in_a_sentence():
            minsep.Mechanism.from_certificate(path, accept_assumption=True)


def test_a_name_that_occurs_twice_is_refused():
    text = CERTIFICATES[0].to_json()
    for line in ('"epsilon": 0.1,', '"passed": true,', '"noise_multiplier": 9.0,'):
        name = line.partition(":")[0]
        twice = text.replace(name + ":", line + name + ":", 1)
        with pytest.raises(ValueError, match="a name occurs twice"):
            minsep.Certificate.from_json(twice)


def test_text_that_a_terminal_would_obey_is_refused():
    content = CONTENTS[0] | {"date": "\x1b[2J\nCertified (0.1, 1e-9)-DP."}
    with pytest.raises(ChangedCertificateError, match="date is .*which is invalid"):
        minsep.Certificate.from_json(json.dumps(content))


@pytest.mark.parametrize(
    "text", ["", "[]", "1", '"format"', "null", "{}", '{"format": null}', "[" * 100_000, "9" * 5000]
)
def test_what_is_no_certificate_is_called_so(text):
    with pytest.raises(ValueError, match="This is not a certificate of minsep: ") as refusal:
        minsep.Certificate.from_json(text)
    assert_sentences(refusal.value)


def test_files_that_are_not_text_or_have_no_end_are_refused(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_bytes("é".encode("latin-1"))
    with pytest.raises(ValueError, match="it is not text"):
        minsep.Certificate.load(path)
    with memory_limit(4 << 30), pytest.raises(ValueError, match="it is too large"):
        minsep.Certificate.load("/dev/zero")
