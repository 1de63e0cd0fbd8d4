"""Two processes, each with half of the model, beside one process with all of it."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import distributed as together
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import minsep
from minsep.training.torch import PrivateTraining, ScaleThenPrivatize
from tests.training.small import data, options

# The options of a training, and whether it saves and resumes halfway.
CASES = {
    "plain": ({}, False),
    "double": ({}, False),
    "per_layer": ({"per_layer": True}, False),
    "scaling": ({"scaling": ScaleThenPrivatize(stability=0.1)}, True),
}

PROGRAM = """
import os, sys
from datetime import timedelta
from pathlib import Path
import numpy as np, torch
from torch import distributed
from tests.training.torch import test_sharded

folder, rank = Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2, timeout=timedelta(seconds=60)
)
test_sharded.run_of_one_process(folder, rank)
distributed.barrier()
# At an ordinary exit, threads of gloo that are still running may abort the process.
os._exit(0)
"""


class Model(nn.Module):
    """Layers that two processes cannot share equally, dropout, a frozen layer, and one that some examples use."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.seldom = nn.Linear(5, 7), nn.Linear(7, 3), nn.Linear(7, 1)
        self.frozen = nn.Linear(7, 7).requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, inputs):
        hidden = torch.tanh(self.frozen(nn.functional.dropout(self.first(inputs), 0.3)))
        outputs = self.scale * self.second(hidden)
        return outputs + self.seldom(hidden) if inputs[0, 0] > 0 else outputs


class Twice(nn.Module):
    """A sharded layer that runs twice in one forward pass."""

    def __init__(self):
        super().__init__()
        self.layer = fully_shard(nn.Linear(5, 5))

    def forward(self, inputs):
        return self.layer(torch.tanh(self.layer(inputs)))


class Gathering(nn.Module):
    """A sharded model that also gathers what all processes compute."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, inputs):
        outputs = self.layer(inputs)
        everyone = outputs.new_empty(2 * len(outputs), 3)
        together.all_gather_into_tensor(everyone, outputs.detach())
        return outputs + everyone.sum(0)


def model_of(double=False):
    torch.manual_seed(1)
    return Model().double() if double else Model()


def mechanism():
    """With so small a rate, some steps have a process, or all, without examples."""
    strategy = minsep.BandedToeplitz.optimal(iterations=11, bands=4)
    return minsep.Mechanism(strategy, minsep.CyclicPoisson(rate=0.04, cycle=4), noise_multiplier=0.5)


def training_of(model, resumed=None, **more):
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=0.1)
    given = model, nn.functional.cross_entropy, optimizer, mechanism()
    more = {**options(), "micro_batch": 1, "noise": "device", **more}
    if resumed is not None:
        return PrivateTraining.resume(resumed, *given, **more)
    return PrivateTraining(*given, seed=7, **more)


def train(trainer, steps):
    inputs, targets = data()
    dtype = next(trainer.model.parameters()).dtype
    sizes = []
    for indices in trainer.batches():
        trainer.step(inputs[indices].to(dtype), targets[indices])
        sizes.append(len(indices))
        if trainer.steps == steps:
            break
    return sizes


def run_of_one_process(folder, rank):
    def sharded(double=False):
        model = model_of(double)
        for layer in (model.first, model.second):
            fully_shard(layer)
        return fully_shard(model)

    for name, (more, resumes) in CASES.items():
        trainer = training_of(sharded(name == "double"), **more)
        train(trainer, 5 if resumes else 11)
        if resumes:
            trainer.save(folder / "run.checkpoint")
            half = trainer
            trainer = training_of(sharded(), folder / "run.checkpoint", **more)
            train(trainer, 11)
            train(half, 11)
            for one, other in zip(trainer.model.parameters(), half.model.parameters(), strict=True):
                assert torch.equal(one.to_local(), other.to_local())
        whole = torch.cat([weight.full_tensor().flatten() for weight in trainer.model.parameters()])
        np.save(folder / f"{name}{rank}.npy", whole.detach().numpy())
        np.save(folder / f"held{rank}.npy", trainer._noise.state_dict()["memory"])
    whole = training_of(model_of())
    train(whole, 5)
    whole.save(folder / "replicated.checkpoint")
    whole = training_of(model_of(), folder / "replicated.checkpoint")
    train(whole, 11)
    np.save(folder / f"replicated{rank}.npy", nn.utils.parameters_to_vector(whole.model.parameters()).detach().numpy())
    for options_refused, message in (({"clipping": "ghost"}, "one by one"), ({"noise": "host"}, "made by shard")):
        with pytest.raises(ValueError, match=message):
            training_of(sharded(), **options_refused)
    partly = model_of()
    fully_shard(partly.first)
    with pytest.raises(ValueError, match="'scale', which is not sharded though others are"):
        training_of(partly)
    gathering = training_of(fully_shard(Gathering()))
    with pytest.raises(ValueError, match="c10d.*, which exchanges tensors with other processes"):
        train(gathering, 3)
    for hidden in (Twice(), fully_shard(nn.Linear(5, 3), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))):
        trainer = training_of(hidden)
        with pytest.raises(ValueError, match="hides the gradients of single examples"):
            train(trainer, 3)
        assert trainer.steps == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(folder)]
    processes = [subprocess.Popen([*command, str(rank)]) for rank in (0, 1)]
    assert [process.wait(timeout=180) for process in processes] == [0, 0]
    return folder


@pytest.mark.filterwarnings("ignore:vmap cannot run")
@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_a_sharded_model_as_one_trains_the_whole(folder, name):
    model = model_of(name == "double")
    sizes = train(training_of(model, **CASES[name][0]), 11)
    whole = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    assert min(sizes) == 0
    assert 1 in sizes
    for rank in (0, 1):
        assert_allclose(np.load(folder / f"{name}{rank}.npy"), whole, atol=1e-12 if name == "double" else 2e-5)


def test_two_processes_with_noise_on_the_device_train_the_whole_model_as_shards_do(folder):
    for rank in (0, 1):
        assert_allclose(np.load(folder / f"replicated{rank}.npy"), np.load(folder / "plain0.npy"), atol=2e-5)


def test_a_process_holds_the_noise_of_its_shard_alone(folder):
    held = [np.load(folder / f"held{rank}.npy").shape for rank in (0, 1)]
    trained = sum(weight.numel() for weight in Model().parameters() if weight.requires_grad)
    assert held[0][1] + held[1][1] == trained
    assert max(columns for _, columns in held) < 0.7 * trained


@pytest.mark.filterwarnings("ignore:vmap cannot run")
def test_a_run_continues_without_shards(folder):
    name = "scaling"
    trainer = training_of(model_of(), folder / "run.checkpoint", **CASES[name][0])
    assert trainer.steps == 5
    train(trainer, 11)
    whole = nn.utils.parameters_to_vector(trainer.model.parameters()).detach().numpy()
    assert_allclose(whole, np.load(folder / f"{name}0.npy"), atol=2e-5)
