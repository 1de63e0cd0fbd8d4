"""Ghost clipping is clipping: equal to rounding, for every layer and for compositions of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import nn

from minsep.training.torch.clipping import ClippedSum
from minsep.training.torch.ghost.uses import Lookup, Product, Uses
from tests.training.torch.images import CLIP, cross_entropy

WORDS, LENGTH, WIDTH = 11, 6, 4


def seeds_of(part):
    return [bytes([i]) * 32 for i in range(part.start, part.stop)]


def sums(model, inputs, targets, loss=cross_entropy, scales=None, micro_batch=4, per_layer=False, clip_norm=CLIP):
    """By vmap and by ghost clipping."""
    found = []
    for clipping in ("vmap", "ghost"):
        clipped = ClippedSum(model, loss, clip_norm, micro_batch, per_layer, clipping)
        flat = torch.zeros(clipped.size, dtype=torch.float64)
        given_scales = None if scales is None else torch.rand(clipped.size, generator=scales.manual_seed(0)) + 0.1
        clipped.add_to(flat, inputs, targets, given_scales, seeds_of)
        found.append(flat)
    return found


def assert_equal(by_vmap, by_ghost):
    assert float(by_vmap.norm()) > 0
    assert_allclose(by_ghost, by_vmap, atol=3e-6 * float(by_vmap.abs().max()))


class Called(nn.Module):
    def __init__(self, layer, call):
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x):
        return self.call(self.layer, x)


LAYERS = {
    "linear": (lambda: nn.Linear(WIDTH, 5), (WIDTH,)),
    "linear over places": (lambda: nn.Linear(WIDTH, 5), (LENGTH, WIDTH)),
    "long linear": (lambda: nn.Linear(30, 40), (2, 30)),
    "linear without bias": (lambda: nn.Linear(WIDTH, 5, bias=False), (2, 3, WIDTH)),
    "convolution": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 5)),
    "strided convolution": (lambda: nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), (2, 7, 8)),
    "grouped convolution": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 5, 5)),
    "wide convolution": (lambda: nn.Conv2d(20, 30, 3), (20, 3, 4)),
    "same convolution": (lambda: nn.Conv2d(2, 3, 3, padding="same"), (2, 5, 5)),
    "circular convolution": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 5, 5)),
    "convolution in one dimension": (lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1, dilation=2), (2, 9)),
    "layer norm": (lambda: nn.LayerNorm(WIDTH), (LENGTH, WIDTH)),
    "layer norm over two": (lambda: nn.LayerNorm((3, WIDTH)), (2, 3, WIDTH)),
    "layer norm without bias": (lambda: nn.LayerNorm(WIDTH, bias=False), (LENGTH, WIDTH)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 3, 3)),
    "no rule": (lambda: nn.ConvTranspose1d(WIDTH, 3, 2), (WIDTH, LENGTH)),
    "root mean square norm": (lambda: nn.RMSNorm(WIDTH), (LENGTH, WIDTH)),
}


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, scaled, per_layer):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    layer = make()
    inputs = 2 * torch.randn(5, *shape)
    size = layer(inputs[:1]).numel()
    model = nn.Sequential(layer, nn.Flatten(), nn.Tanh(), nn.Linear(size, 3))
    targets = torch.randint(0, 3, (5,))
    scales = torch.Generator() if scaled else None
    assert_equal(*sums(model, inputs, targets, scales=scales, per_layer=per_layer))


class Language(nn.Module):
    def __init__(self, words=WORDS, width=WIDTH, tied=True, padding=None, twice=False, places=LENGTH):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width, padding_idx=padding), nn.Embedding(places, width)
        self.inner, self.head = nn.Linear(width, width), nn.Linear(width, words, bias=False)
        self.twice = twice
        if tied:
            self.head.weight = self.words.weight

    def forward(self, index):
        x = self.words(index) + self.places(torch.arange(index.shape[1]))
        if self.twice:
            x = x + torch.tanh(self.inner(x)) + self.words(index.flip(1))
        return self.head(torch.tanh(self.inner(x))).transpose(1, 2)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("words", [WORDS, 300], ids=["rows", "places"])
@pytest.mark.parametrize("options", [{}, {"tied": False}, {"padding": 2}, {"twice": True}], ids=str)
def test_embeddings_tied_weights_and_layers_called_twice(options, words, scaled):
    torch.manual_seed(0)
    model = Language(words, width=30 if words > WORDS else WIDTH, **options)
    index = torch.randint(0, WORDS, (6, LENGTH))
    index[0] = index[0, 0]
    assert_equal(*sums(model, index, index.roll(1, 1), scales=torch.Generator() if scaled else None))


def test_cross_terms_of_tied_weights_are_against_a_loop():
    """The squared norm of one matrix with products and lookups, instantiated in double precision."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(3, 4, 50, generator=generator), torch.randn(3, 4, 20, generator=generator)
    index, rows = torch.randint(0, 5, (3, 6), generator=generator), torch.randn(3, 6, 20, generator=generator)
    uses = Uses(torch.Size([50, 20]), torch.float32, 3, torch.device("cpu"))
    uses.add(Product(left, right))
    uses.add(Lookup(index, rows))
    assert uses._terms() < 1000
    assert not uses._rows_are_cheaper()
    exact = left.double().mT @ right.double()
    for example, place in ((i, s) for i in range(3) for s in range(6)):
        exact[example, index[example, place]] += rows[example, place]
    found = uses.squared_norms(None)
    assert uses._rows is None
    assert_allclose(found, (exact**2).sum((1, 2)), rtol=1e-10)
    factors, total = torch.tensor([0.5, 2.0, 0.0], dtype=torch.float64), torch.zeros(1000, dtype=torch.float64)
    uses.add_to(total, factors)
    assert_allclose(total, (factors[:, None, None] * exact).sum(0).flatten(), atol=1e-10)


