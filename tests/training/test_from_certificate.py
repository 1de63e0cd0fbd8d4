"""From a certificate to a run: what is certified is what is run, and nothing else is run silently."""

import json
import subprocess
import sys

import numpy as np
import pytest

import minsep
from minsep.accounting import Accepted, accept_certificate
from minsep.core.budget import LargeDeltaWarning
from minsep.training.snippet import training_lines
from tests.cli import command_line
from tests.training.adapters import ADAPTERS

EXAMPLES, ITERATIONS = 40, 8


def certified(scheme, truncation=None, noise_multiplier=20.0):
    """Certify far more noise than is needed, which takes few samples."""
    identity = minsep.BandedToeplitz.identity(iterations=ITERATIONS)
    mechanism = minsep.Mechanism(identity, scheme, noise_multiplier, truncation)
    return minsep.certify(mechanism, epsilon=4.0, delta=1e-2, seed=0)


@pytest.fixture(scope="module")
def certificate():
    return certified(minsep.Poisson(rate=0.25), noise_multiplier=2.0)


@pytest.fixture(scope="module")
def of_users():
    return certified(minsep.UserMinSep(rate=0.25, min_sep=2, user_bound=2))


@pytest.fixture(scope="module")
def conditional():
    scheme = minsep.MultiAttributionMinSep(
        sampling_prob=0.1, min_sep=2, user_bound=2, graph=users_of(2), accept_assumption=True
    )
    return certified(scheme)


@pytest.fixture(scope="module")
def refused():
    identity = minsep.BandedToeplitz.identity(iterations=ITERATIONS)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.25), noise_multiplier=0.1)
    return minsep.certify(mechanism, epsilon=0.1, delta=1e-6)


def forged(certificate):
    content = json.loads(certificate.to_json())
    content["mechanism"]["noise_multiplier"] /= 10
    return minsep.Certificate.from_json(json.dumps(content))


