"""A model or a loss that remembers what it saw is refused, wherever Python lets us see its memory."""

import itertools
import os
import threading
from collections import deque
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from minsep.training.torch import PrivateTraining
from minsep.training.torch.reach import held_by
from tests.training.torch.images import CLIP, EXAMPLES, cross_entropy, mechanism_of

pytestmark = pytest.mark.filterwarnings("ignore:vmap cannot run")

SEEN = []
STATE = {"mean": torch.zeros(3)}


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def update(self, outputs):
        self.mean += outputs.detach().mean(0)


class Memory:
    shared = torch.zeros(3)

    def __init__(self):
        self.mean, self.count = torch.zeros(3), 0

    def of_outputs(self, outputs, targets):
        self.mean = self.mean + outputs.detach()[0]
        return cross_entropy(outputs - self.mean, targets)

    def __call__(self, outputs, targets):
        self.count += 1
        return cross_entropy(outputs / self.count, targets)


class Slots:
    __slots__ = ("mean",)

    def __init__(self):
        self.mean = torch.zeros(4)


def updated(memory):
    """A loss whose closure holds something that is updated in place."""

    def loss(outputs, targets):
        memory.update(outputs)
        return cross_entropy(outputs - memory.mean, targets)

    return loss


def by_default(outputs, targets, mean=torch.zeros(3)):  # noqa: B008
    mean += outputs.detach()[0]
    return cross_entropy(outputs - mean, targets)


def by_global(outputs, targets):
    STATE["mean"] = STATE["mean"] + outputs.detach()[0]
    return cross_entropy(outputs - STATE["mean"], targets)


def by_attribute(outputs, targets):
    by_attribute.mean = by_attribute.mean + outputs.detach()[0]
    return cross_entropy(outputs - by_attribute.mean, targets)


by_attribute.mean = torch.zeros(3)


def by_class(outputs, targets):
    Memory.shared = Memory.shared + outputs.detach()[0]
    return cross_entropy(outputs - Memory.shared, targets)


# A global may hold what outlived the transformation in which it was made: another such tensor is a change.
def by_helper(outputs, targets):
    return by_global(outputs, targets)


def by_partial(mean, outputs, targets):
    mean += outputs.detach()[0]
    return cross_entropy(outputs - mean, targets)


def by_array():
    mean = np.zeros(3, dtype=np.float32)

    def loss(outputs, targets):
        mean[:] += outputs.detach().numpy()[0]
        return cross_entropy(outputs - torch.from_numpy(mean), targets)

    return loss


def by_name():
    mean = torch.zeros(3)

    def loss(outputs, targets):
        nonlocal mean
        mean = mean + outputs.detach()[0]
        return cross_entropy(outputs - mean, targets)

    return loss


def by_gradient():
    scale = torch.ones(3, requires_grad=True)

    def loss(outputs, targets):
        assert float(outputs.sum()) < torch.inf  # so that examples are taken one by one
        return cross_entropy(outputs * scale, targets)

    return loss


def training_of(model, loss):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return PrivateTraining(
        model, loss, optimizer, mechanism_of(rate=0.2), num_examples=EXAMPLES, clip_norm=CLIP, seed=1
    )


def take_a_step(trainer):
    generator = torch.Generator().manual_seed(3)
    batch = next(trainer.batches())
    inputs = torch.randn(len(batch), 4, generator=generator)
    trainer.step(inputs, torch.randint(0, 3, (len(batch),), generator=generator))


LOSSES = {
    "a module in the closure": (lambda: updated(Module()), "the layer '', a Module, which sets 'mean'"),
    "a variable of the closure": (by_name, "the function 'by_name.<locals>.loss', which sets 'mean'"),
    "an array in the closure": (by_array, "the function 'by_array.<locals>.loss', which sets 'mean'"),
    "a default argument": (lambda: by_default, "the function 'by_default', which sets 'a default argument'"),
    "a global": (lambda: by_global, "the function 'by_global', which sets 'STATE'"),
    "a global of a helper": (lambda: by_helper, "the function 'by_global', which sets 'STATE'"),
    "an attribute of the function": (lambda: by_attribute, "the function 'by_attribute', which sets 'mean'"),
    "a partial": (lambda: partial(by_partial, torch.zeros(3)), "which sets"),
    "a method": (lambda: Memory().of_outputs, "an object of the class 'Memory', which sets 'mean'"),
    "an object that is called": (Memory, "an object of the class 'Memory', which sets 'count'"),
    "a class": (lambda: by_class, "the class 'Memory', which sets 'shared'"),
    "a gradient that nobody clips": (by_gradient, "the function 'by_gradient.<locals>.loss', which sets 'scale'"),
}


@pytest.mark.parametrize("where", LOSSES)
def test_a_loss_that_remembers_is_refused(where):
    make, words = LOSSES[where]
    trainer = training_of(nn.Linear(4, 3), make())
    with pytest.raises(ValueError, match=f"loss has .*{words}"):
        take_a_step(trainer)
    with pytest.raises(RuntimeError, match="interrupted"):
        take_a_step(trainer)