def test_norms_are_never_too_small_when_terms_cancel():
    left = torch.randn(2, 1, 90, generator=torch.Generator().manual_seed(0)).repeat(1, 2, 1)
    right = torch.randn(2, 1, 70, generator=torch.Generator().manual_seed(1)).repeat(1, 2, 1)
    right[:, 1] *= -1
    right[:, 1, 0] += 1e-3
    uses = Uses(torch.Size([90, 70]), torch.float32, 2, torch.device("cpu"))
    uses.add(Product(left, right))
    exact = (left.double().mT @ right.double()).flatten(1).norm(dim=1)
    found = uses.squared_norms(None).sqrt()
    assert bool((found >= exact).all())
    assert_allclose(found, exact, rtol=1e-4)


class Elsewhere(nn.Module):
    """Weights of a layer that are used without calling it."""

    def __init__(self):
        super().__init__()
        self.first, self.attention = nn.Linear(WIDTH, WIDTH), nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = x.to(self.first.weight.dtype)  # this is no use
        x = self.first(x) @ self.first.weight.T + self.scale * x
        return self.last(self.attention(x, x, x, need_weights=False)[0].mean(1))


def test_weights_that_are_used_elsewhere_have_their_whole_gradient():
    torch.manual_seed(0)
    assert_equal(*sums(Elsewhere(), torch.randn(5, LENGTH, WIDTH), torch.randint(0, 3, (5,))))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = 1 * x
        y = self.first(x)
        x.add_(1.0)
        return self.last(x + y)


def test_inputs_that_are_changed_later_are_noticed():
    torch.manual_seed(0)
    model, inputs, targets = InPlace(), torch.randn(5, WIDTH), torch.randint(0, 3, (5,))
    clipped = ClippedSum(model, cross_entropy, CLIP, 4, False, "ghost")
    flat = torch.zeros(clipped.size, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="modified by an inplace operation|changed in place"):
        clipped.add_to(flat, inputs, targets, None, seeds_of)


def test_dropout_draws_the_same_numbers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 3))
    assert_equal(*sums(model, torch.randn(5, WIDTH), torch.randint(0, 3, (5,))))


def test_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Tanh(), nn.Linear(64, 3))
    with torch.autocast("cpu", torch.bfloat16):
        by_vmap, by_ghost = sums(model, torch.randn(5, 64), torch.randint(0, 3, (5,)))
    assert float((by_vmap - by_ghost).norm()) < 0.01 * float(by_vmap.norm())


def test_every_gradient_is_within_the_clip_norm():
    torch.manual_seed(0)
    model = Language(300, 30, twice=True)
    index = torch.randint(0, 300, (8, LENGTH))
    clipped = ClippedSum(model, cross_entropy, 1e-3, 2, False, "ghost")
    for i in range(8):
        flat = torch.zeros(clipped.size, dtype=torch.float64)
        clipped.add_to(flat, index[i : i + 1], index[i : i + 1], None, seeds_of)
        assert_allclose(flat.norm(), (1 - 2**-14) * 1e-3, rtol=1e-5)
        assert float(flat.norm()) <= 1e-3


