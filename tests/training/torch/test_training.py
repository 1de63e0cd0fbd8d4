import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

import minsep
from minsep.noise.grid import Grid
from minsep.training.torch import PrivateTraining
from tests.oracles.normals import rows_of_z
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
        minsep.GammaBIFR(0.7, bands=3, iterations=12),
        minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=12),
    ],
    ids=["banded", "banded inverse", "dense", "gamma-BIFR", "buffered"],
)
def test_updates_equal_the_dense_expression(strategy):
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=0.9)
    model, (inputs, targets) = small_model(), data()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=1.0), mechanism,
        num_examples=EXAMPLES, clip_norm=CLIP, seed=5,
    )  # fmt: skip
    size = sum(parameter.numel() for parameter in model.parameters())
    noise = CLIP * np.linalg.solve(strategy.dense(), rows_of_z(mechanism.noise_key(5), 12, size, 0.9))
    # What smoothing and rounding to the grid add: eight deviations of them.
    most = 8 * 1.6 * CLIP * Grid(strategy, 0.9).step / (0.1 * EXAMPLES)
    for step, indices in enumerate(trainer.batches()):
        before = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).clone()
        sums = clipped_by_loop(model, inputs[indices], targets[indices], CLIP, [[0, 1, 2, 3, 4, 5]])
        trainer.step(inputs[indices], targets[indices])
        after = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        assert_allclose(before - after, (sums.numpy() + noise[step]) / (0.1 * EXAMPLES), atol=most)


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
        num_examples=EXAMPLES, clip_norm=CLIP, schedule=lambda step: 1 - step / 12,
    )  # fmt: skip
    rates = []
    for indices in trainer.batches():
        trainer.step(inputs[indices], targets[indices])
        rates.append(optimizer.param_groups[0]["lr"])
    assert_allclose(rates, [0.2 * (1 - step / 12) for step in range(12)])
    assert rates[0] == 0.2
    assert rates[-1] == pytest.approx(0.2 / 12)


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


def changed(model, inputs, how):
    """A step, after the model was changed."""
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism_of(),
        num_examples=EXAMPLES, clip_norm=CLIP,
    )  # fmt: skip
    batches = trainer.batches()
    for _ in range(2):
        indices = next(batches)
        trainer.step(inputs[indices], data()[1][indices])
    indices = next(batches)
    how(model)
    trainer.step(inputs.to(next(model.parameters()).dtype)[indices], data()[1][indices])


def replace_first(model):
    model[0].weight = nn.Parameter(model[0].weight.detach().clone())


def grow_last(model):
    model[-1].bias.data = torch.zeros(len(model[-1].bias) + 1)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda model: model.double(), "is torch.float64 of shape .*, but it was torch.float32"),
        (lambda model: model.to(torch.bfloat16), "is torch.bfloat16 of shape"),
        (replace_first, "The parameter '0.weight' of the model"),
        (grow_last, "of shape .* but it was torch.float32 of shape"),
        (lambda model: model[0].requires_grad_(False), "'0.(weight|bias)' of the model is not trained, but it was"),
        (lambda model: model.register_parameter("more", nn.Parameter(torch.ones(2))), "'more' .* it was not trained"),
    ],
    ids=["double", "half", "replaced", "another shape", "frozen", "added"],
)
def test_a_model_that_is_not_the_one_it_was_is_refused(how, message):
    """Noise and sums were made for the parameters as they were."""
    with pytest.raises(RuntimeError, match=f"{message}.*construct the training after the model has its final form"):
        changed(small_model(), data()[0], how)


@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_a_failed_step_leaves_nothing_of_the_sum_anywhere(double, monkeypatch):
    model, (inputs, targets) = small_model(), data()
    if double:
        model, inputs = model.double(), inputs.double()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism_of(),
        num_examples=EXAMPLES, clip_norm=CLIP,
    )  # fmt: skip
    batches = trainer.batches()
    indices = next(batches)
    trainer.step(inputs[indices], targets[indices])
    released = [parameter.grad.clone() for parameter in model.parameters()]
    indices = next(batches)

    def fail(*_):
        raise KeyboardInterrupt

    for name in ("_release", "_update"):
        with monkeypatch.context() as broken:
            broken.setattr(PrivateTraining, name, fail)
            with pytest.raises((KeyboardInterrupt, RuntimeError)):
                trainer.step(inputs[indices], targets[indices])
        for parameter, before in zip(model.parameters(), released, strict=True):
            assert torch.equal(parameter.grad, before)
        assert not trainer._flat.any()


def test_an_example_whose_gradient_is_not_finite_leaves_nothing_either():
    model, (inputs, targets) = small_model(), data()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism_of(),
        num_examples=EXAMPLES, clip_norm=CLIP,
    )  # fmt: skip
    indices = next(batch for batch in trainer.batches() if len(batch))
    inputs[indices[0]] = torch.nan
    with pytest.raises(ValueError, match="gradient is not finite"):
        trainer.step(inputs[indices], targets[indices])
    assert not trainer._flat.any()
    assert all(parameter.grad is None for parameter in model.parameters())
