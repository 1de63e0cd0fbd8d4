import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from minsep.training.checkpoint import load_checkpoint, save_checkpoint
from minsep.training.torch import PrivateTraining
from minsep.training.torch.tensors import from_array, to_array
from tests.training.small import TWO_WORKERS, arguments, data, main, mechanism_of, options, train, weights_of


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "run.checkpoint"
    trainer = PrivateTraining(*arguments(), mechanism_of(), seed=7, **options())
    train(trainer, steps=5)
    trainer.save(path)
    return path


def test_a_killed_run_resumes_to_identical_weights(tmp_path):
    main(tmp_path / "other.checkpoint", tmp_path / "straight.npy")
    command = [sys.executable, "-m", "tests.training.small", tmp_path / "run.checkpoint", tmp_path / "resumed.npy"]
    killed = subprocess.run([*command, "8"], check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "resumed.npy").exists()
    main(tmp_path / "run.checkpoint", tmp_path / "resumed.npy")
    assert_array_equal(np.load(tmp_path / "resumed.npy"), np.load(tmp_path / "straight.npy"))


@pytest.mark.parametrize("steps", [0, 1, 4, 10, 11])
def test_a_run_resumes_at_any_step(tmp_path, steps):
    main(tmp_path / "other.checkpoint", tmp_path / "straight.npy")
    trainer = PrivateTraining(*arguments(), mechanism_of(), seed=7, **options())
    if steps:
        train(trainer, steps=steps)
    trainer.save(tmp_path / "run.checkpoint")
    torch.manual_seed(99)
    resumed = PrivateTraining.resume(tmp_path / "run.checkpoint", *arguments(), mechanism_of(), **options())
    assert resumed.steps == steps
    train(resumed)
    assert_array_equal(weights_of(resumed.model), np.load(tmp_path / "straight.npy"))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of one core
def test_a_loader_that_read_ahead_resumes_at_the_step_it_was_at(tmp_path):
    inputs, targets = data()
    main(tmp_path / "other.checkpoint", tmp_path / "straight.npy")
    trainer = PrivateTraining(*arguments(), mechanism_of(), seed=7, **options())
    dataset = torch.utils.data.TensorDataset(inputs, targets)
    for some, their_targets in trainer.loader(dataset, **TWO_WORKERS):
        trainer.step(some, their_targets)
        if trainer.steps == 4:
            break
    trainer.save(tmp_path / "run.checkpoint")
    resumed = PrivateTraining.resume(tmp_path / "run.checkpoint", *arguments(), mechanism_of(), **options())
    for some, their_targets in resumed.loader(dataset):
        resumed.step(some, their_targets)
    assert_array_equal(weights_of(resumed.model), np.load(tmp_path / "straight.npy"))


def test_an_interrupted_save_leaves_the_previous_checkpoint(checkpoint, monkeypatch):
    before = checkpoint.read_bytes()
    trainer = PrivateTraining.resume(checkpoint, *arguments(), mechanism_of(), **options())
    train(trainer, steps=6)

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        trainer.save(checkpoint)
    assert checkpoint.read_bytes() == before
    assert list(checkpoint.parent.iterdir()) == [checkpoint]


def test_loading_executes_nothing(checkpoint, tmp_path):
    class Exploding:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    np.savez(tmp_path / "bad.npz", plain=np.array([Exploding()], dtype=object))
    torch.save(Exploding(), tmp_path / "bad.pt")
    for name in ("bad.npz", "bad.pt"):
        with pytest.raises(ValueError, match="does not contain a state"):
            PrivateTraining.resume(tmp_path / name, *arguments(), mechanism_of(), **options())
    assert not (tmp_path / "executed").exists()


def test_nested_values_come_back_as_they_were(tmp_path):
    content = {
        0: [1, 2.5, None, True, ("a", {"b": torch.arange(3)})],
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "scalar": torch.tensor(3.25),
        "empty": torch.zeros(0, 4),
        "array": np.arange(6.0).reshape(2, 3),
    }
    save_checkpoint(tmp_path / "file", {"version": 1}, content, to_array)
    loaded = load_checkpoint(tmp_path / "file", {"version": 1}, from_array)
    assert str(loaded) == str(content)
    assert loaded["half"].dtype == torch.bfloat16
    assert loaded["empty"].shape == (0, 4)
    with pytest.raises(ValueError, match="cannot hold"):
        save_checkpoint(tmp_path / "file", {"version": 1}, {"object": object()}, to_array)
