"""Models, data and trainers that are small enough for tests."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    TrainingArguments,
)

import minsep
from minsep.training.huggingface import PrivateTrainer

EXAMPLES, ITERATIONS, WORDS, LENGTH = 40, 9, 30, 6


def mechanism_of(rate=0.2, noise_multiplier=1.0, iterations=ITERATIONS):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=3)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=rate, min_sep=3), noise_multiplier)


def classifier(dropout=0.0, attention="eager"):
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
            max_position_embeddings=LENGTH, num_labels=3, hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout, attn_implementation=attention,
        )
    )  # fmt: skip


def language_model(dropout=0.0, attention="eager"):
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS, n_positions=LENGTH, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2,
            resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, loss_type="ForCausalLM",
            attn_implementation=attention,
        )
    )  # fmt: skip


def sentences(examples=EXAMPLES, labels="class", padded=False, seed=1):
    """Random words as lists, with a class of each or the words themselves as labels."""
    words = torch.randint(3, WORDS, (examples, LENGTH), generator=torch.Generator().manual_seed(seed))
    data = [{"input_ids": row.tolist(), "labels": int(row[0]) % 3} for row in words]
    for place, item in enumerate(data):
        if labels == "words":
            item["labels"] = list(item["input_ids"])
        if padded:
            real = 2 + place % (LENGTH - 1)
            item["attention_mask"] = [1] * real + [0] * (LENGTH - real)
            item["input_ids"] = item["input_ids"][:real] + [0] * (LENGTH - real)
            if labels == "words":
                item["labels"] = item["labels"][:real] + [-100] * (LENGTH - real)
    return data


def arguments(folder, **options):
    """Return arguments for quick and quiet runs on the CPU."""
    chosen = {
        "per_device_train_batch_size": 4, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "use_cpu": True, "logging_strategy": "no", "optim": "adamw_torch", "learning_rate": 0.01,
    } | options  # fmt: skip
    return TrainingArguments(str(folder), **chosen)


def trainer_of(folder, model=None, data=None, private=None, kind=PrivateTrainer, **options):
    """Return a trainer; `private` are its own options, `options` those of `TrainingArguments`."""
    own = {"mechanism": mechanism_of(), "clip_norm": 1.0, "private_seed": 5} | (private or {})
    if "certificate" in own:
        own.pop("mechanism")
    return kind(
        classifier() if model is None else model,
        arguments(folder, **options),
        train_dataset=sentences() if data is None else data,
        **own,
    )


def weights_of(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
