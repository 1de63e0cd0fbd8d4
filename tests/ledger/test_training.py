"""Training that books itself: before its first batch, once, and not at all if it cannot."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import minsep
from minsep.ledger import OverBudgetError
from minsep.training.booking import Booking
from tests.ledger.small import create
from tests.training.adapters import ADAPTERS

EXAMPLES, ITERATIONS = 40, 6


@pytest.fixture(scope="module")
def certificate():
    identity = minsep.BandedToeplitz.identity(iterations=ITERATIONS)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.25), 2.0)
    return minsep.certify(mechanism, epsilon=4.0, delta=1e-2)


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.name)
def adapter(request):
    return request.param


def start(adapter, certificate, ledger, **options):
    options = {"num_examples": EXAMPLES, "clip_norm": 1.0, "ledger": ledger} | options
    return adapter.training.from_certificate(certificate, *adapter.arguments(4, "sgd"), **options)


def take_steps(adapter, trainer, steps):
    inputs = np.ones((EXAMPLES, 4), dtype=np.float32)
    targets = np.ones((EXAMPLES, 1), dtype=np.float32)
    for indices in trainer.batches():
        trainer.step(adapter.array(inputs[indices]), adapter.array(targets[indices]))
        if trainer.steps == steps:
            return


def resume(adapter, path, certificate, **options):
    options = {"num_examples": EXAMPLES, "clip_norm": 1.0, "certificate": certificate} | options
    return adapter.training.resume(path, *adapter.arguments(4, "sgd"), certificate.mechanism, **options)


def test_a_run_is_booked_before_it_starts_and_resumed_runs_are_not_booked_again(adapter, certificate, tmp_path):
    book = create(tmp_path, epsilon=8.0, delta=2e-2, num_examples=EXAMPLES)
    trainer = start(adapter, certificate, book)
    (entry,) = book.entries
    assert entry.certificates == (certificate,)
    assert trainer.steps == 0
    take_steps(adapter, trainer, 2)
    trainer.save(tmp_path / "checkpoint")
    for ledger in (book, book.path, None):
        resumed = resume(adapter, tmp_path / "checkpoint", certificate, ledger=ledger)
        take_steps(adapter, resumed, 4)
        resumed.save(tmp_path / "again")
        take_steps(adapter, resume(adapter, tmp_path / "again", certificate, ledger=book), ITERATIONS)
    assert book.entries == (entry,)
    # Another ledger, or an older copy of this one, lacks the run.
    (tmp_path / "other").mkdir()
    other = create(tmp_path / "other", delta=1e-2)
    resume(adapter, tmp_path / "checkpoint", certificate, ledger=other)
    assert [one.booking for one in other.entries] == [entry.booking]


def test_a_run_that_cannot_be_booked_does_not_start(adapter, certificate, tmp_path):
    once = minsep.compose([certificate], 1e-2).epsilon
    book = create(tmp_path, epsilon=1.1 * once, delta=1e-2, num_examples=EXAMPLES)
    start(adapter, certificate, book.path)
    booked = book.entries
    with pytest.raises(OverBudgetError, match="nothing was added"):
        start(adapter, certificate, book)
    with pytest.raises(ValueError, match="num_examples is 41, but the dataset of the ledger .* has 40 examples"):
        start(adapter, certificate, book, num_examples=EXAMPLES + 1)
    with pytest.raises(ValueError, match="create the ledger first"):
        start(adapter, certificate, tmp_path / "none.json")
    arguments = (*adapter.arguments(4, "sgd"), certificate.mechanism)
    with pytest.raises(ValueError, match="only a run with a certificate can be booked"):
        adapter.training(*arguments, num_examples=EXAMPLES, clip_norm=1.0, ledger=book)
    assert book.entries == booked


def test_what_is_refused_for_another_reason_is_not_booked(adapter, certificate, tmp_path):
    book = create(tmp_path, epsilon=8.0, delta=2e-2)
    with pytest.raises(ValueError, match="micro_batch"):
        start(adapter, certificate, book, micro_batch=-1)
    assert book.entries == ()


def test_a_run_that_was_not_booked_is_not_resumed_with_a_ledger(adapter, certificate, tmp_path):
    book = create(tmp_path, epsilon=8.0, delta=2e-2)
    start(adapter, certificate, None).save(tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="of a run that was not booked in a ledger: add its certificate"):
        resume(adapter, tmp_path / "checkpoint", certificate, ledger=book)
    assert book.entries == ()


def test_a_certificate_that_nobody_verified_is_verified_before_it_is_booked(certificate, tmp_path):
    (adapter, *_) = ADAPTERS
    book = create(tmp_path, epsilon=8.0, delta=2e-2)
    quieter = minsep.Mechanism(certificate.mechanism.strategy, certificate.mechanism.scheme, 1.0)
    forged = dataclasses.replace(certificate, description=quieter.describe())
    options = {"num_examples": EXAMPLES, "clip_norm": 1.0, "certificate": forged, "ledger": book}
    with pytest.raises(ValueError, match="does not hold|proof|delta"):
        adapter.training(*adapter.arguments(4, "sgd"), quieter, **options)
    assert book.entries == ()


@pytest.mark.parametrize(("curve_proof", "verifies"), [("points", True), (None, False)])
def test_the_curve_of_a_certificate_is_verified_although_its_budget_was(tmp_path, curve_proof, verifies):
    book, asked = create(tmp_path), []
    book.add = lambda certificate, *, booking, verify: asked.append(verify)
    certificate = SimpleNamespace(curve_proof=curve_proof)
    Booking(book, certificate, EXAMPLES, verify=False).book(certificate)
    assert asked == [verifies]


@pytest.mark.filterwarnings("ignore")  # of transformers
def test_a_hugging_face_trainer_books_its_run(certificate, tmp_path):
    from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

    from minsep.training.huggingface import PrivateTrainer

    book = create(tmp_path, epsilon=1.1 * minsep.compose([certificate], 1e-2).epsilon, delta=1e-2)
    sizes = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = BertForSequenceClassification(BertConfig(**sizes, intermediate_size=8))
    data = [{"input_ids": [k, 3, 4], "labels": k % 2} for k in range(EXAMPLES)]
    arguments = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, save_strategy="no", report_to="none", disable_tqdm=True
    )
    options = {"train_dataset": data, "clip_norm": 1.0, "ledger": book}
    trainer = PrivateTrainer(model, arguments, certificate=certificate, **options)
    assert book.entries == ()
    trainer.train()
    assert len(book.entries) == 1
    with pytest.raises(OverBudgetError, match="nothing was added"):
        PrivateTrainer(model, arguments, certificate=certificate, **options).train()
    with pytest.raises(ValueError, match="only a run with a certificate can be booked"):
        PrivateTrainer(model, arguments, mechanism=certificate.mechanism, **options)
