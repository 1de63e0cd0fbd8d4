import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

import minsep
from minsep.randomness import Key, NormalRows
from minsep.training.torch import LinearDecay, PrivateTraining
from tests.training.torch.images import (
    CLIP,
    EXAMPLES,
    clipped_by_loop,
    cross_entropy,
    data,
    mechanism_of,
    small_model,
)


@pytest.mark.parametrize(
    "strategy",
    [
        minsep.BandedToeplitz.optimal(iterations=12, bands=4),
        minsep.BandedInverseToeplitz.square_root(iterations=12, bands=3),
        minsep.Dense(np.tril(np.random.default_rng(0).random((12, 12))) + 5 * np.eye(12)),
    ],
    ids=["banded", "banded inverse", "dense"],
)
def test_updates_equal_the_dense_expression(strategy):
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=0.9)
    model, (inputs, targets) = small_model(), data()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=1.0), mechanism,
        num_examples=EXAMPLES, clip_norm=CLIP, seed=5,
    )  # fmt: skip
    size = sum(parameter.numel() for parameter in model.parameters())
    normals = np.zeros((12, size))
    NormalRows(Key.from_seed(5).derive(f"noise {mechanism.fingerprint}")).add_to(normals, 0, 0.9)
    noise = CLIP * np.linalg.solve(strategy.dense(), normals)
    for step, indices in enumerate(trainer.batches()):
        before = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).clone()
        sums = clipped_by_loop(model, inputs[indices], targets[indices], CLIP, [[0, 1, 2, 3, 4, 5]])
        trainer.step(inputs[indices], targets[indices])
        after = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        assert_allclose(before - after, (sums.numpy() + noise[step]) / (0.1 * EXAMPLES), atol=1e-5)


def test_each_parameter_has_noise_of_its_own_dtype():
    model = nn.Sequential(nn.Linear(4, 3).to(torch.bfloat16), nn.Flatten(), nn.Linear(3, 2, dtype=torch.float64))

    class Casting(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = model[0], model[2]

        def forward(self, x):
            return self.second(self.first(x.to(torch.bfloat16)).to(torch.float64))

    whole = Casting()
    trainer = PrivateTraining(
        whole, cross_entropy, torch.optim.SGD(whole.parameters(), lr=0.1), mechanism_of(),
        num_examples=EXAMPLES, clip_norm=CLIP,
    )  # fmt: skip
    indices = next(trainer.batches())
    trainer.step(torch.randn(EXAMPLES, 4)[indices], torch.zeros(EXAMPLES, dtype=torch.long)[indices])
    assert {str(parameter.grad.dtype) for parameter in whole.parameters()} == {"torch.bfloat16", "torch.float64"}
    assert all(parameter.grad.dtype == parameter.dtype for parameter in whole.parameters())


def test_frozen_parameters_stay_and_the_optimizer_must_hold_the_others():
    model, (inputs, targets) = small_model(), data()
    model[0].requires_grad_(False)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    options = {"num_examples": EXAMPLES, "clip_norm": CLIP}
    trainer = PrivateTraining(model, cross_entropy, torch.optim.SGD(trainable, lr=0.1), mechanism_of(), **options)
    frozen = model[0].weight.clone()
    for indices in trainer.batches():
        trainer.step(inputs[indices], targets[indices])
    assert torch.equal(model[0].weight, frozen)
    with pytest.raises(ValueError, match="does not hold the parameter '1.weight'"):
        PrivateTraining(model, cross_entropy, torch.optim.SGD(model[4].parameters(), lr=0.1), mechanism_of(), **options)
    with pytest.raises(ValueError, match="not trainable parameters"):
        PrivateTraining(model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism_of(), **options)


def test_the_learning_rate_follows_the_schedule():
    model, (inputs, targets) = small_model(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.95)
    trainer = PrivateTraining(
        model, cross_entropy, optimizer, mechanism_of(),
        num_examples=EXAMPLES, clip_norm=CLIP, schedule=LinearDecay(iterations=12),
    )  # fmt: skip
    rates = []
    for indices in trainer.batches():
        trainer.step(inputs[indices], targets[indices])
        rates.append(optimizer.param_groups[0]["lr"])
    assert_allclose(rates, [0.2 * LinearDecay(iterations=12)(step) for step in range(12)])
    assert rates[0] == 0.2
    assert rates[-1] == pytest.approx(0.01)


def test_inputs_may_be_several_tensors():
    class TwoInputs(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, words, mask):
            return self.layer(words * mask)

    words, mask, targets = torch.randn(EXAMPLES, 4), torch.ones(EXAMPLES, 4), torch.zeros(EXAMPLES, dtype=torch.long)
    weights = []
    for pack in (lambda i: (words[i], mask[i]), lambda i: {"mask": mask[i], "words": words[i]}):
        torch.manual_seed(0)
        model = TwoInputs()
        trainer = PrivateTraining(
            model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism_of(),
            num_examples=EXAMPLES, clip_norm=CLIP, seed=0,
        )  # fmt: skip
        for indices in itertools.islice(trainer.batches(), 3):
            trainer.step(pack(indices), targets[indices])
        weights.append(model.layer.weight.detach().clone())
    assert torch.equal(*weights)


def test_optimizers_that_cannot_work_are_refused():
    model = small_model()
    lbfgs = torch.optim.LBFGS(model.parameters())
    with pytest.raises(ValueError, match="optimizer is LBFGS, but it must step with one dense gradient"):
        PrivateTraining(model, cross_entropy, lbfgs, mechanism_of(), num_examples=EXAMPLES, clip_norm=1.0)
