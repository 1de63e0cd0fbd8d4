"""The gradient of an example must not depend on its position in a micro-batch, whatever kernels do on this processor.

Operations below depend on positions on every processor. Beside them is what kernels of some processors do.
"""

import warnings

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from minsep.training.torch.clipping import ClippedSum
from minsep.training.torch.methods import OneByOne, Vmapped
from minsep.training.torch.positions import Way

ONE_BY_ONE = "depend on the places of examples in a micro-batch of 4, .* examples one by one, which is slower"


def seeds_of(part):
    return [place.to_bytes(32, "big") for place in range(part.start, part.stop)]


def affected(examples, width):
    """Whether the bits of outputs depend on positions: a setting of each test."""
    return True


def one_bit_up(values):
    """Values whose rows of the second half are one bit larger."""
    there = torch.arange(len(values)) >= (len(values) + 1) // 2
    there = there.reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(there, torch.nextafter(values, torch.full_like(values, torch.inf)), values)


class OneBitUp(torch.autograd.Function):
    @staticmethod
    def forward(values):
        return values.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def vmap(info, dimensions, values):
        values = values.movedim(dimensions[0], 0)
        return (one_bit_up(values) if affected(*values.shape[:: values.dim() - 1]) else values.clone()), 0


class SharedProduct(torch.autograd.Function):
    """A product whose rows depend on positions if all examples share one matrix."""

    @staticmethod
    def forward(inputs, weight):
        return inputs @ weight.T

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        return gradient @ weight, gradient.T @ inputs

    @staticmethod
    def vmap(info, dimensions, inputs, weight):
        inputs = inputs.movedim(dimensions[0], 0)
        if dimensions[1] is None:
            return one_bit_up((inputs[:, :, None, :] * weight).sum(-1)), 0
        return (inputs[:, :, None, :] * weight.movedim(dimensions[1], 0)[:, None]).sum(-1), 0


class Uneven(nn.Module):
    """One weight, and an operation that depends on positions."""

    def __init__(self, start=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(start))

    def forward(self, x):
        return OneBitUp.apply(self.weight * x)


class UnevenProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 2))

    def forward(self, x):
        return SharedProduct.apply(x, self.weight)


def above(outputs, level):
    """A loss with a kink at a level: the gradient is that of the outputs above it, and zero at and below it."""
    return torch.relu(outputs - level).sum()


def clipped_of(model, loss=above, micro_batch=4, clipping="vmap"):
    return ClippedSum(model, loss, 1.0, micro_batch, per_layer=False, clipping=clipping)


def sum_of(clipped, inputs, targets):
    flat = torch.zeros(clipped.size, dtype=torch.float64)
    clipped.add_to(flat, inputs, targets, None, seeds_of)
    return flat


def way_of(clipped):
    return list(clipped._positions._ways.values())[-1]


@pytest.mark.parametrize("clipping", ["vmap", "ghost"])
def test_an_example_without_a_gradient_does_not_move_the_gradients_of_others(clipping):
    """Two examples lie on a kink. One that stands before them moves one of them up by a bit, and its gradient to 1."""
    clipped = clipped_of(Uneven(), clipping=clipping)
    inputs, levels = torch.tensor([[-5.0], [1.0], [1.0]]), torch.ones(3, 1)
    with pytest.warns(UserWarning, match=ONE_BY_ONE):
        without = sum_of(clipped, inputs[1:], levels[1:])
    assert without.tolist() == sum_of(clipped, inputs, levels).tolist() == [0.0]
    assert way_of(clipped).size == 1


