"""A journal that was changed is refused in a sentence, or its call ends as if it had not been."""

import json
import tempfile
from pathlib import Path

import minsep
from minsep.journal.lines import FIRST, sealed, unsealed
from tests.fuzz.mutations import Originals, changed_data, damaged_bytes, fuzz, refused_in_a_sentence
from tests.fuzz.test_certificates import is_proven_anew

MECHANISM = minsep.Mechanism(
    minsep.BandedToeplitz.optimal(iterations=20, bands=3), minsep.BallsInBins(10), noise_multiplier=1.9
)
BUDGET = {"epsilon": 0.8, "delta": 2e-2, "seed": 1}


def certify(journal):
    return minsep.certify(MECHANISM, **BUDGET, journal=journal)


def journal_of():
    with tempfile.TemporaryDirectory() as folder:
        certificate = certify(Path(folder, "journal"))
        return certificate, Path(folder, "journal").read_bytes()


CERTIFICATE, FILE = journal_of()
LINES = FILE.splitlines(keepends=True)


def entries_of(lines):
    seal, entries = FIRST, []
    for line in lines:
        entry, seal = unsealed(line, seal)
        entries.append(entry)
    return entries


ENTRIES = Originals([entries_of(LINES), entries_of(LINES[:-1]), entries_of(LINES[:2])])


def outcome(content):
    """Return the certificate of a call that goes on from a journal, or None if that is refused as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        path.write_bytes(content)
        certificate = None
        with refused_in_a_sentence((ValueError, OSError)):
            certificate = certify(path)
        if certificate is None:
            # Nothing but a torn last line may be taken off what was there.
            assert content.startswith(path.read_bytes())
        assert list(Path(folder).iterdir()) == [path]
        return certificate


def test_a_whole_journal_gives_the_certificate():
    assert CERTIFICATE.passed
    assert outcome(FILE) == CERTIFICATE
    assert outcome(b"") == CERTIFICATE


@fuzz(damaged_bytes(Originals([FILE, b"".join(LINES[:2])])), quick=60, slow=800)
def test_damaged_journals_are_refused_or_go_on_to_the_same_certificate(case):
    certificate = outcome(case.content)
    assert certificate is None or certificate == CERTIFICATE


@fuzz(changed_data(ENTRIES), quick=60, slow=800)
def test_forged_journals_are_refused_or_their_certificate_is_checked_like_any_other(case):
    content, seal = b"", FIRST
    for entry in case.content if isinstance(case.content, list) else [case.content]:
        try:
            line, seal = sealed(json.loads(json.dumps(entry)), seal)
        except (AttributeError, TypeError, ValueError, RecursionError):  # what no journal could hold
            return
        content += line
    certificate = outcome(content)
    if certificate is not None and certificate != CERTIFICATE and minsep.verify(certificate).holds:
        assert is_proven_anew(certificate)