def users_of(examples_each):
    return minsep.AttributionGraph.from_lists([[k // examples_each] for k in range(EXAMPLES)])


def training_from(adapter, certificate, **options):
    options = {"num_examples": EXAMPLES, "clip_norm": 1.0, "seed": 3} | options
    return adapter.training.from_certificate(certificate, *adapter.arguments(4, "sgd"), **options)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_run_that_releases_more_than_the_reserve_covers_is_refused(adapter, certificate):
    identity = minsep.BandedToeplitz.identity(iterations=ITERATIONS)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.25), 2.0)
    small = minsep.certify(mechanism, epsilon=4.0, delta=1e-2, model_size=2)
    assert small.reserve.values == 2 * ITERATIONS
    assert small.reserve.epsilon < certificate.reserve.epsilon
    with pytest.raises(ValueError, match=r"releases 16 values, but this one releases .* certify it with model_size="):
        training_from(adapter, small)
    before = json.loads(certificate.to_json()) | {"format": 2}
    del before["reserve"]
    before["level"] = before["delta"]
    old = minsep.Certificate.from_json(json.dumps(before))
    assert "It includes nothing for rounding" in old.statement
    with pytest.raises(ValueError, match="a run that releases 0 values"):
        training_from(adapter, old, verify=False)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_run_from_a_file_is_that_of_its_mechanism(adapter, certificate, tmp_path):
    certificate.save(tmp_path / "certificate.json")
    mechanism = certificate.mechanism
    inputs = np.random.default_rng(0).standard_normal((EXAMPLES, 4)).astype(np.float32)
    targets = np.ones((EXAMPLES, 1), dtype=np.float32)
    found = []
    for trainer in (
        training_from(adapter, str(tmp_path / "certificate.json")),
        adapter.training(
            *adapter.arguments(4, "sgd"), mechanism, num_examples=EXAMPLES, clip_norm=1.0, seed=3,
            certificate=certificate,
        ),
    ):  # fmt: skip
        assert trainer.mechanism == mechanism
        assert trainer.certificate == certificate
        for indices in trainer.batches():
            trainer.step(adapter.array(inputs[indices]), adapter.array(targets[indices]))
        assert trainer.steps == ITERATIONS
        found.append(adapter.parameters(trainer))
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_what_does_not_hold_is_not_run(adapter, certificate, refused, conditional):
    with pytest.raises(ValueError, match=r"certificate did not pass\. Not certified"):
        training_from(adapter, refused)
    with pytest.raises(ValueError, match="certificate does not hold"):
        training_from(adapter, forged(certificate))
    with pytest.raises(ValueError, match="certificate is conditional, but accept_assumption is False"):
        training_from(adapter, conditional, graph=users_of(2))
    trainer = training_from(adapter, conditional, graph=users_of(2), accept_assumption=True)
    assert trainer.certificate.conditional
    assert training_from(adapter, forged(certificate), verify=False).steps == 0  # its word is taken


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_certificate_is_accepted_once_on_the_way_to_a_run(adapter, certificate, monkeypatch):
    verified = []

    def verify(given, **how):
        verified.append(given)
        return minsep.verify(given, **how)

    monkeypatch.setattr("minsep.accounting.certification.acceptance.check", verify)
    trainer = training_from(adapter, certificate)
    assert verified == [certificate]
    assert trainer.certificate is certificate
    assert trainer.mechanism is certificate.mechanism


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_an_acceptance_is_for_one_mechanism_and_may_be_verified_again(adapter, certificate, refused):
    def train(given, mechanism, **options):
        arguments = (*adapter.arguments(4, "sgd"), mechanism)
        return adapter.training(*arguments, num_examples=EXAMPLES, clip_norm=1.0, certificate=given, **options)

    accepted = accept_certificate(certificate)
    assert train(accepted, certificate.mechanism).certificate is certificate
    with pytest.raises(ValueError, match="certificate is for another mechanism"):
        train(accepted, certificate.mechanism.with_noise_multiplier(3.0))
    with pytest.raises(ValueError, match=r"certificate did not pass\. Not certified"):
        Accepted(refused)
    taken_at_its_word = accept_certificate(forged(certificate), verify=False)
    with pytest.raises(ValueError, match="certificate does not hold"):
        train(taken_at_its_word, taken_at_its_word.mechanism, verify=True)


@pytest.mark.parametrize("first", ["import minsep", "from minsep.mechanism import Mechanism; import minsep"])
def test_a_bare_import_reads_certificates_without_loading_accounting_first(certificate, first, tmp_path):
    certificate.save(tmp_path / "certificate.json")
    lines = f"""import sys
{first}
mechanism = minsep.Mechanism
assert "minsep.accounting" not in sys.modules
print(mechanism.from_certificate("certificate.json", verify=False).noise_multiplier)
"""
    found = run(lines, tmp_path)
    assert (found.stdout, found.stderr) == ("2.0\n", "")


@pytest.mark.parametrize("verify", [True, False])
def test_a_mechanism_is_that_of_the_certificate(certificate, refused, verify, tmp_path):
    found = minsep.Mechanism.from_certificate(certificate, verify=verify)
    assert found == certificate.mechanism
    with pytest.raises(ValueError, match="did not pass"):
        minsep.Mechanism.from_certificate(refused, verify=verify)
    with pytest.raises(ValueError, match=r"certificate is 'none\.json', but the file cannot be read"):
        minsep.Mechanism.from_certificate("none.json", verify=verify)
    with pytest.raises(ValueError, match="certificate is 3, but it must be"):
        minsep.Mechanism.from_certificate(3, verify=verify)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(ValueError, match="not a certificate of minsep"):
        minsep.Mechanism.from_certificate(tmp_path / "picture.png", verify=verify)


def test_a_mechanism_that_cannot_be_read_is_an_error(certificate):
    content = json.loads(certificate.to_json())
    content["mechanism"]["scheme"] = {"kind": "lottery"}
    changed = minsep.Certificate.from_json(json.dumps(content))
    for attempt in (lambda: changed.mechanism, lambda: minsep.Mechanism.from_certificate(changed, verify=False)):
        with pytest.raises(ValueError, match="describes no mechanism .* 'lottery'"):
            attempt()


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_users_are_those_of_the_graph(adapter, of_users, certificate):
    assert training_from(adapter, of_users, graph=users_of(2)).mechanism.scheme.graph is not None
    with pytest.raises(ValueError, match="graph is None, but the certificate protects users"):
        training_from(adapter, of_users)
    with pytest.raises(ValueError, match="user_bound is 2, but user 0 has 4 examples"):
        training_from(adapter, of_users, graph=users_of(4))
    with pytest.raises(ValueError, match="num_examples is 39, but the graph has 40 examples"):
        training_from(adapter, of_users, graph=users_of(2), num_examples=39)
    with pytest.raises(ValueError, match="user 0 has 2 examples"):  # the certificate is for single examples
        training_from(adapter, certificate, graph=users_of(2))
    assert training_from(adapter, certificate, graph=users_of(1)).steps == 0
    with pytest.raises(ValueError, match="graph is 3, but it must be"):
        training_from(adapter, certificate, graph=3)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_truncation_is_for_one_size_of_data(adapter):
    cut = certified(minsep.Poisson(rate=0.25), minsep.Truncation(batch_size=20, num_examples=EXAMPLES))
    assert training_from(adapter, cut).mechanism.truncation.batch_size == 20
    with pytest.raises(ValueError, match="num_examples is 41, but the truncation was accounted for 40"):
        training_from(adapter, cut, num_examples=41)


def recorded(num_examples, **options):
    identity = minsep.BandedToeplitz.identity(iterations=ITERATIONS)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.25), 2.0)
    return minsep.certify(mechanism, **{"epsilon": 4.0, "delta": 1e-2, "num_examples": num_examples} | options)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
