import subprocess
import sys

import numpy as np
from numpy.testing import assert_allclose

from minsep.training.torch import PrivateTraining
from tests.training.small import arguments, mechanism_of, options, train, weights_of

# Each of two processes trains, saves, resumes what was saved, and writes its weights and how much noise it holds.
PROGRAM = """
import sys
from datetime import timedelta
from pathlib import Path
import numpy as np, torch
from torch import distributed
from torch.distributed import _functional_collectives as functional_collectives
from minsep.training.torch import PrivateTraining
from tests.training.small import arguments, mechanism_of, options, train, weights_of

folder, rank = Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2, timeout=timedelta(seconds=30)
)
for seed, noise_multiplier in ((7 + rank, 3.0), (7, 3.0 + rank)):
    try:
        PrivateTraining(*arguments(dropout=0.0), mechanism_of(noise_multiplier), seed=seed, **options())
    except ValueError as error:
        assert "different arguments" in str(error)
    else:
        raise AssertionError("processes with different arguments were let pass")
class Gathering(torch.nn.Module):
    def __init__(self, inner, gather):
        super().__init__()
        self.inner, self.gather = inner, gather

    def forward(self, inputs):
        return self.inner(inputs + self.gather(inputs.detach().mean()))


def gathered(mean):
    parts = [torch.zeros(()), torch.zeros(())]
    distributed.all_gather(parts, mean)
    return sum(parts)


for gather in (gathered, lambda mean: functional_collectives.all_reduce(mean, "sum", distributed.group.WORLD)):
    model, *others = arguments(dropout=0.0)
    trainer = PrivateTraining(Gathering(model, gather), *others, mechanism_of(), seed=7, **options())
    try:
        train(trainer, steps=3)
    except ValueError as error:
        assert "exchanges tensors with other processes" in str(error), error
    else:
        raise AssertionError("a model that mixes the examples of processes was let pass")
torch.manual_seed(rank)
model, *others = arguments(dropout=0.5)
model.register_buffer("features", torch.rand(3) + rank)
straight = PrivateTraining(model, *others, mechanism_of(), seed=7, **options())
assert straight.model.features.max() < 1
torch.manual_seed(rank)
train(straight, steps=5)
straight.save(folder / "dropout.checkpoint")
train(straight)
halfway, *others = arguments(dropout=0.5)
halfway.register_buffer("features", torch.zeros(3))
halfway = PrivateTraining.resume(folder / "dropout.checkpoint", halfway, *others, mechanism_of(), **options())
train(halfway)
assert np.array_equal(weights_of(halfway.model), weights_of(straight.model))
torch.manual_seed(10 + rank)
first = PrivateTraining(*arguments(dropout=0.5), mechanism_of(), seed=7, **options())
train(first, steps=5)
np.save(folder / f"noise{rank}.npy", first._noise.state_dict()["memory"])
first.save(folder / "run.checkpoint")
resumed = PrivateTraining.resume(folder / "run.checkpoint", *arguments(dropout=0.5), mechanism_of(), **options())
train(resumed)
np.save(folder / f"weights{rank}.npy", weights_of(resumed.model))
distributed.destroy_process_group()
"""


def test_two_processes_train_as_one_and_resume_as_one_or_two(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(rank)]) for rank in (0, 1)]
    trainer = PrivateTraining(*arguments(dropout=0.5), mechanism_of(), seed=7, **options())
    train(trainer)
    straight = weights_of(trainer.model)
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    for rank in (0, 1):
        assert_allclose(np.load(tmp_path / f"weights{rank}.npy"), straight, atol=1e-5)
    size = straight.size
    assert [np.load(tmp_path / f"noise{rank}.npy").shape[1] for rank in (0, 1)] == [size // 2, size - size // 2]
    alone = PrivateTraining.resume(tmp_path / "run.checkpoint", *arguments(dropout=0.5), mechanism_of(), **options())
    assert alone.steps == 5
    train(alone)
    assert_allclose(weights_of(alone.model), straight, atol=1e-5)