def test_weights_that_examples_do_not_share_are_tried_first():
    clipped = clipped_of(UnevenProduct())
    inputs, levels = torch.tensor([[-5.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), torch.ones(3, 1)
    assert sum_of(clipped, inputs, levels).tolist() == sum_of(clipped, inputs[1:], levels[1:]).tolist() == [0.0, 0.0]
    assert way_of(clipped).size == 4
    assert way_of(clipped).method is not clipped._method


def test_weights_apart_have_the_gradients_of_shared_ones():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Conv1d(4, 3, 2), nn.Flatten(), nn.Linear(6, 3), nn.LayerNorm(3))
    model[1].weight.requires_grad_(False)
    clipped = clipped_of(model, nn.functional.cross_entropy)
    arguments = torch.randint(5, (6, 4)), torch.randint(3, (6,)), lambda: [bytes(32)] * 6
    names = list(clipped.parameters)
    totals = []
    for apart in (False, True):
        gradients = Vmapped(clipped.objective, apart)(*arguments)
        total = {name: torch.zeros(value.numel(), dtype=torch.float64) for name, value in clipped.parameters.items()}
        gradients.add_to(total, names, torch.ones(6, dtype=torch.float64))
        totals.append(torch.cat(list(total.values())))
    torch.testing.assert_close(*totals, atol=1e-5, rtol=1e-5)


def test_a_size_at_which_bits_agree_is_chosen(monkeypatch):
    monkeypatch.setattr(f"{__name__}.affected", lambda examples, width: examples % 8 != 0)
    clipped = clipped_of(Uneven(), micro_batch=5)
    with pytest.warns(UserWarning, match=r"in a micro-batch of 5, .* minsep takes examples 8 at a time\.$"):
        sum_of(clipped, torch.ones(3, 1), torch.ones(3, 1))
    assert way_of(clipped).size == 8
    monkeypatch.setattr(f"{__name__}.affected", lambda examples, width: examples > 2)
    clipped = clipped_of(Uneven(), micro_batch=5)
    with pytest.warns(UserWarning, match=r"minsep takes examples 2 at a time\.$"):
        sum_of(clipped, torch.ones(3, 1), torch.ones(3, 1))
    assert way_of(clipped).size == 2


def test_positions_are_compared_again_when_shapes_or_threads_change(monkeypatch):
    monkeypatch.setattr(f"{__name__}.affected", lambda examples, width: width == 3 or torch.get_num_threads() == 3)
    clipped = clipped_of(Uneven())
    sum_of(clipped, torch.ones(3, 2), torch.ones(3, 2))
    assert way_of(clipped) == Way(clipped._method, 4)
    with pytest.warns(UserWarning, match=ONE_BY_ONE):
        sum_of(clipped, torch.ones(3, 3), torch.ones(3, 3))
    sum_of(clipped, torch.ones(3, 2), torch.ones(3, 2))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        sum_of(clipped, torch.ones(3, 2), torch.ones(3, 2))
    finally:
        torch.set_num_threads(before)
    assert [way.size for way in clipped._positions._ways.values()] == [4, 1, 1]


def test_the_choice_depends_on_no_value_of_an_example_or_of_a_trained_parameter():
    """What runs while a way is chosen is the same to the last bit for other examples and other weights."""
    seen = []

    class Watched(Vmapped):
        def __call__(self, inputs, targets, seeds):
            constants = self._objective.constants().values()
            seen[-1].append([inputs.tolist(), targets.tolist(), list(seeds()), [value.tolist() for value in constants]])
            return super().__call__(inputs, targets, seeds)

    for start, inputs in ((1.0, torch.ones(3, 1)), (2.0, torch.full((5, 1), -7.0))):
        clipped = clipped_of(Uneven(start))
        seen.append([])
        clipped._positions.way(Way(Watched(clipped.objective), 4), inputs, torch.zeros(len(inputs), 1))
    assert seen[0]
    assert seen[0] == seen[1]


def test_nothing_is_left_behind_by_the_comparison():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3).eval(), nn.Linear(3, 2))
    clipped = clipped_of(model, nn.functional.cross_entropy)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(0)
    state = torch.get_rng_state()
    sum_of(clipped, torch.ones(3, 3), torch.zeros(3, dtype=torch.long))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert way_of(clipped).size == 4  # dropout moves with its example


def test_examples_that_cannot_be_made_up_run_one_by_one():
    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs[:, :2], targets) * targets.sum() * (targets - 1).sum()

    clipped = clipped_of(nn.Linear(3, 4), loss)
    inputs, targets = torch.ones(2, 3), torch.zeros(2, dtype=torch.long)
    with pytest.warns(
        UserWarning, match="one by one, which is slower. To see whether .* the gradients are zero or not"
    ):
        sum_of(clipped, inputs, targets)
    assert way_of(clipped).size == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sum_of(clipped, inputs, targets)


def test_models_that_vmap_cannot_run_run_one_by_one_as_before():
    class Branching(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    clipped = clipped_of(Branching(3, 2), nn.functional.cross_entropy)
    with pytest.warns(UserWarning, match="vmap cannot run the model, a Branching.*one by one"):
        sum_of(clipped, torch.ones(2, 3), torch.zeros(2, dtype=torch.long))
    assert isinstance(clipped._method, OneByOne)


BATCH = 2048


def values_by_place(layer, candidate, size):
    """The first output for an example at each place of a micro-batch, in one run."""
    parameters = {name: value.detach() for name, value in layer.named_parameters()}
    return vmap(lambda x: functional_call(layer, parameters, (x[None],))[0, 0])(candidate.repeat(size, 1))


def examples_at_a_kink(layer):
    """Examples that have no gradient where they are and a whole one a place further on, as far as this processor can.

    Even and odd places alternate. An example whose output is larger at even places goes to an odd one, with its output
    there as the level.
    """
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(layer.in_features, generator=generator)
    rows = {0: torch.zeros(layer.in_features), 1: torch.zeros(layer.in_features)}
    levels = {0: torch.tensor(1e9), 1: torch.tensor(1e9)}
    for _ in range(300):
        candidate = base + 0.01 * torch.randn(layer.in_features, generator=generator)
        even, odd = values_by_place(layer, candidate, BATCH)[2:4]
        if even != odd:
            place = int(even > odd)
            rows[place], levels[place] = candidate, min(even, odd)
    places = torch.arange(BATCH - 1) % 2
    return torch.stack([rows[0], rows[1]])[places], torch.stack([levels[0], levels[1]])[places]


@pytest.mark.parametrize("shape", [(30, 9), (13, 7), (5, 8)])
def test_one_example_cannot_move_a_batch_that_an_adversary_chose(shape):
    """An example with gradient 0, before 2,047 others: with AVX-512 it moved the sum by up to 2,047 clip norms."""
    torch.manual_seed(0)
    layer = nn.Linear(*shape)
    inputs, levels = examples_at_a_kink(layer)
    clipped = clipped_of(layer, lambda outputs, level: torch.relu(outputs[0, 0] - level[0]), micro_batch=BATCH)
    without = sum_of(clipped, inputs, levels)
    more = torch.cat([torch.zeros(1, shape[0]), inputs]), torch.cat([torch.tensor([1e9]), levels])
    assert float((sum_of(clipped, *more) - without).norm()) <= 1e-9
