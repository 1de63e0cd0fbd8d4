"""What of `transformers.Trainer` would break the guarantee or has no meaning here. Each is refused by its name."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset
from transformers import DataCollatorWithFlattening, Trainer, TrainingArguments

from minsep.core import validation as validate

_EPOCHS_BY_DEFAULT = 3.0
_GENERATOR_TYPES = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
_MAX_GRAD_NORM_BY_DEFAULT = 1.0
_COLUMNS_OF_PACKED_EXAMPLES = ("seq_lengths", "seq_idx", "cu_seq_lens_q", "cu_seq_lens_k", "num_items_in_batch")
_METHODS_OF_OWN_LOOP = (
    "training_step",
    "get_train_dataloader",
    "_get_train_sampler",
    "get_batch_samples",
    "_inner_training_loop",
)

# Arguments that must be off, and why.
_WHY_OFF = {
    "dataloader_drop_last": "every batch of the mechanism is trained on, whatever its size",
    "group_by_length": "which examples are in a batch is up to the mechanism",
    "auto_find_batch_size": "it would repeat a step after an error; set per_device_train_batch_size",
    "packing": "an example must not share its sequence with others",
    "padding_free": "an example must not share its sequence with others",
    "fp16": "its loss scaling looks at whole batches; use float32",
    "bf16": "per-example gradients under accelerate's autocast are not tested; use float32",
    "activation_checkpointing": "it does not work with per-example gradients; lower per_device_train_batch_size",
    "gradient_checkpointing": "it does not work with per-example gradients; lower per_device_train_batch_size",
    "torch_compile": "it does not work with per-example gradients",
    "use_liger_kernel": "fused kernels do not work with per-example gradients",
    "neftune_noise_alpha": "it draws noise from a generator that examples would share",
    "deepspeed": "there is one process",
    "fsdp": "there is one process",
    "parallelism_config": "there is one process",
    "debug": "it prints numbers of single batches",
    "data_seed": "batches come from a secret key; a reproducible run has private_seed",
}


def check_arguments(args: TrainingArguments, iterations: int, expected_batch: float) -> None:
    """Refuse arguments that would break the guarantee. All problems are reported together.

    Args:
        args: The arguments of the trainer.
        iterations: Number of steps of the mechanism.
        expected_batch: Expected number of examples in a batch.
    """
    accumulation = math.ceil(expected_batch / args.per_device_train_batch_size)
    sampling = getattr(args, "train_sampling_strategy", "random")
    hub = str(getattr(args.hub_strategy, "value", args.hub_strategy))
    optimizer = str(getattr(args.optim, "value", args.optim))
    problems: list[tuple[bool, str]] = [
        (bool(getattr(args, name, None)), f"{name} is {getattr(args, name, None)!r}, but it must be off: {why}.")
        for name, why in _WHY_OFF.items()
    ]
    problems += [
        (
            args.max_steps not in (-1, iterations),
            f"max_steps is {args.max_steps}, but the mechanism has {iterations} iterations: leave it out.",
        ),
        (
            args.max_steps == -1 and args.num_train_epochs != _EPOCHS_BY_DEFAULT,
            f"num_train_epochs is {args.num_train_epochs:g}, but the mechanism has {iterations} iterations, whatever "
            "the epochs: leave it out.",
        ),
        (
            args.gradient_accumulation_steps not in (1, accumulation),
            f"gradient_accumulation_steps is {args.gradient_accumulation_steps}, but batches are the mechanism's: "
            f"about {expected_batch:g} examples, in as many micro-batches of per_device_train_batch_size, "
            f"{args.per_device_train_batch_size}, as each needs: leave it out.",
        ),
        (
            args.max_grad_norm not in (None, 0, _MAX_GRAD_NORM_BY_DEFAULT),
            f"max_grad_norm is {args.max_grad_norm:g}, but the gradient of each example is clipped, not that of the "
            "batch: use clip_norm.",
        ),
        (
            sampling != "random",
            f"train_sampling_strategy is {sampling!r}, but which examples are in a batch is up to the mechanism: leave "
            "it out.",
        ),
        (
            args.include_num_input_tokens_seen not in (False, "no"),
            f"include_num_input_tokens_seen is {args.include_num_input_tokens_seen!r}, but the size of a batch is "
            "secret: leave it out.",
        ),
        (
            args.push_to_hub and hub in ("checkpoint", "all_checkpoints"),
            f"hub_strategy is {hub!r}, but checkpoints hold secret keys: use 'end' or 'every_save'.",
        ),
        (
            "lomo" in optimizer or "layerwise" in optimizer,
            f"optim is {optimizer!r}, but it steps within the backward pass, before there is noise: use another.",
        ),
        (args.world_size > 1 or args.n_gpu > 1, f"world_size is {args.world_size}, but there must be one process."),
    ]
    validate.all_of(*(_raising(sentence) for wrong, sentence in problems if wrong))


def check_trainer(trainer: Trainer) -> None:
    """Refuse data, a collator or an overridden method that would break the guarantee.

    Args:
        trainer: The trainer.
    """
    dataset = trainer.train_dataset
    if dataset is None:
        raise ValueError("train_dataset is None, but there must be one.")
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise ValueError(
            f"train_dataset is a {type(dataset).__name__}, but batches need examples by index: it must have "
            "__getitem__ and __len__."
        )
    if isinstance(trainer.data_collator, DataCollatorWithFlattening):
        raise ValueError(
            "data_collator is a DataCollatorWithFlattening, which packs examples into one sequence: use one that keeps "
            "them apart."
        )
    own = [name for name, value in _attributes(trainer.data_collator).items() if isinstance(value, _GENERATOR_TYPES)]
    if getattr(trainer.data_collator, "seed", None) is not None or own:
        raise ValueError(
            "data_collator draws from a generator of its own, so what one example gets would depend on the others: "
            "leave out its seed."
        )
    first = dataset[0]
    packed = [name for name in _COLUMNS_OF_PACKED_EXAMPLES if isinstance(first, dict) and name in first]
    if packed:
        raise ValueError(f"train_dataset has the column {packed[0]!r}, which marks packed examples: do not pack them.")
    for name in _METHODS_OF_OWN_LOOP:
        if getattr(type(trainer), name, None) is not getattr(Trainer, name, None):
            raise ValueError(
                f"{type(trainer).__name__} overrides {name}, which private training does not call: override "
                "compute_loss, or use callbacks."
            )


def _attributes(value: Any) -> dict[str, Any]:
    return vars(value) if hasattr(value, "__dict__") else {}


def _raising(sentence: str) -> Callable[[], object]:
    def check() -> None:
        raise ValueError(sentence)

    return check
