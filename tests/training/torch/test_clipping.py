import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from minsep.training.torch import PrivateTraining
from minsep.training.torch.clipping import ClippedSum
from tests.training.small import seeds_of
from tests.training.torch.images import (
    CLIP,
    EXAMPLES,
    KEPT,
    clipped_by_loop,
    cross_entropy,
    data,
    mechanism_of,
    small_model,
)


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5, 9])
def test_the_sum_equals_a_loop_over_examples(count, per_layer):
    model, (inputs, targets) = small_model(), data()
    clipped = ClippedSum(model, cross_entropy, CLIP, micro_batch=4, per_layer=per_layer)
    flat = torch.zeros(clipped.size)
    clipped.add_to(flat, inputs[:count], targets[:count], None, seeds_of)
    layers = [[0, 1], [2, 3], [4, 5]] if per_layer else [[0, 1, 2, 3, 4, 5]]
    expected = clipped_by_loop(model, inputs[:count], targets[:count], CLIP, layers)
    assert_allclose(flat, expected, atol=1e-6)


def test_every_gradient_is_within_the_clip_norm():
    model, (inputs, targets) = small_model(), data()
    for per_layer in (False, True):
        clipped = ClippedSum(model, cross_entropy, CLIP, micro_batch=4, per_layer=per_layer)
        for i in range(EXAMPLES):
            flat = torch.zeros(clipped.size)
            clipped.add_to(flat, 1e3 * inputs[i : i + 1], targets[i : i + 1], None, seeds_of)
            assert flat.norm() <= CLIP


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.BatchNorm2d(2), "BatchNorm2d, which mixes examples"),
        (nn.SyncBatchNorm(2), "SyncBatchNorm, which mixes"),
        (nn.InstanceNorm2d(2, track_running_stats=True), "InstanceNorm2d that keeps statistics"),
        (nn.Embedding(3, 2, max_norm=1.0), "Embedding with max_norm"),
    ],
)
def test_layers_that_mix_examples_are_refused_by_name(layer, words):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(ValueError, match=f"layer '1', a {words}"):
        PrivateTraining(model, cross_entropy, optimizer, mechanism_of(), num_examples=EXAMPLES, clip_norm=1.0)


def test_long_gradients_are_within_the_clip_norm():
    # Eight large entries and many small ones: squares of the small ones are lost in a sum of single precision.
    coefficients = torch.full((1, 1 << 20), 2.43e-4)
    coefficients[0, :8] = 1.0
    model = nn.Linear(1 << 20, 1, bias=False)
    clipped = ClippedSum(model, lambda outputs, targets: outputs.sum(), CLIP, micro_batch=4, per_layer=False)
    flat = torch.zeros(clipped.size)
    clipped.add_to(flat, coefficients, torch.zeros(1), None, seeds_of)
    assert_allclose(flat.double().norm(), KEPT * CLIP, rtol=2e-6)


class _RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
        return x - self.mean


class _LastSeen(nn.Module):
    def forward(self, x):
        self.last = x
        return x


@pytest.mark.parametrize(("layer", "attribute"), [(_RunningMean(), "mean"), (_LastSeen(), "last")])
def test_layers_that_keep_what_they_saw_are_refused_by_name(layer, attribute):
    model = nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 3))
    clipped = ClippedSum(model, cross_entropy, CLIP, micro_batch=1, per_layer=False)
    with pytest.raises(ValueError, match=rf"layer '1', a {type(layer).__name__}, which sets '{attribute}'"):
        clipped.add_to(torch.zeros(clipped.size), torch.ones(3, 4), torch.zeros(3, dtype=torch.long), None, seeds_of)


def test_a_parameter_may_be_one_number():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            return self.scale * x

    clipped = ClippedSum(Scaled(), lambda outputs, targets: outputs.sum(), 10.0, micro_batch=2, per_layer=False)
    flat = torch.zeros(1)
    clipped.add_to(flat, torch.tensor([1.0, 2.0, 4.0]), torch.zeros(3), None, seeds_of)
    assert flat.tolist() == [7.0]
