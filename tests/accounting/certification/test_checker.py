"""The checker refuses whatever was changed, and needs none of the prover's choices."""

import copy
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import minsep
from minsep import paper
from minsep.accounting.certification import checker, prover
from minsep.accounting.certification.checker import CheckError, check
from minsep.engine import LOCAL

STRATEGY = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
IDENTITY = minsep.BandedToeplitz.identity(iterations=60)
MIN_SEP = minsep.MinSep(0.02, 10)
CONDITIONAL = minsep.MultiAttributionMinSep(0.01, 10, user_bound=2, accept_assumption=True)


def mechanism(scheme, sigma, strategy=STRATEGY, truncation=None):
    return minsep.Mechanism(strategy, scheme, sigma, truncation)


CASES = {
    "exact and exact": (mechanism(minsep.Poisson(0.02), 1.0, IDENTITY), 2.0, 1e-3),
    "gaussian": (mechanism(minsep.Unamplified(60, 1), 3.0), 2.0, 1e-2),
    "sampled and immediate": (mechanism(MIN_SEP, 0.85), 2.0, 1e-3),
    "bound and tangent": (mechanism(minsep.BallsInBins(20), 2.0), 1.5, 1e-2),
    "sampled and sampled": (mechanism(minsep.BallsInBins(20), 1.9), 0.8, 2e-2),
    "bound and immediate": (mechanism(MIN_SEP, 2.5), 2.0, 1e-3),
    "cut": (mechanism(MIN_SEP, 0.85, truncation=minsep.Truncation(50, 1000)), 2.0, 1e-3),
    "cut, by recursions": (mechanism(MIN_SEP, 1.05, truncation=minsep.Truncation(35, 1000)), 2.0, 5e-3),
    "the paper's verifier": (mechanism(minsep.BallsInBins(20), 1.7), 0.8, 6e-2),
    "sampled and moment": (mechanism(minsep.RandomAllocation(20), 1.0, IDENTITY), 1.5, 1e-3),
    "several users": (mechanism(CONDITIONAL, 1.8), 2.0, 1e-3),
}


@cache
def certificate_of(name):
    certify = paper.certify if name == "the paper's verifier" else minsep.certify
    return certify(*CASES[name], seed=1)


def kinds(name):
    return [proof.kind for proof in certificate_of(name).proofs]


def test_the_cases_have_every_kind_of_proof():
    found = {kind for name in CASES for kind in kinds(name)}
    assert found == {"exact", "immediate", "tangent", "moment", "bound", "sampled"}
    laws = {proof.law["kind"] for name in CASES for proof in certificate_of(name).proofs if proof.kind == "sampled"}
    assert laws == {"plain", "tilted", "shifted", "allocated"}


@pytest.mark.parametrize("name", CASES)
def test_certificates_hold_and_are_reproduced(name):
    certificate = certificate_of(name)
    assert certificate.passed, certificate.statement
    again = minsep.Certificate.from_json(certificate.to_json())
    assert again == certificate
    result = minsep.verify(again)
    assert result.holds, result.reason
    assert result.reason == certificate.statement
    assert bool(result.caveats) == (certificate.samples > 0)
    reproduced = minsep.verify(again, reproduce=True)
    assert reproduced.holds, reproduced.reason
    assert len(reproduced.caveats) < 2


