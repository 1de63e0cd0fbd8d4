"""The same run in PyTorch and in JAX gives the same numbers."""

import numpy as np
import optax
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from minsep.training.jax import PrivateTraining, clipped_gradient, padded
from minsep.training.torch import PrivateTraining as TorchTraining
from minsep.training.torch import ScaleThenPrivatize
from minsep.training.torch.clipping import ClippedSum
from tests.training.jax.small import CLIP, EXAMPLES, data, loss, mechanism_of, weights
from tests.training.small import seeds_of


def torch_model():
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    for parameter, value in zip(model.parameters(), weights(), strict=True):
        parameter.data = torch.from_numpy(value)
    return model


def test_layers_are_clipped_by_themselves():
    inputs, targets = data()
    first, bias, second, second_bias = weights()
    layers = {"one": {"kernel": first, "bias": bias}, "two": {"kernel": second, "bias": second_bias}}

    def loss_of_layers(layers, x, y):
        one, two = layers["one"], layers["two"]
        return loss([one["kernel"], one["bias"], two["kernel"], two["bias"]], x, y)

    gradient = clipped_gradient(loss_of_layers, CLIP, micro_batch=4, per_layer=True)
    found = gradient(layers, *padded((inputs, targets), np.arange(7), 4), None)
    clipped = ClippedSum(torch_model(), nn.functional.cross_entropy, CLIP, micro_batch=4, per_layer=True)
    flat = torch.zeros(clipped.size)
    clipped.add_to(flat, torch.from_numpy(inputs[:7]), torch.from_numpy(targets[:7]), None, seeds_of)
    order = [found["one"]["kernel"], found["one"]["bias"], found["two"]["kernel"], found["two"]["bias"]]
    assert_allclose(np.concatenate([np.ravel(part) for part in order]), flat, atol=1e-6)


@pytest.mark.parametrize("adam", [False, True])
def test_jax_and_torch_agree(adam):
    inputs, targets = data()
    mechanism, model = mechanism_of(), torch_model()
    options = {"num_examples": EXAMPLES, "clip_norm": CLIP, "micro_batch": 4, "seed": 3}
    if adam:
        torch_optimizer = torch.optim.Adam(model.parameters(), lr=0.05, eps=1e-6)
        jax_optimizer = optax.adam(0.05, eps=1e-6)
        torch_options = {"scaling": ScaleThenPrivatize(0.02)}
        jax_options = {"scale_stability": 0.02}
    else:
        torch_optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.95)
        jax_optimizer = optax.sgd(optax.linear_schedule(0.1, 0.0, 10), momentum=0.95)
        torch_options, jax_options = {"schedule": lambda step: 1 - step / 10}, {}
    in_torch = TorchTraining(model, nn.functional.cross_entropy, torch_optimizer, mechanism, **options, **torch_options)
    in_jax = PrivateTraining(weights(), loss, jax_optimizer, mechanism, **options, **jax_options)
    for ours, theirs in zip(in_torch.batches(), in_jax.batches(), strict=True):
        assert_array_equal(ours, theirs)
        in_torch.step(torch.from_numpy(inputs[ours]), torch.from_numpy(targets[ours]))
        in_jax.step(inputs[ours], targets[ours])
        # Momentum in torch applies the learning rate outside, in optax as well: the same up to rounding.
        for one, other in zip(in_jax.parameters, model.parameters(), strict=True):
            assert_allclose(one, other.detach(), atol=1e-4)
