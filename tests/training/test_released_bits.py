"""Attacks on the lowest bits of what training releases, on every way to train.

Floating-point noise that is just added to a sum reveals the sum: where it is zero, only some values can come out, as
`test_the_attack_finds_noise_that_was_just_added` shows. Every test has a false alarm of at most FALSE_ALARM.
"""

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

import minsep
from minsep.noise.grid import Grid
from minsep.training.torch import PrivateTraining
from tests.training.released import (
    BATCH,
    CLIP,
    EXAMPLES,
    IN_PROCESS,
    IN_PROCESSES,
    OPTIONS,
    SIGMA,
    WIDTH,
    WORDS,
    in_transformers,
    mechanism,
)

FALSE_ALARM = 1e-7
UNIT = CLIP * Grid(mechanism().strategy, SIGMA).step


def impossible(values, sums=0.0):
    """Where no noise of the precision of the values, added to a sum and divided, gives a value."""
    dtype = values.dtype
    near = ((values.astype(np.float64) * BATCH - sums) / CLIP).astype(dtype)
    possible = np.zeros(values.shape, dtype=bool)
    candidate = near
    for _ in range(4):
        candidate = np.nextafter(candidate, dtype.type(-np.inf))
    for _ in range(9):
        found = ((sums + CLIP * candidate.astype(np.float64)) / BATCH).astype(dtype)
        possible |= found == values
        candidate = np.nextafter(candidate, dtype.type(np.inf))
    return ~possible


def same_share(some, others):
    """The p-value that two sets of answers have the same share of yes."""
    table = [[some.sum(), some.size - some.sum()], [others.sum(), others.size - others.sum()]]
    return stats.fisher_exact(table).pvalue


def assert_nothing_is_revealed(releases):
    absent, present = [], []
    for gradient, words in releases:
        assert gradient.shape == (WORDS, WIDTH)
        there = np.isin(np.arange(WORDS), words)
        answers = impossible(gradient)
        absent.append(answers[~there].ravel())
        present.append(answers[there].ravel())
        # Every value is on the public grid: a whole number of steps, divided and cast.
        steps = np.rint(gradient.astype(np.float64) * BATCH / UNIT)
        assert (((steps * UNIT) / BATCH).astype(gradient.dtype) == gradient).all()
    absent, present = np.concatenate(absent), np.concatenate(present)
    assert present.size > 500
    assert same_share(absent, present) > FALSE_ALARM


@pytest.mark.filterwarnings("ignore:vmap cannot run")
@pytest.mark.parametrize("path", IN_PROCESS)
def test_values_that_cannot_be_noise_alone_are_as_frequent_where_there_is_a_sum(path):
    assert_nothing_is_revealed(IN_PROCESS[path]())


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.slow] if "on the device" in path else []) for path in IN_PROCESSES]
)
def test_the_same_holds_in_other_processes(path, tmp_path):
    count = 1 if "64" in path else 2
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.released", path, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(rank)]) for rank in range(count)]
    assert [process.wait(timeout=120) for process in processes] == [0] * count
    with np.load(tmp_path / "releases.npz") as stored:
        releases = zip(stored["gradients"], map(np.flatnonzero, stored["present"]), strict=True)
        assert_nothing_is_revealed(list(releases))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
def test_the_same_holds_with_transformers(tmp_path):
    assert_nothing_is_revealed(in_transformers(str(tmp_path)))


def test_the_attack_finds_noise_that_was_just_added():
    """The control: rows of single precision that are just added give away every seventh coordinate that has a sum."""
    generator = np.random.default_rng(1)
    noise = generator.standard_normal((WORDS, WIDTH)).astype(np.float32)
    sums = np.where(np.arange(WORDS)[:, None] < 300, generator.uniform(-1, 1, (WORDS, WIDTH)), 0.0)
    released = ((sums + CLIP * noise.astype(np.float64)) / BATCH).astype(np.float32)
    answers = impossible(released)
    assert not answers[300:].any()
    assert 0.05 < answers[:300].mean() < 0.4
    assert same_share(answers[:300].ravel(), answers[300:].ravel()) < 1e-30
    assert not impossible(released, sums).any()


def test_a_guess_about_one_example_is_as_possible_as_the_truth():
    """All other examples are known, and so is the model: a right guess of the last one and a wrong one look alike."""
    torch.manual_seed(2)
    model = torch.nn.Linear(400, 2)
    inputs, targets = torch.randn(EXAMPLES, 400), torch.randint(0, 2, (EXAMPLES,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mech = mechanism(iterations=40)
    trainer = PrivateTraining(model, torch.nn.functional.cross_entropy, optimizer, mech, **OPTIONS)
    right, wrong = [], []
    for indices in trainer.batches():
        sums = []
        for guessed in (inputs[indices], torch.cat([inputs[indices][:-1], torch.randn(1, 400)])):
            flat = torch.zeros(802, dtype=torch.float64)
            trainer._clipped.add_to(flat, guessed, targets[indices], None, lambda part: [])
            sums.append(flat.numpy())
        trainer.step(inputs[indices], targets[indices])
        released = np.concatenate([parameter.grad.numpy().ravel() for parameter in model.parameters()])
        right.append(impossible(released, sums[0]))
        wrong.append(impossible(released, sums[1]))
    assert same_share(np.concatenate(right), np.concatenate(wrong)) > FALSE_ALARM


def test_what_is_left_of_a_sum_between_steps_of_the_grid_is_not_in_the_release():
    """Sums that differ by less than a step: counts of what comes out, seen from the grid's steps, have one law.

    Both releases are rounded to whole steps, so only how often each step comes out could tell them apart. A sum that is
    half a step larger moves the law by half a step, as it must; beyond that the steps near the row are as frequent as
    the normal law says: a chi-square test of 4,000,000 values for each sum.
    """
    size, clip_norm = 1_000_000, 1.0
    identity = minsep.BandedToeplitz.identity(iterations=4)
    mech = minsep.Mechanism(identity, minsep.Poisson(rate=0.1), SIGMA)
    step = Grid(identity, SIGMA).step
    for part in (0.0, 0.25, 0.5):
        counts = np.zeros(2, dtype=np.int64)
        for row in mech.noise(size, seed=int(8 * part)):
            steps = np.rint(minsep.release(np.full(size, part * step), row, clip_norm) / step).astype(np.int64)
            counts += np.bincount(steps & 1, minlength=2)
        # Were the rows not smoothed, the residue of a sum would show in its parity: nothing does.
        assert stats.binomtest(int(counts[0]), int(counts.sum())).pvalue > FALSE_ALARM