class Remembering(nn.Module):
    """Keeps what it saw where it is not an attribute of a layer."""

    def __init__(self, how):
        super().__init__()
        self.linear, self.how = nn.Linear(4, 3), how
        self.held = {
            "queue": deque([torch.zeros(4)], maxlen=1), "object": SimpleNamespace(mean=torch.zeros(4)),
            "slots": Slots(), "array": np.zeros(4, dtype=np.float32), "modules": [nn.BatchNorm1d(4)],
            "bytes": bytearray(4), "keys": {0.0: None},
        }.get(how)  # fmt: skip

    def forward(self, inputs):
        seen = inputs.detach()[0]
        match self.how:
            case "queue":
                self.held.append(self.held[0] + seen)
            case "object" | "slots":
                self.held.mean = self.held.mean + seen
            case "array":
                self.held += seen.numpy()
            case "modules":
                self.held[0].running_mean += seen
            case "keys":
                self.held[float(seen[0])] = self.held.pop(next(iter(self.held)))
            case "bytes":
                self.held[0] = int(abs(seen[0])) + 1
            case "global":
                SEEN.append(seen)
        return self.linear(inputs)


@pytest.mark.parametrize("how", ["queue", "object", "slots", "array", "modules", "bytes", "keys", "global"])
def test_a_model_that_remembers_outside_of_its_layers_is_refused(how):
    SEEN.clear()
    with pytest.raises(ValueError, match="model has .* in its forward pass"):
        take_a_step(training_of(Remembering(how), cross_entropy))


def test_a_hook_that_remembers_is_refused():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    trainer, totals = training_of(model, cross_entropy), [torch.zeros(3)]

    def hook(layer, inputs, outputs):
        totals[0] = totals[0] + outputs.detach()[0]
        return outputs - totals[0]

    model[1].register_forward_hook(hook)  # after the constructor
    with pytest.raises(ValueError, match="the function '.*hook', which sets 'totals'"):
        take_a_step(trainer)


def test_a_buffer_whose_sum_of_bits_stays_is_seen():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)
            self.register_buffer("usage", torch.full((4,), 100))

        def forward(self, inputs):
            self.usage.data[0] -= 1
            self.usage.data[2] += 1
            return self.linear(inputs)

    with pytest.raises(ValueError, match="a Counting, which sets 'usage'"):
        take_a_step(training_of(Counting(), cross_entropy))


def test_losses_that_remember_nothing_are_accepted():
    weights, table = torch.ones(3), {"smoothing": 0.1}
    model = nn.Linear(4, 3)

    def loss(outputs, targets):
        penalty = 0.0 * model.weight.detach().sum()
        return cross_entropy(outputs, targets, weight=weights, label_smoothing=table["smoothing"]) + penalty

    for each in (loss, nn.CrossEntropyLoss(), partial(cross_entropy, label_smoothing=0.1), cross_entropy):
        trainer = training_of(model, each)
        take_a_step(trainer)
        assert trainer.steps == 1


def test_what_is_reached_twice_belongs_to_the_first():
    model = nn.Linear(4, 3)
    held = held_by(model=model, loss=lambda outputs, targets: model.bias.sum())
    tensors = {owner.root for owner, values in held.items() for value in values if isinstance(value, torch.Tensor)}
    assert tensors == {"model"}


def hidden(how):
    """A function whose memory Python does not show: it returns a factor that grows with every call."""
    local, table, calls = threading.local(), dict.fromkeys(range(1000), 1.0), itertools.count(1)
    local.calls = 0.0

    def factor():
        match how:
            case "an iterator":
                return next(calls)
            case "a variable of a thread":
                local.calls += 1
                return local.calls
            case "a large table":
                table[999] += 1.0
                return table[999]
            case "the environment":
                os.environ["MINSEP_TEST"] = str(int(os.environ.get("MINSEP_TEST", "0")) + 1)
                return int(os.environ["MINSEP_TEST"])

    return factor


@pytest.mark.parametrize("how", ["an iterator", "a variable of a thread", "a large table", "the environment"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_memory_that_cannot_be_seen_changes_a_gradient_that_is_computed_again(how, one_by_one, monkeypatch):
    monkeypatch.setenv("MINSEP_TEST", "0")
    factor = hidden(how)

    def loss(outputs, targets):
        assert not one_by_one or float(outputs.sum()) < torch.inf
        return factor() * cross_entropy(outputs, targets)

    with pytest.raises(ValueError, match="loss remembers what it saw|which sets 'table'"):
        take_a_step(training_of(nn.Linear(4, 3), loss))


def test_a_custom_function_that_mixes_a_micro_batch_is_refused():
    class Centred(torch.autograd.Function):
        @staticmethod
        def forward(outputs):
            return outputs.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return gradient

        @staticmethod
        def vmap(info, dimensions, outputs):
            return outputs - outputs.mean(dimensions[0], keepdim=True), dimensions[0]

    with pytest.raises(ValueError, match="The gradient of an example changes by .* when it is computed again"):
        take_a_step(
            training_of(nn.Linear(4, 3), lambda outputs, targets: cross_entropy(Centred.apply(outputs), targets))
        )


def test_what_a_model_swaps_in_its_forward_pass_is_seen():
    class Swapping(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.last = nn.Linear(4, 3), nn.Identity()

        def forward(self, inputs):
            outputs = self.last(self.linear(inputs))
            if float(outputs.sum()) < torch.inf:
                self.last = nn.Tanh()
            return outputs

    functions = {"last": torch.tanh}

    def loss(outputs, targets):
        outputs = functions["last"](outputs)
        if float(outputs.sum()) < torch.inf:
            functions["last"] = torch.sigmoid
        return cross_entropy(outputs, targets)

    with pytest.raises(ValueError, match="the layer 'last', a Tanh"):
        take_a_step(training_of(Swapping(), cross_entropy))
    with pytest.raises(ValueError, match="which sets 'functions'"):
        take_a_step(training_of(nn.Linear(4, 3), loss))
