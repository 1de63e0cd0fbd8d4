"""A record that is not exactly as it must be is refused in one sentence, and never in another way."""

import json
import re
import tempfile
from pathlib import Path

import pytest

import minsep
from minsep.reading import read_runs
from tests.fuzz.mutations import Originals, as_text, changed_data, damaged_bytes, fuzz, refused_in_a_sentence
from tests.reading.records import ALL, EVENT, HERE, JAX, JAX_TRUNCATED, OPACUS

CONTENTS = Originals(ALL.values())
FILES = Originals(json.dumps(content).encode() for content in ALL.values())


def check(raw):
    """A file is read, or refused in one sentence that names it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "record.json")
        path.write_bytes(raw)
        with refused_in_a_sentence():
            try:
                assert read_runs(path)
            except ValueError as error:
                one_line = "record.json" in str(error) and len(str(error).splitlines()) == 1
                raise error if one_line else AssertionError(str(error)) from error


@fuzz(changed_data(CONTENTS), quick=200, slow=5000)
def test_a_changed_record_is_read_as_it_says_or_refused(case):
    _, content = case
    check(as_text(content).encode())


@fuzz(damaged_bytes(FILES), quick=200, slow=5000)
def test_a_damaged_file_is_read_as_it_says_or_refused(case):
    _, raw = case
    check(raw)


WRONG = {
    "no history": (OPACUS | {"history": []}, "history is [], but it must be a list"),
    "another accountant": (OPACUS | {"mechanism": "dpd"}, "mechanism is 'dpd', but it must be one of 'prv', 'rdp'"),
    "no noise": (
        OPACUS | {"history": [[1.0, 0.1, 5], [0, 0.1, 5]]},
        "in entry 2 of the history noise_multiplier is 0, but it must be a finite number above 0",
    ),
    "half an entry": (OPACUS | {"history": [[1.0, 0.1]]}, "entry 1 of the history is [1.0, 0.1], but it must be"),
    "a field more": (OPACUS | {"epoch": 1}, "it has the fields ['epoch', 'history', 'mechanism'], but"),
    "not calibrated": (JAX | {"noise_multiplier": None}, "call the configuration's calibrate"),
    "rescaled columns": (JAX | {"column_normalize": True}, "column_normalize is True, but it must be false"),
    "an earlier version": (JAX | {"sampling_prob": 0.1}, "unexpected fields ('sampling_prob')"),
    "too often": (JAX | {"expected_participations": 11}, "expected_participations is 11, but it must be"),
    "negative coefficients": (JAX | {"strategy": [1.0, -0.5]}, "every coefficient must be at least 0"),
    "groups of two sizes": (JAX_TRUNCATED | {"num_examples": 402}, "must be a multiple of them, such as 400"),
    "an unknown size": (JAX_TRUNCATED | {"num_examples": None}, "truncated batches need the number of examples"),
    "an unknown event": (EVENT | {"class_name": "GausianDpEvent"}, "did you mean 'GaussianDpEvent'?"),
    "an unknown field": (
        {"class_name": "GaussianDpEvent", "sigma": 1.0},
        "missing or unexpected fields ('noise_multiplier, sigma'), but it must have noise_multiplier.",
    ),
    "half a tuple": ([HERE, "GaussianDpEvent"], "GaussianDpEvent has 0 values, but it must have 1: noise_multiplier"),
    "another module": (
        {"class_name": "NoOpDpEvent", "module_name": "os"},
        "module_name is 'os', but it must be 'dp_accounting.dp_event'.",
    ),
    "no event": (EVENT | {"event": 1}, "1 stands where an event belongs"),
    "weights": ([HERE, "MixtureOfGaussiansDpEvent", 1.0, [0, 1], [0.5, 0.6]], "must add up to 1"),
    "something else": ({"epsilon": 4.0}, "it holds an object with the fields ['epsilon']. Valid are"),
    "nothing": ([], "it holds a list of 0 items. Valid are"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_refusal_names_what_was_found_and_what_would_be_valid(name, tmp_path):
    content, sentence = WRONG[name]
    path = tmp_path / "record.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(sentence)) as refusal:
        read_runs(path)
    assert str(refusal.value).startswith(f"{path} ")


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"PK\x03\x04 and so on", "which can run code and is not read: write json.dumps(privacy_engine.accountant"),
        (b"\x80\x04 and so on", "is a pickle or a checkpoint of PyTorch"),
        (b"\xff\xfe", "it is not text"),
        (b"{", "it is not JSON (Expecting property name"),
        (b'{"history": [], "history": []}', "a name occurs twice in one object"),
        (b'{"history": [[NaN, 0.1, 1]], "mechanism": "rdp"}', "NaN is not a number of JSON"),
        (b" " * (2**24 + 1), "is larger than 16 MiB"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_files_that_are_no_json_are_refused(raw, sentence, tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_runs(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_runs(tmp_path / "none.json")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        read_runs(tmp_path)


def test_a_certificate_of_minsep_is_no_record(tmp_path):
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=5), minsep.Poisson(rate=0.1), 2.0)
    minsep.certify(mechanism, epsilon=4.0, delta=1e-2).save(tmp_path / "certificate.json")
    with pytest.raises(ValueError, match="describes no run that minsep can read"):
        read_runs(tmp_path / "certificate.json")
