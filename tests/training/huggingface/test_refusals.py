"""What would break the guarantee is refused by its name, before a step is taken."""

import subprocess
import sys

import pytest
import torch
from torch.utils.data import IterableDataset
from transformers import DataCollatorWithFlattening

from minsep.core.install import install_command
from minsep.training.huggingface import PrivateTrainer
from tests.training.huggingface.small import (
    EXAMPLES,
    ITERATIONS,
    arguments,
    classifier,
    sentences,
    trainer_of,
    weights_of,
)

ARGUMENTS = {
    "max_steps": (7, f"max_steps is 7, but the mechanism has {ITERATIONS} iterations"),
    "num_train_epochs": (5, "num_train_epochs is 5, but the mechanism has"),
    "gradient_accumulation_steps": (3, "gradient_accumulation_steps is 3, but batches are the mechanism's: about 8"),
    "dataloader_drop_last": (True, "dataloader_drop_last is True, but it must be off"),
    "train_sampling_strategy": ("group_by_length", "train_sampling_strategy is 'group_by_length'"),
    "auto_find_batch_size": (True, "auto_find_batch_size is True"),
    "max_grad_norm": (0.5, "max_grad_norm is 0.5, .* use clip_norm"),
    "include_num_input_tokens_seen": ("all", "include_num_input_tokens_seen is 'all', but the size of a batch"),
    "bf16": (True, "bf16 is True"),
    "torch_compile": (True, "torch_compile is True"),
    "neftune_noise_alpha": (5.0, "neftune_noise_alpha is 5.0"),
    "data_seed": (7, "data_seed is 7, .* private_seed"),
    "debug": ("underflow_overflow", "debug is .* prints numbers of single batches"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name, tmp_path):
    value, sentence = ARGUMENTS[name]
    with pytest.raises(ValueError, match=sentence):
        trainer_of(tmp_path, **{name: value})


def test_checkpointing_of_activations(tmp_path):
    with pytest.raises(ValueError, match=r"activation_checkpointing is True, .* lower per_device_train_batch_size"):
        trainer_of(tmp_path, activation_checkpointing=True)


def test_keys_are_not_uploaded(tmp_path, monkeypatch):
    monkeypatch.setattr(PrivateTrainer, "init_hf_repo", lambda self: None)
    with pytest.raises(ValueError, match="hub_strategy is 'all_checkpoints', but checkpoints hold secret keys"):
        trainer_of(tmp_path, push_to_hub=True, hub_strategy="all_checkpoints")


def test_all_problems_are_reported_together(tmp_path):
    with pytest.raises(ValueError, match=r"(?s)dataloader_drop_last.*max_steps"):
        trainer_of(tmp_path, max_steps=7, dataloader_drop_last=True)


def test_what_says_the_same_as_the_mechanism_is_accepted(tmp_path):
    trainer_of(tmp_path, max_steps=ITERATIONS, gradient_accumulation_steps=2, max_grad_norm=0.0)


def test_data(tmp_path):
    class Stream(IterableDataset):
        def __iter__(self):
            yield from sentences()

    data = sentences()
    with pytest.raises(ValueError, match="train_dataset is a Stream, but batches need examples by index"):
        trainer_of(tmp_path, data=Stream(), max_steps=ITERATIONS)
    with pytest.raises(ValueError, match="train_dataset is None"):
        PrivateTrainer(classifier(), arguments(tmp_path), clip_norm=1.0, mechanism=trainer_of(tmp_path).mechanism)
    with pytest.raises(ValueError, match="eval_dataset is train_dataset"):
        trainer_of(tmp_path, data=data, private={"eval_dataset": {"train": data}})
    packed = [item | {"seq_lengths": [3, 3]} for item in data]
    with pytest.raises(ValueError, match="train_dataset has the column 'seq_lengths', which marks packed examples"):
        trainer_of(tmp_path, data=packed)


def test_collators(tmp_path):
    with pytest.raises(ValueError, match="DataCollatorWithFlattening, which packs examples into one sequence"):
        trainer_of(tmp_path, private={"data_collator": DataCollatorWithFlattening()})
    uneven = [item | {"input_ids": item["input_ids"][: 3 + place % 2]} for place, item in enumerate(sentences())]
    with pytest.raises(ValueError, match=r"'input_ids' of shapes \[\(3,\), \(4,\)\] .* padding='max_length'"):
        trainer_of(tmp_path, data=uneven).train()
    with pytest.raises(ValueError, match="'input_ids' of type int, but it must return tensors"):
        trainer_of(tmp_path, private={"data_collator": lambda items: items[0]}).train()

    def twice(items):
        return {name: torch.tensor([value, value]) for name, value in items[0].items()}

    with pytest.raises(ValueError, match="the first dimension must count examples"):
        trainer_of(tmp_path, private={"data_collator": twice}).train()

    def odd(items):
        item = items[0]
        names = list(item) if item["labels"] == 0 else ["labels", "input_ids", "token_type_ids"]
        return {name: torch.tensor([item.get(name, [0] * 6)]) for name in names}

    with pytest.raises(ValueError, match="returns different features for examples"):
        trainer_of(tmp_path, private={"data_collator": odd}).train()


def test_another_loop(tmp_path):
    class Sampling(PrivateTrainer):
        def _get_train_sampler(self, train_dataset=None):
            return None

    with pytest.raises(ValueError, match="Sampling overrides _get_train_sampler, which private training does not call"):
        trainer_of(tmp_path, kind=Sampling)

    class Weighted(PrivateTrainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return 2 * super().compute_loss(model, inputs)

    assert trainer_of(tmp_path, kind=Weighted).train().global_step == ITERATIONS


def test_the_budget_is_spent_once(tmp_path):
    trainer = trainer_of(tmp_path)
    with pytest.raises(ValueError, match="spends the budget again"):
        trainer.hyperparameter_search()
    with pytest.raises(ValueError, match="trial is given"):
        trainer.train(trial={"learning_rate": 1.0})
    trainer.train()
    with pytest.raises(RuntimeError, match=r"train\(\) was called before"):
        trainer.train()


def test_mechanism(tmp_path):
    with pytest.raises(ValueError, match=r"mechanism is 3, but it must be a minsep\.Mechanism"):
        trainer_of(tmp_path, private={"mechanism": 3})


def test_masks_of_an_example_depend_on_nothing_else(tmp_path):
    """A collator that masks words draws for each example alone, whatever else is in the batch."""

    def masking(items):
        words = torch.tensor([item["input_ids"] for item in items])
        masked = torch.rand(words.shape) < 0.5
        return {"input_ids": words.masked_fill(masked, 0), "labels": torch.tensor([item["labels"] for item in items])}

    trainer = trainer_of(tmp_path, private={"data_collator": masking})
    trainer.create_optimizer()
    training = trainer._private_training(None)
    items = trainer._private_loader(training).dataset
    (alone,) = items.__getitems__((3, [7]))
    _, together, _ = items.__getitems__((3, [2, 7, 9]))
    (later,) = items.__getitems__((4, [7]))
    assert torch.equal(alone[0]["input_ids"], together[0]["input_ids"])
    assert not torch.equal(alone[0]["input_ids"], later[0]["input_ids"])


def test_a_missing_package_is_one_sentence():
    program = "import sys; sys.modules['transformers'] = None; import minsep.training.huggingface"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stderr.strip().splitlines()[-1].endswith(f"needs transformers: {install_command('huggingface')}"), (
        found.stderr
    )


def test_a_collator_with_a_generator_of_its_own(tmp_path):
    class Drawing:
        def __init__(self):
            self.generator = torch.Generator()

        def __call__(self, features):
            return {name: torch.tensor([each[name] for each in features]) for name in features[0]}

    with pytest.raises(ValueError, match="data_collator draws from a generator of its own"):
        trainer_of(tmp_path, private={"data_collator": Drawing()})


def test_training_examples_are_not_evaluated(tmp_path):
    trainer = trainer_of(tmp_path)
    for look in (trainer.evaluate, trainer.predict):
        with pytest.raises(ValueError, match="_dataset is train_dataset, but metrics of training examples"):
            look(trainer.train_dataset)
        with pytest.raises(ValueError, match="_dataset has a row that is also in train_dataset, such as row 2"):
            look(sentences(4, seed=2)[:2] + sentences()[7:9])
    trainer.eval_dataset = sentences()[:3]  # after the constructor
    with pytest.raises(ValueError, match="eval_dataset has a row that is also in train_dataset"):
        trainer.evaluate()


class Columns(torch.utils.data.Dataset):
    """Examples that are made when they are asked for."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return dict(self.rows[place])


def as_tensors(rows):
    return [{name: torch.tensor(value) for name, value in row.items()} for row in rows]


def parts_of_columns(*places):
    dataset = Columns(sentences())
    return [torch.utils.data.Subset(dataset, part) for part in places]


SLICES = {
    "a slice": lambda: (sentences(), sentences()[20:30]),
    "one row among others": lambda: (sentences(), [*sentences(5, seed=2), sentences()[39]]),
    "rows in another order": lambda: (sentences(), [dict(reversed(row.items())) for row in sentences()[:3]]),
    "rows as tensors": lambda: (sentences(), as_tensors(sentences()[:3])),
    "parts that overlap": lambda: parts_of_columns(range(30), range(29, 40)),
    "a part of a part": lambda: (
        torch.utils.data.Subset(sentences(), range(30)),
        torch.utils.data.ConcatDataset([sentences(5, seed=2), sentences()[:2]]),
    ),
}


@pytest.mark.parametrize("how", SLICES)
def test_a_part_of_the_training_data_is_not_evaluated(how, tmp_path):
    data, evaluated = SLICES[how]()
    for given in (evaluated, {"test": sentences(3, seed=3), "train": evaluated}):
        with pytest.raises(ValueError, match="eval_dataset has a row that is also in train_dataset"):
            trainer_of(tmp_path, data=data, private={"eval_dataset": given})


def test_parts_that_share_no_row_are_evaluated(tmp_path):
    data, evaluated = parts_of_columns(range(30), range(30, 40))
    trainer_of(tmp_path, data=data, private={"eval_dataset": evaluated}).evaluate()
    trainer_of(tmp_path, private={"eval_dataset": {"test": sentences(4, seed=2)}}).evaluate()


def test_inputs_are_prepared_one_example_at_a_time(tmp_path):
    class Mixing(PrivateTrainer):
        def _prepare_inputs(self, inputs):
            inputs = super()._prepare_inputs(inputs)
            return {**inputs, "labels": inputs["labels"].flip(0)}

    found = []
    for kind in (PrivateTrainer, Mixing):
        trainer = trainer_of(tmp_path, kind=kind)
        trainer.train()
        found.append(weights_of(trainer.model))
    assert torch.equal(*found)


def test_a_loss_that_remembers_is_refused(tmp_path):
    class Remembering(PrivateTrainer):
        mean = 0.0

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            loss = super().compute_loss(model, inputs)
            self.mean = self.mean + loss.detach()
            return loss - self.mean * loss

    with pytest.raises(ValueError, match="an object of the class 'Remembering', which sets 'mean'"):
        trainer_of(tmp_path, kind=Remembering).train()

    seen = []

    def loss(outputs, labels, num_items_in_batch=None):
        seen.append(labels)
        return torch.nn.functional.cross_entropy(outputs["logits"], labels)

    with pytest.raises(ValueError, match="which sets 'seen'"):
        trainer_of(tmp_path, private={"compute_loss_func": loss}).train()


def test_other_training_data_after_the_constructor(tmp_path):
    trainer = trainer_of(tmp_path)
    trainer.train_dataset = sentences(EXAMPLES + 1)
    with pytest.raises(ValueError, match=f"dataset has {EXAMPLES + 1} examples, but num_examples is {EXAMPLES}"):
        trainer.train()
