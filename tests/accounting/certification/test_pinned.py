"""Certificates as they were first written: every version that reads their format must find that they hold.

`python -m tests.accounting.certification.test_pinned` writes those that are missing, and changes none that is there.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

import minsep
from minsep.core.identity import Described

FOLDER = Path(__file__).with_name("pinned")

STRATEGY = minsep.BandedToeplitz.optimal(iterations=60, bands=4)
IDENTITY = minsep.BandedToeplitz.identity(iterations=60)
USERS = minsep.UserMinSep(0.01, 10, user_bound=2)
MECHANISMS = {
    "poisson": (minsep.Mechanism(IDENTITY, minsep.Poisson(0.02), 1.0), 2.0),
    "cyclic-poisson": (minsep.Mechanism(STRATEGY, minsep.CyclicPoisson(0.02, 10), 1.3), 2.0),
    "balls-in-bins": (minsep.Mechanism(STRATEGY, minsep.BallsInBins(30), 2.3), 0.8),
    "min-sep": (minsep.Mechanism(STRATEGY, minsep.MinSep(0.02, 10), 0.82), 2.0),
    "min-sep-truncated": (
        minsep.Mechanism(STRATEGY, minsep.MinSep(0.02, 10), 0.82, minsep.Truncation(60, 1000)),
        2.0,
    ),
    "random-allocation": (minsep.Mechanism(IDENTITY, minsep.RandomAllocation(20), 1.0), 1.5),
    "several-users": (minsep.Mechanism(STRATEGY, USERS, 0.9), 2.0),
}


FORMATS = (2, 3)


def path_of(name, written):
    """Return the file of a certificate. The first ones do not name their format."""
    return FOLDER / (f"{name}.json" if written == 2 else f"{name}-{written}.json")


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("written", FORMATS)
def test_a_certificate_of_an_earlier_version_holds(name, written):
    certificate = minsep.Certificate.load(path_of(name, written))
    mechanism, epsilon = MECHANISMS[name]
    found = certificate.mechanism
    assert Described.__eq__(replace(found, strategy=mechanism.strategy), mechanism)
    # They are from before strategies lay on a grid.
    assert_allclose(found.strategy.coefficients, mechanism.strategy.coefficients, atol=1e-6)
    assert (certificate.passed, certificate.epsilon, certificate.format) == (True, epsilon, written)
    assert certificate.reserve.values == (0 if written == 2 else 10**10)
    result = minsep.verify(certificate)
    assert result.holds, result.reason


def test_five_of_them_were_tested_by_samples():
    for written in FORMATS:
        certificates = [minsep.Certificate.load(path_of(name, written)) for name in MECHANISMS]
        assert sum(certificate.samples > 0 for certificate in certificates) == 5


def test_a_certificate_by_the_papers_verifier_holds():
    certificate = minsep.Certificate.load(FOLDER / "paper-verifier-3.json")
    assert certificate.test == "fixed"
    assert certificate.samples > 0
    result = minsep.verify(certificate, reproduce=True)
    assert result.holds, result.reason


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, (mechanism, epsilon) in MECHANISMS.items():
        path = path_of(name, FORMATS[-1])
        if not path.exists():
            minsep.certify(mechanism, epsilon, 1e-3, seed=20).save(path)
            print(path, minsep.Certificate.load(path).statement)
