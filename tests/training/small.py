"""A training run small enough for tests, as a program: `python -m tests.training.small CHECKPOINT WEIGHTS [KILL_AT]`.

It goes on from the checkpoint if there is one, saves after every third step, and writes its final weights.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import minsep
from minsep.training.torch import PrivateTraining

EXAMPLES, ITERATIONS = 40, 11
# Workers are not forked: JAX, when tests of it ran before, has threads that do not survive it.
TWO_WORKERS = {"num_workers": 2, "multiprocessing_context": "spawn"}


def mechanism_of(noise_multiplier=3.0):
    strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=4)
    return minsep.Mechanism(strategy, minsep.CyclicPoisson(rate=0.1, cycle=4), noise_multiplier)


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(EXAMPLES, 5, generator=generator), torch.randint(0, 3, (EXAMPLES,), generator=generator)


def arguments(width=4, dropout=0.5):
    """Model, loss and optimiser, with dropout so that the generator of torch counts too."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, width), nn.Dropout(dropout), nn.Tanh(), nn.Linear(width, 3))
    return model, nn.functional.cross_entropy, torch.optim.AdamW(model.parameters(), lr=0.1)


def schedule(step):
    return 1 - step / ITERATIONS


def options():
    return {"num_examples": EXAMPLES, "clip_norm": 1.0, "schedule": schedule, "micro_batch": 3}


def seeds_of(part):
    raise AssertionError("this model draws nothing")


def train(trainer, checkpoint=None, kill_at=None, steps=ITERATIONS):
    inputs, targets = data()
    for indices in trainer.batches():
        if trainer.steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        trainer.step(inputs[indices], targets[indices])
        if checkpoint is not None and trainer.steps % 3 == 0:
            trainer.save(checkpoint)
        if trainer.steps == steps:
            return


def weights_of(model):
    return nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


def main(checkpoint, weights, kill_at=None):
    torch.set_num_threads(1)
    mechanism = mechanism_of()
    if Path(checkpoint).exists():
        trainer = PrivateTraining.resume(checkpoint, *arguments(), mechanism, **options())
    else:
        trainer = PrivateTraining(*arguments(), mechanism, seed=7, **options())
    train(trainer, checkpoint, None if kill_at is None else int(kill_at))
    np.save(weights, weights_of(trainer.model))


if __name__ == "__main__":
    main(*sys.argv[1:])
