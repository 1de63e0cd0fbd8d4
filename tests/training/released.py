"""What each way to train releases, for attacks on its lowest bits.

As a program, `python -m tests.training.released PATH FOLDER RANK`, it writes the releases of a way to train.

A model with an embedding of many words, of which a batch has few. A release is the gradient of the embedding, and the
words that the batch has: all other rows are noise alone.
"""

import sys
from datetime import timedelta
from pathlib import Path

import numpy as np

import minsep

WORDS, WIDTH, LENGTH, EXAMPLES, ITERATIONS = 1500, 4, 3, 300, 5
CLIP, BATCH, SIGMA, SEED = 1.0, 12.0, 1.0, 11


def mechanism(iterations=ITERATIONS):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=3)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=0.05, min_sep=3), SIGMA)


def texts():
    generator = np.random.default_rng(0)
    return generator.integers(0, WORDS, (EXAMPLES, LENGTH)), generator.integers(0, 2, EXAMPLES)


OPTIONS = {"num_examples": EXAMPLES, "clip_norm": CLIP, "expected_batch": BATCH, "seed": SEED}


def in_torch(branching=False, double=False, sharded=False, **options):
    """Releases of `PrivateTraining`, with a model that `vmap` can run or, with a branch, cannot."""
    import torch
    from torch import nn

    from minsep.training.torch import PrivateTraining

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.last = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 2)

        def forward(self, words):
            pooled = self.words(words).mean(dim=1)
            if branching and float(pooled.sum()) > 1e9:
                return self.last(-pooled)
            return self.last(pooled)

    torch.manual_seed(0)
    model = Model()
    if double:
        model.double()
    if sharded:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    words, targets = map(torch.from_numpy, texts())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trainer = PrivateTraining(model, nn.functional.cross_entropy, optimizer, mechanism(), **OPTIONS, **options)
    for indices, batch in zip(trainer.batches(), mechanism().batches(EXAMPLES, seed=SEED), strict=True):
        trainer.step(words[indices], targets[indices])
        gradient = model.words.weight.grad
        gradient = gradient.full_tensor() if sharded else gradient
        yield gradient.numpy().copy(), np.unique(words[batch])


def in_jax():
    """Releases of the adapter of JAX: the change of the weights under a learning rate of 1, from zero."""
    import jax
    import jax.numpy as jnp
    import optax

    from minsep.training.jax import PrivateTraining

    def loss(parameters, words, target):
        scores = parameters["words"][words].mean(axis=0) @ parameters["last"] + 0.1 * target
        return scores.sum()

    words, targets = texts()
    start = {"last": jnp.ones((WIDTH, 2)), "words": jnp.zeros((WORDS, WIDTH))}
    keep = optax.GradientTransformation(lambda _: None, lambda gradient, state, _=None: (gradient, state))
    # Weights stay where they are, and the optimiser's state is the gradient.
    remember = optax.GradientTransformation(
        lambda parameters: parameters, lambda gradient, *_: (jax.tree.map(jnp.zeros_like, gradient), gradient)
    )
    trainer = PrivateTraining(start, loss, optax.chain(keep, remember), mechanism(), **OPTIONS)
    for indices in trainer.batches():
        trainer.step(words[indices], targets[indices])
        yield np.asarray(trainer._state[1]["words"]), np.unique(words[indices])


def in_optax():
    """Releases of `privatize`, of sums that `clipped_gradient` made."""
    import jax
    import jax.numpy as jnp

    from minsep.training.jax import privatize
    from minsep.training.jax.clipping import clipped_gradient, padded

    def loss(weights, words, target):
        return (weights[words].mean(axis=0) * (1.0 + target)).sum()

    words, targets = texts()
    sums_of = clipped_gradient(loss, CLIP, micro_batch=16)
    private = privatize(mechanism(), clip_norm=CLIP, expected_batch=BATCH, seed=SEED)
    weights = jnp.zeros((WORDS, WIDTH))
    state, update = private.init(weights), jax.jit(private.update)
    for indices in mechanism().batches(EXAMPLES, seed=SEED):
        sums = sums_of(weights, *padded((words, targets), indices, 16), None)
        noisy, state = update(sums, state)
        yield np.asarray(noisy), np.unique(words[indices])


def in_numpy():
    """Releases of a loop of one's own."""
    words, targets = texts()
    for indices, row in zip(
        mechanism().batches(EXAMPLES, seed=SEED), mechanism().noise((WORDS, WIDTH), seed=SEED), strict=True
    ):
        sums = np.zeros((WORDS, WIDTH))
        for i in indices:
            np.add.at(sums, words[i], (0.2 + 0.1 * targets[i]) / 3)
        yield (minsep.release(sums, row, CLIP) / BATCH).astype(np.float32), np.unique(words[indices])


def in_transformers(folder):
    """Releases of the trainer of Hugging Face, from a callback."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

    from minsep.training.huggingface import PrivateTrainer

    words, targets = texts()
    data = [{"input_ids": row.tolist(), "labels": int(label)} for row, label in zip(words, targets, strict=True)]
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4,
        pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model, seen = BertForSequenceClassification(config), []

    class Watch(TrainerCallback):
        def on_optimizer_step(self, *_, **__):
            seen.append(model.bert.embeddings.word_embeddings.weight.grad.numpy().copy())

    arguments = TrainingArguments(
        folder, per_device_train_batch_size=4, save_strategy="no", report_to="none", disable_tqdm=True
    )
    PrivateTrainer(
        model, arguments, train_dataset=data, clip_norm=CLIP, mechanism=mechanism(), expected_batch=BATCH,
        private_seed=SEED, callbacks=[Watch()],
    ).train()  # fmt: skip
    batches = mechanism().batches(EXAMPLES, seed=SEED)
    return [(gradient, np.unique(words[indices])) for gradient, indices in zip(seen, batches, strict=True)]


IN_PROCESS = {
    "vmap": in_torch,
    "ghost": lambda: in_torch(clipping="ghost"),
    "one by one": lambda: in_torch(branching=True),
    "device": lambda: in_torch(noise="device"),
    "double precision": lambda: in_torch(double=True),
    "jax": in_jax,
    "optax": in_optax,
    "own loop": in_numpy,
}
IN_PROCESSES = {
    "two processes": in_torch,
    "two processes, on the device": lambda: in_torch(noise="device"),
    "fully sharded": lambda: in_torch(sharded=True),
    "jax with 64 bits": in_jax,
    "optax with 64 bits": in_optax,
}


def main(path, folder, rank):
    if "jax" in path or "optax" in path:
        import jax

        jax.config.update("jax_enable_x64", True)
    else:
        import torch
        from torch import distributed

        torch.set_num_threads(1)
        distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2, timeout=timedelta(seconds=60)
        )
    releases = list(IN_PROCESSES[path]())
    if rank == 0:
        np.savez(
            Path(folder) / "releases.npz",
            gradients=np.stack([gradient for gradient, _ in releases]),
            present=np.stack([np.isin(np.arange(WORDS), words) for _, words in releases]),
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