@pytest.mark.parametrize("other", [10, 39, 400])
def test_another_number_of_examples_is_refused_unless_told(adapter, other):
    made = recorded(EXAMPLES)
    assert training_from(adapter, made).num_examples == EXAMPLES
    sentence = (
        f"num_examples is {other}, but the certificate was made for 40 examples, .* accept_other_num_examples=True"
    )
    with pytest.raises(ValueError, match=sentence):
        training_from(adapter, made, num_examples=other)
    assert training_from(adapter, made, num_examples=other, accept_other_num_examples=True).num_examples == other
    assert training_from(adapter, recorded(None), num_examples=other).num_examples == other


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_delta_that_is_too_large_for_the_dataset_is_a_warning(adapter, certificate):
    with pytest.warns(LargeDeltaWarning, match="delta is 0.01, but with 100 examples it should be well below 1/100"):
        training_from(adapter, certificate, num_examples=100)


def run(lines, folder):
    (folder / "training.py").write_text(lines)
    command = [sys.executable, "-W", "error", "training.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("schedule", ["constant", "linear-decay", "cosine"])
def test_the_lines_follow_the_workload(momentum, schedule):
    lines = training_lines(EXAMPLES, ITERATIONS, workload=minsep.Workload(momentum, schedule=schedule))
    compile(lines, "training.py", "exec")
    assert ("momentum=0.9" in lines) == (momentum > 0)
    assert ("schedule=" in lines) == (schedule != "constant")
    assert len(lines.splitlines()) <= 16


def test_the_lines_for_users_run_as_printed(of_users, tmp_path):
    of_users.save(tmp_path / "certificate.json")
    rows = "".join(f"{k},{k // 2}\n" for k in range(EXAMPLES))
    (tmp_path / "edges.csv").write_text(f"example,user\n{rows}")
    workload = minsep.Workload(0.9, schedule="cosine")
    found = run(training_lines(EXAMPLES, ITERATIONS, workload=workload, user_bound=2), tmp_path)
    assert found.returncode == 0, found.stderr
    assert f"trained {ITERATIONS} steps in " in found.stderr
    assert (tmp_path / "model.pt").exists()


def test_the_lines_of_the_command_line_run_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = ["--examples", 60, "--batch-size", 6, "--iterations", 8, "--scheme", "poisson"]
    printed = command_line.run("calibrate", *task, "--epsilon", 1, "--delta", 0.01, "--output", "poisson.json").stdout
    lines = printed[printed.index("import torch") :]
    assert '"poisson.json"' in lines
    found = run(lines, tmp_path)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "model.pt").exists()
