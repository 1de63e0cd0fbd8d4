import json
import math
import stat
from collections import Counter

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from peft import LoraConfig, get_peft_model
from transformers import EarlyStoppingCallback, TrainerCallback

import minsep
from minsep.training.huggingface.trainer import CHECKPOINT_NAME
from minsep.training.run import CLIP_MARGIN
from tests.training.huggingface.small import (
    EXAMPLES,
    ITERATIONS,
    LENGTH,
    classifier,
    language_model,
    mechanism_of,
    sentences,
    trainer_of,
    weights_of,
)

# What peft calls in transformers is deprecated there.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")

RATE, CLIP = 0.05, 0.7


def by_hand(model, data, mechanism, seed):
    """Train with SGD by the definition: a loop over single examples."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    size = sum(parameter.numel() for parameter in parameters)
    expected = mechanism.scheme.expected_batch_size(len(data))
    for indices, row in zip(mechanism.batches(len(data), seed=seed), mechanism.noise(size, seed=seed), strict=True):
        total = torch.zeros(size, dtype=torch.float64)
        for i in indices:
            model.zero_grad()
            model(**{name: torch.tensor([value]) for name, value in data[i].items()}).loss.backward()
            gradient = torch.cat([parameter.grad.flatten() for parameter in parameters]).double()
            total += gradient * min(1.0, (1 - CLIP_MARGIN) * CLIP / float(gradient.norm()))
        step = RATE * (torch.from_numpy(minsep.release(total.numpy(), row, CLIP)) / expected).float()
        with torch.no_grad():
            for parameter, part in zip(parameters, step.split([each.numel() for each in parameters]), strict=True):
                parameter -= part.view_as(parameter)


@pytest.mark.parametrize(("make", "labels"), [(classifier, "class"), (language_model, "words")], ids=["bert", "gpt2"])
@pytest.mark.parametrize("micro_batch", [1, 4])
def test_a_run_equals_its_definition(make, labels, micro_batch, tmp_path):
    mechanism, data, reference = mechanism_of(), sentences(labels=labels), make()
    by_hand(reference.train(), data, mechanism, seed=5)
    options = {"optim": "sgd", "learning_rate": RATE, "lr_scheduler_type": "constant", "weight_decay": 0.0}
    trainer = trainer_of(
        tmp_path, make(), data, {"clip_norm": CLIP}, per_device_train_batch_size=micro_batch, **options
    )
    result = trainer.train()
    assert result.global_step == ITERATIONS
    assert_allclose(weights_of(trainer.model), weights_of(reference), atol=2e-5)


def test_empty_batches_are_steps(tmp_path):
    mechanism = mechanism_of(rate=0.01)
    assert min(batch.size for batch in mechanism.batches(EXAMPLES, seed=5)) == 0
    trainer = trainer_of(tmp_path, private={"mechanism": mechanism, "log_loss_without_privacy": True})
    assert trainer.train().global_step == ITERATIONS


def test_a_resumed_run_is_bit_identical(tmp_path):
    """Dropout, Adam, a schedule and evaluations in between; the second run only has the folder of the first."""

    def trainer(folder):
        return trainer_of(
            folder, classifier(dropout=0.3), private={"clip_norm": CLIP, "eval_dataset": sentences(10, seed=2)},
            save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=3, warmup_steps=3,
        )  # fmt: skip

    whole = trainer(tmp_path / "whole")
    whole.train()
    resumed = trainer(tmp_path / "again")
    torch.manual_seed(99)  # the public generator has no part in it
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert torch.equal(weights_of(whole.model), weights_of(resumed.model))
    assert resumed.state.global_step == ITERATIONS
    assert resumed.optimizer.state_dict()["param_groups"] == whole.optimizer.state_dict()["param_groups"]
    last = trainer(tmp_path / "whole")
    last.train(resume_from_checkpoint=True)
    assert torch.equal(weights_of(whole.model), weights_of(last.model))
    secret = tmp_path / "whole" / "checkpoint-4" / CHECKPOINT_NAME
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.slow  # a worker imports all of transformers; the loader with workers is that of test_loader.py
def test_workers_do_not_change_the_result(tmp_path):
    spawned = {"dataloader_num_workers": 1, "dataloader_multiprocessing_context": "spawn"}
    found = []
    for options in ({}, spawned):
        trainer = trainer_of(tmp_path, classifier(dropout=0.3), **options)
        trainer.train()
        found.append(weights_of(trainer.model))
    assert torch.equal(*found)


def test_checkpoints_of_others_are_refused(tmp_path):
    trainer_of(tmp_path, save_strategy="steps", save_steps=4).train()
    folder = tmp_path / "checkpoint-4"
    with pytest.raises(ValueError, match="clip_norm"):
        trainer_of(tmp_path, private={"clip_norm": 2.0}).train(resume_from_checkpoint=str(folder))
    state = json.loads((folder / "trainer_state.json").read_text())
    (folder / "trainer_state.json").write_text(json.dumps(state | {"global_step": 3}))
    with pytest.raises(ValueError, match="trainer state is of step 3 and its private state of step 4"):
        trainer_of(tmp_path).train(resume_from_checkpoint=str(folder))
    (folder / CHECKPOINT_NAME).unlink()
    with pytest.raises(ValueError, match=r"it has no file 'minsep\.checkpoint'"):
        trainer_of(tmp_path).train(resume_from_checkpoint=str(folder))
    with pytest.raises(ValueError, match="has no checkpoint"):
        trainer_of(tmp_path / "empty").train(resume_from_checkpoint=True)


def test_logs_hold_nothing_private(tmp_path):
    trainer = trainer_of(tmp_path, logging_strategy="steps", logging_steps=2, save_strategy="steps", save_steps=9)
    result = trainer.train()
    keys = {name for logs in trainer.state.log_history for name in logs}
    assert keys == {
        "grad_norm", "learning_rate", "epoch", "step", "train_runtime", "train_steps_per_second",
    }  # fmt: skip
    assert math.isnan(result.training_loss)
    assert trainer.state.total_flos == trainer.state.num_input_tokens_seen == 0  # they would count the examples
    kept = json.loads((tmp_path / "checkpoint-9" / "trainer_state.json").read_text())
    assert not {name for logs in kept["log_history"] for name in logs} - keys


def test_the_loss_is_logged_only_on_request(tmp_path):
    model, data, mechanism = classifier(), sentences(), mechanism_of(noise_multiplier=1e-9)
    trainer = trainer_of(
        tmp_path, model, data, {"mechanism": mechanism, "log_loss_without_privacy": True},
        logging_strategy="steps", logging_steps=1,
    )  # fmt: skip
    first = next(mechanism.batches(EXAMPLES, seed=5))
    with torch.no_grad():
        expected = classifier()(
            input_ids=torch.tensor([data[i]["input_ids"] for i in first]),
            labels=torch.tensor([data[i]["labels"] for i in first]),
        ).loss
    assert trainer.train().training_loss is not None
    assert_allclose(trainer.state.log_history[0]["loss"], float(expected), rtol=1e-5)


class Events(TrainerCallback):
    def __init__(self):
        self.counts = Counter()

    def on_epoch_begin(self, *_, **__):
        self.counts["epoch begin"] += 1

    def on_epoch_end(self, *_, **__):
        self.counts["epoch end"] += 1

    def on_step_end(self, args, state, control, model=None, train_dataloader=None, optimizer=None, **_):
        assert model is not None
        assert train_dataloader is not None
        assert optimizer is not None
        self.counts["step end"] += 1

    def on_evaluate(self, *_, **__):
        self.counts["evaluate"] += 1


def test_callbacks_and_evaluation(tmp_path):
    events = Events()

    def accuracy(prediction):
        return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}

    trainer = trainer_of(
        tmp_path, private={"callbacks": [events], "eval_dataset": sentences(12, seed=2), "compute_metrics": accuracy},
        eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="accuracy",
    )  # fmt: skip
    trainer.train()
    # Five batches of 8 are an epoch of 40 examples, and the run has nine.
    assert events.counts == {"epoch begin": 2, "epoch end": 2, "step end": ITERATIONS, "evaluate": 2}
    assert "eval_accuracy" in trainer.evaluate()
    assert trainer.state.best_metric is not None


@pytest.mark.parametrize("schedule", ["reduce_lr_on_plateau", "cosine", "constant_with_warmup"])
def test_schedules_of_the_learning_rate(tmp_path, schedule):
    trainer = trainer_of(
        tmp_path, private={"eval_dataset": sentences(12, seed=2)}, lr_scheduler_type=schedule, warmup_steps=3,
        eval_strategy="steps", eval_steps=3, metric_for_best_model="loss", logging_strategy="steps", logging_steps=1,
    )  # fmt: skip
    trainer.train()
    rates = [logs["learning_rate"] for logs in trainer.state.log_history if "learning_rate" in logs]
    assert len(rates) == ITERATIONS
    assert (max(rates) == min(rates)) == (schedule == "reduce_lr_on_plateau")


def test_a_callback_may_stop_the_run(tmp_path):
    trainer = trainer_of(
        tmp_path, private={"callbacks": [EarlyStoppingCallback(1)], "eval_dataset": sentences(12, seed=2)},
        eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1, load_best_model_at_end=True,
        metric_for_best_model="loss", greater_is_better=True, learning_rate=0.0,
    )  # fmt: skip
    assert trainer.train().global_step == 2


def test_adapters_are_trained_and_nothing_else(tmp_path):
    base = language_model()
    before = {name: value.clone() for name, value in base.state_dict().items()}
    config = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")

    def adapted():
        torch.manual_seed(1)
        return get_peft_model(language_model(), config)

    options = {"save_strategy": "steps", "save_steps": 3}
    data = sentences(labels="words")
    trainer = trainer_of(tmp_path / "run", adapted(), data, **options)
    trainer.train()
    start = adapted().state_dict()
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, start[name]) == ("lora" not in name), name
    bare = trainer.model.unload()
    assert all(torch.equal(value, before[name]) for name, value in bare.state_dict().items())
    checkpoint = tmp_path / "run" / "checkpoint-3"
    assert (checkpoint / "adapter_config.json").is_file()
    held = np.load(checkpoint / CHECKPOINT_NAME, allow_pickle=False)
    frozen = max(value.numel() for value in before.values())
    assert max(held[name].size for name in held if name.startswith("array")) < frozen
    again = trainer_of(tmp_path / "again", adapted(), data, **options)
    again.train(resume_from_checkpoint=str(checkpoint))
    whole = trainer_of(tmp_path / "whole", adapted(), data)
    whole.train()
    assert torch.equal(weights_of(again.model), weights_of(whole.model))
    words = again.model.generate(input_ids=torch.tensor([[3, 4]]), max_length=LENGTH, do_sample=False)
    assert words.shape[0] == 1
    again.model.save_pretrained(tmp_path / "saved")


def test_a_run_from_a_certificate_protects_its_users(tmp_path):
    identity = minsep.BandedToeplitz.identity(iterations=3)
    scheme = minsep.UserMinSep(rate=0.2, min_sep=1, user_bound=2)
    certificate = minsep.certify(minsep.Mechanism(identity, scheme, 20.0), epsilon=4.0, delta=1e-2, seed=0)
    certificate.save(tmp_path / "certificate.json")
    graph = minsep.AttributionGraph.from_lists([[k // 2] for k in range(EXAMPLES)])
    private = {"certificate": tmp_path / "certificate.json", "graph": graph}
    trainer = trainer_of(tmp_path, private=private)
    assert trainer.train().global_step == 3
    assert trainer.private_training.certificate == certificate
    with pytest.raises(ValueError, match="graph is None, but the certificate protects users"):
        trainer_of(tmp_path, private=private | {"graph": None})
    with pytest.raises(ValueError, match="exactly one of them must be given"):
        trainer_of(tmp_path, private={"mechanism": None})


def test_a_certificate_for_another_number_of_examples_is_refused_unless_told(tmp_path):
    made = minsep.certify(mechanism_of(noise_multiplier=20.0), epsilon=4.0, delta=1e-2, seed=0, num_examples=EXAMPLES)
    private = {"certificate": made, "mechanism": None, "verify": False}
    assert trainer_of(tmp_path, private=private).mechanism == made.mechanism
    fewer = sentences(10)
    with pytest.raises(ValueError, match="num_examples is 10, but the certificate was made for 40 examples"):
        trainer_of(tmp_path, data=fewer, private=private)
    trainer_of(tmp_path, data=fewer, private=private | {"accept_other_num_examples": True})


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_of_the_ecosystem(tmp_path, smoothing):
    def loss(outputs, labels, num_items_in_batch=None):
        assert num_items_in_batch is None
        return torch.nn.functional.cross_entropy(outputs["logits"], labels)

    private = {} if smoothing else {"compute_loss_func": loss}
    trainer = trainer_of(tmp_path, private=private, label_smoothing_factor=smoothing)
    assert trainer.train().global_step == ITERATIONS


def padded_run(tmp_path, make, labels):
    trainer = trainer_of(tmp_path, make(attention="sdpa"), sentences(labels=labels, padded=True))
    assert trainer.train().global_step == ITERATIONS


def test_padded_batches_with_eager_attention(tmp_path):
    data = sentences(labels="words", padded=True)
    reference = language_model()
    by_hand(reference.train(), data, mechanism_of(), seed=5)
    trainer = trainer_of(
        tmp_path, language_model(), data, {"clip_norm": CLIP}, optim="sgd", learning_rate=RATE,
        lr_scheduler_type="constant", weight_decay=0.0,
    )  # fmt: skip
    trainer.train()
    assert_allclose(weights_of(trainer.model), weights_of(reference), atol=2e-5)


@pytest.mark.parametrize(("make", "labels"), [(classifier, "class"), (language_model, "words")], ids=["bert", "gpt2"])
def test_padded_batches_with_sdpa_attention(tmp_path, make, labels):
    padded_run(tmp_path, make, labels)