def numbers(data, path=()):
    """Yield the place of every number, and of what may be a number, in plain data."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from numbers(value, (*path, key))
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from numbers(value, (*path, place))
    elif data is None or (isinstance(data, float | int) and not isinstance(data, bool)):
        yield path


def changed(value):
    if value is None:
        return 1
    if isinstance(value, int):
        return value + 1
    return 1.01 * value if value else 1e-3


def with_change(content, path):
    content = copy.deepcopy(content)
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = changed(place[path[-1]])
    return content


def refused(content):
    try:
        certificate = minsep.Certificate.from_json(json.dumps(content))
    except ValueError:
        return True
    return not minsep.verify(certificate).holds


INFORMATION = {("seed",), ("max_samples",), ("memory",)}
"""What the prover was given: `reproduce` compares it, and nothing of a proof rests on it."""
COVERED = ("reserve", "values")
"""A few values more or less: the reserve for rounding has two digits, rounded up, and is enough for them as well."""


@pytest.mark.parametrize("name", CASES)
def test_every_number_of_every_proof_is_refused_if_it_is_changed(name):
    content = json.loads(certificate_of(name).to_json())
    paths = [("proofs", *path) for path in numbers(content["proofs"])]
    assert len(paths) >= 4
    assert [path for path in paths if not refused(with_change(content, path))] == []


@pytest.mark.parametrize("name", ["sampled and immediate", "sampled and sampled", "the paper's verifier"])
def test_every_number_beside_the_proofs_is_refused_or_information(name):
    content = json.loads(certificate_of(name).to_json())
    top = {key: value for key, value in content.items() if key not in ("proofs", "mechanism", "versions")}
    accepted = {path for path in numbers(top) if not refused(with_change(content, path))}
    assert accepted == INFORMATION | {COVERED}
    assert refused({**content, "reserve": content["reserve"] | {"values": 2 * content["reserve"]["values"]}})
    assert refused({**content, "reserve": content["reserve"] | {"values": 0}})
    assert minsep.verify(minsep.Certificate.from_json(json.dumps(with_change(content, ("seed",))))).holds
    for path in INFORMATION - {("memory",)}:  # another limit of memory may lead to the same search
        other = minsep.Certificate.from_json(json.dumps(with_change(content, path)))
        assert not minsep.verify(other, reproduce=True).holds


def test_a_moment_bounds_add_of_random_allocation_alone():
    certificate = certificate_of("sampled and moment")
    remove, add = certificate.proofs
    for forged in (
        replace(certificate, proofs=(replace(add, claim=remove.claim), add)),
        replace(certificate, description=mechanism(minsep.BallsInBins(20), 1.0, IDENTITY).describe()),
        replace(certificate, proofs=(remove, replace(add, order=1e4))),
        replace(certificate, proofs=(remove, replace(add, order=-1.0))),
        replace(certificate, proofs=(remove, replace(add, noise_multiplier=2.0))),
    ):
        assert not minsep.verify(forged).holds


def test_a_proof_of_another_mechanism_budget_or_test_is_refused():
    certificate = certificate_of("sampled and sampled")
    mech = CASES["sampled and sampled"][0]
    others = [
        minsep.certify(mech.with_noise_multiplier(2.0), 0.8, 2e-2, seed=1),  # more noise than the mechanism
        minsep.certify(mech, 0.85, 2e-2, seed=1),
        minsep.certify(mech, 0.8, 2e-2, seed=1, attempts=2),
        minsep.certify(mechanism(minsep.BallsInBins(30), 1.9), 0.8, 2e-2, seed=1),
    ]
    for other in others:
        assert other.passed
        for proofs in ((certificate.proofs[0], other.proofs[1]), (other.proofs[0], certificate.proofs[1])):
            assert not minsep.verify(replace(certificate, proofs=proofs)).holds
    swapped = replace(certificate, proofs=certificate.proofs[::-1])
    assert "the proof of remove is of add" in minsep.verify(swapped).reason


def test_a_proof_with_less_noise_covers_more():
    quiet = minsep.certify(CASES["sampled and sampled"][0], 0.8, 2e-2, seed=1)
    louder = replace(quiet, description={**quiet.description, "noise_multiplier": 2.0})
    assert minsep.verify(louder).holds


def test_only_what_is_computed_anew_counts():
    """Numbers within the tolerance of the records are compared with them, and then not used."""
    certificate = certificate_of("bound and immediate")
    remove, add = certificate.proofs
    near = replace(remove, claim=replace(remove.claim, level=remove.claim.level * (1 + 5e-7)))
    assert minsep.verify(replace(certificate, proofs=(near, add))).holds  # rounding of another machine
    barely = minsep.certify(mechanism(MIN_SEP, 0.95), 2.0, 1e-3, seed=1)
    bound, level = barely.proofs[0].bound, barely.proofs[0].claim.level
    if bound > level:  # a record that claims so does not make it so
        forged = replace(barely.proofs[0], claim=replace(barely.proofs[0].claim, level=bound))
        assert not minsep.verify(replace(barely, proofs=(forged, barely.proofs[1]))).holds


def test_what_verify_says_is_in_the_words_of_this_version():
    certificate = certificate_of("several users")
    (assumption,) = certificate.assumptions
    silent = replace(certificate, assumptions=(replace(assumption, sentence="Nothing is assumed."),))
    assert minsep.verify(silent).reason == certificate.statement
    content = json.loads(certificate.to_json())
    with pytest.raises(ValueError, match="statement does not follow"):
        minsep.Certificate.from_json(json.dumps(content | {"statement": "Certified (0.01, 1e-12)-DP."}))
    later = content | {"statement": "In other words.", "versions": {"minsep": "99.0"}}
    assert minsep.verify(minsep.Certificate.from_json(json.dumps(later))).reason == certificate.statement


def test_a_mechanism_must_be_in_canonical_form():
    certificate = certificate_of("bound and immediate")
    for change in ({"extra": 1}, {"kind": "mechanics"}):
        forged = replace(certificate, description={**certificate.description, **change})
        assert "canonical form" in minsep.verify(forged).reason


def test_a_separation_beyond_the_run_holds_with_the_papers_verifier():
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=3)
    mech = minsep.Mechanism(strategy, minsep.MinSep(0.02, 30), 4.0)
    certificate = paper.certify(mech, 0.3, 0.01, seed=1)
    assert certificate.passed
    assert minsep.verify(certificate).holds


@pytest.mark.parametrize(
    "law",
    [{"kind": "tilted", "copies": 3000, "tilt": 1.0}, {"kind": "tilted", "copies": 12, "tilt": 1.0}, {"kind": "magic"}],
)
def test_laws_that_nobody_could_afford_are_refused_before_their_tables_are_made(law):
    strategy = minsep.BandedToeplitz.optimal(iterations=2000, bands=4)
    certificate = minsep.certify(minsep.Mechanism(strategy, minsep.MinSep(0.001, 100), 3.0), 2.0, 1e-3, seed=1)
    remove, add = certificate.proofs
    forged = replace(certificate, proofs=(replace(remove, law=law), add))
    assert "this mechanism has no such law" in minsep.verify(forged).reason


def test_more_samples_than_the_test_took_are_not_drawn():
    certificate = certificate_of("sampled and immediate")
    remove, add = certificate.proofs
    endless = replace(remove, outcome=replace(remove.outcome, samples=10**15))
    assert "the test ended after" in minsep.verify(replace(certificate, proofs=(endless, add))).reason


def test_the_version_that_made_it_is_information_and_the_assumptions_are_not():
    certificate = certificate_of("several users")
    assert minsep.verify(replace(certificate, versions={"minsep": "9.9.9"}, date="2030-01-01")).holds
    (assumption,) = certificate.assumptions
    reworded = replace(certificate, assumptions=(replace(assumption, sentence="In better words."),))
    assert minsep.verify(reworded).holds
    for assumptions in ((), (replace(assumption, name="another"),), (assumption, assumption)):
        assert "the assumptions are" in minsep.verify(replace(certificate, assumptions=assumptions)).reason


def test_the_checker_needs_nothing_of_the_prover(monkeypatch):
    """No search, no patience, no estimate: without them it comes to the same result."""
    certificate = certificate_of("sampled and sampled")
    for name in ("best_law", "best_tangent", "shifted_laws", "_patience", "_is_slow", "best_reduction"):
        monkeypatch.delattr(prover, name)
    check(certificate, LOCAL)
    source = Path(checker.__file__).read_text()
    assert "prover" not in source.split('"""', 2)[2]
    assert len(source.splitlines()) <= 195


def test_what_a_broken_checker_would_miss_is_caught(monkeypatch):
    """The checker draws the recorded samples: with values that speak against it, the same record is refused."""
    certificate = certificate_of("sampled and immediate")
    real = checker.draw_values
    monkeypatch.setattr(checker, "draw_values", lambda *arguments: (2 * values for values in real(*arguments)))
    with pytest.raises(CheckError, match="log_wealth is"):
        check(certificate, LOCAL)