def test_a_method_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match='clipping is \'book\', but it must be "auto", "vmap" or "ghost"'):
        ClippedSum(nn.Linear(2, 2), cross_entropy, 1.0, 4, False, "book")


BLOCKS = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "tanh": nn.Tanh,
    "layer norm": lambda: nn.LayerNorm(WIDTH),
    "root mean square norm": lambda: nn.RMSNorm(WIDTH),
    "convolution": lambda: Called(nn.Conv1d(WIDTH, WIDTH, 3, padding=1), lambda layer, x: layer(x.mT).mT),
    "group norm": lambda: Called(nn.GroupNorm(2, WIDTH), lambda layer, x: layer(x.mT).mT),
    "recurrent": lambda: Called(nn.GRU(WIDTH, WIDTH, batch_first=True), lambda layer, x: layer(x)[0]),
    "attention": lambda: Called(nn.MultiheadAttention(WIDTH, 2, batch_first=True), lambda layer, x: layer(x, x, x)[0]),
    "dropout": lambda: nn.Dropout(0.3),
    "residual": lambda: Called(nn.Linear(WIDTH, WIDTH), lambda layer, x: x + layer(torch.relu(layer(x)))),
}


class Composition(nn.Module):
    def __init__(self, blocks, words, tied, shared):
        super().__init__()
        self.words, self.head = nn.Embedding(words, WIDTH), nn.Linear(WIDTH, words, bias=False)
        made = [BLOCKS[name]() for name in blocks]
        self.blocks = nn.ModuleList([*made, made[0]] if shared else made)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, index):
        x = self.words(index)
        for block in self.blocks:
            x = block(x)
        return self.head(x).transpose(1, 2)


@given(
    blocks=st.lists(st.sampled_from(sorted(BLOCKS)), min_size=1, max_size=5),
    words=st.sampled_from([5, 60]),
    tied=st.booleans(),
    shared=st.booleans(),
    micro_batch=st.integers(1, 4),
    per_layer=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=30, deadline=None)
def test_random_compositions(blocks, words, tied, shared, micro_batch, per_layer, seed):
    torch.manual_seed(seed)
    model = Composition(blocks, words, tied, shared)
    index = torch.randint(0, 5, (3, LENGTH))
    by_vmap, by_ghost = sums(model, index, index, micro_batch=micro_batch, per_layer=per_layer)
    assert_allclose(by_ghost, by_vmap, atol=1e-5 * float(by_vmap.abs().max()))


def test_norms_are_within_the_clip_norm_under_autocast():
    """Norms in bfloat16 would be off by up to 2^-9, far beyond the margin of clipping."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))
    inputs, targets = torch.randn(40, 16), torch.randint(0, 3, (40,))
    clipped = ClippedSum(model, cross_entropy, 1e-3, 1, False, "ghost")
    for i in range(40):
        flat = torch.zeros(clipped.size, dtype=torch.float64)
        with torch.autocast("cpu", torch.bfloat16):
            clipped.add_to(flat, inputs[i : i + 1], targets[i : i + 1], None, seeds_of)
        assert float(flat.norm()) <= 1e-3


class Standardised(nn.Conv2d):
    def _conv_forward(self, inputs, weight, bias):
        return super()._conv_forward(inputs, weight - weight.mean(), bias)


class Sparing(nn.Module):
    """Has a layer that it never calls."""

    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, inputs):
        return self.used(inputs.flatten(1)[:, :3])


def _patched():
    layer = nn.Linear(27, 3)
    layer.forward = lambda inputs: nn.functional.linear(inputs, layer.weight * 2, layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


@pytest.mark.parametrize(
    "model",
    [nn.Sequential(Standardised(3, 3, 3), nn.Flatten()), Sparing(), _patched()],
    ids=["another convolution", "a layer never called", "another forward"],
)
def test_layers_that_are_not_what_they_seem(model):
    torch.manual_seed(0)
    by_vmap, by_ghost = sums(model, torch.randn(5, 3, 3, 3), torch.randint(0, 3, (5,)))
    assert_allclose(by_ghost, by_vmap, atol=1e-6)
