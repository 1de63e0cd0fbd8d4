"""What an example draws on its way depends on (secret key, step, index) alone."""

import math
import random

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn

from minsep.randomness import Key
from minsep.training.randomness import ExampleSeeds
from minsep.training.torch import PrivateTraining
from minsep.training.torch.clipping import ClippedSum
from minsep.training.torch.randomness import SeededItems
from tests.training.small import EXAMPLES, TWO_WORKERS, arguments, data, mechanism_of, options, train, weights_of

ONE_WORKER = {**TWO_WORKERS, "num_workers": 1}


class Augmented(torch.utils.data.Dataset):
    """Examples with noise from the global generators, which they draw in the order in which they are asked for."""

    def __init__(self, source):
        self._source = source
        self._inputs, self._targets = data()

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        return self._inputs[index] + self.draw(), self._targets[index]

    def draw(self):
        match self._source:
            case "torch":
                return torch.randn(5)
            case "numpy":
                return torch.from_numpy(np.random.standard_normal(5).astype(np.float32))  # noqa: NPY002
            case "python":
                return torch.tensor([random.gauss(0, 1) for _ in range(5)])
            case "all":
                return torch.randn(5) + np.random.random() + random.random()  # noqa: NPY002


class JitteringCollate:
    """A collate function that draws, as one for masked language models does."""

    def __call__(self, items):
        inputs, targets = torch.utils.data.default_collate(items)
        return inputs + torch.randn_like(inputs), targets


def trainer_of(dropout=0.0, seed=7, **more):
    return PrivateTraining(*arguments(dropout=dropout), mechanism_of(), seed=seed, **options(), **more)


def run(trainer, dataset, until=None, **loading):
    for some, targets in trainer.loader(dataset, **loading):
        trainer.step(some, targets)
        if trainer.steps == until:
            return trainer
    return trainer


@pytest.mark.parametrize("source", ["torch", "numpy", "python"])
def test_an_item_does_not_depend_on_who_else_is_in_the_batch(source):
    items = SeededItems(Augmented(source), ExampleSeeds(Key.from_seed(1)))
    _, together = items.__getitems__((4, [2, 9]))
    (alone,) = items.__getitems__((4, [9]))
    (later,) = items.__getitems__((5, [9]))
    assert torch.equal(together[0], alone[0])
    assert not torch.equal(alone[0], later[0])
    (other_key,) = SeededItems(Augmented(source), ExampleSeeds(Key.from_seed(2))).__getitems__((4, [9]))
    assert not torch.equal(alone[0], other_key[0])


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of one core
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TWO_WORKERS, {}),
        pytest.param({}, ONE_WORKER, marks=pytest.mark.slow),
        pytest.param(ONE_WORKER, TWO_WORKERS, marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_a_run_is_the_same_with_any_number_of_workers_and_when_resumed(before, after, tmp_path):
    dataset = Augmented("all")
    straight = weights_of(run(trainer_of(dropout=0.5), dataset).model)
    first = run(trainer_of(dropout=0.5), dataset, until=5, **before)
    first.save(tmp_path / "run.checkpoint")
    torch.manual_seed(len(before))
    np.random.seed(3)  # noqa: NPY002
    random.seed(4)
    resumed = PrivateTraining.resume(tmp_path / "run.checkpoint", *arguments(dropout=0.5), mechanism_of(), **options())
    assert_array_equal(weights_of(run(resumed, dataset, **after).model), straight)


@pytest.mark.parametrize("source", ["torch", "numpy", "python"])
def test_seeds_of_users_do_not_make_augmentation_public(source):
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        # The same batches in both, all examples once in four steps, and a fresh key for what examples draw.
        trainer = trainer_of(seed=7)
        trainer._run.example_seeds = ExampleSeeds(Key.fresh())
        weights.append(weights_of(run(trainer, Augmented(source)).model))
    assert not np.array_equal(*weights)


def test_generators_of_users_are_left_as_they_were():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    expected = (torch.rand(1).item(), np.random.random(), random.random())  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    trainer = trainer_of(dropout=0.5)
    for source in ("torch", "numpy", "python"):
        dataset = Augmented(source)
        for place, (some, targets) in enumerate(trainer.loader(dataset, generator=torch.Generator())):
            trainer.step(some, targets)
            if place == 2:
                break
    # Making the model drew from torch's generator: it is made anew, so that only the training is in between.
    torch.manual_seed(5)
    trainer = PrivateTraining(*_without_moving(arguments), mechanism_of(), seed=7, **options())
    train(trainer, steps=3)
    assert (torch.rand(1).item(), np.random.random(), random.random()) == expected  # noqa: NPY002


def _without_moving(make):
    with torch.random.fork_rng():
        return make()


def test_a_collate_function_draws_from_the_secret_key_and_the_step():
    inputs, targets = data()
    dataset = torch.utils.data.TensorDataset(inputs, targets)
    weights = []
    for global_seed in (0, 1):
        torch.manual_seed(global_seed)
        weights.append(weights_of(run(trainer_of(), dataset, collate_fn=JitteringCollate()).model))
    assert_array_equal(*weights)
    plain = weights_of(run(trainer_of(), dataset).model)
    assert not np.array_equal(weights[0], plain)


def test_a_dataset_without_items_is_refused():
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([])

    for dataset in (Endless(), {1, 2}):
        with pytest.raises(ValueError, match="dataset is a .*, but it must have __getitem__"):
            trainer_of().loader(dataset)


# What examples draw in the forward pass ------------------------------------------------------------------------------


class Drawing(nn.Module):
    """A model that draws by many of torch's functions."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.attention = nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 8, 0.3, batch_first=True)
        self.pick = nn.Linear(8, 3)

    def forward(self, x):
        h = nn.functional.dropout(self.first(x), 0.5)
        h = h + torch.randn_like(h) + torch.rand(1, 8) + torch.randn(8) + torch.rand(())
        h = h * torch.bernoulli(torch.full_like(h, 0.7)) + torch.randint(0, 3, (8,)) + torch.normal(h.detach(), 1.0)
        h = h + nn.functional.gumbel_softmax(h) + nn.functional.alpha_dropout(h, 0.2, training=True)
        h = h[:, torch.randperm(8)]
        h = h[:, torch.multinomial(h.detach().softmax(-1), 8).flatten()]
        h = h + torch.multinomial(h.detach().expand(3, 8).softmax(-1), 1).sum()
        h = h + torch.multinomial(torch.ones(7, 3), 3)[0, 0]
        return self.pick(self.attention(h[:, None, :])[:, 0])


def gradient_sum(model, inputs, targets, indices, micro_batch, step=3, key=1):
    clipped = ClippedSum(model, nn.functional.cross_entropy, 1.0, micro_batch=micro_batch, per_layer=False)
    flat, seeds = torch.zeros(clipped.size, dtype=clipped.dtype), ExampleSeeds(Key.from_seed(key))
    clipped.add_to(flat, inputs, targets, None, lambda part: [seeds.of(step, index) for index in indices[part]])
    return flat


@pytest.mark.parametrize("make", [Drawing, lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 3))])
def test_what_an_example_draws_does_not_depend_on_the_others(make):
    model = make().double()
    inputs, targets = torch.randn(7, 6, dtype=torch.float64), torch.randint(0, 3, (7,))
    indices = [3, 8, 20, 21, 40, 41, 50]
    alone = [gradient_sum(model, inputs[[i]], targets[[i]], [indices[i]], 1) for i in range(7)]
    for micro_batch, kept in ((7, range(7)), (3, range(7)), (3, (0, 2, 3, 6)), (2, (1, 4, 5, 6))):
        kept = list(kept)
        torch.manual_seed(micro_batch)
        whole = gradient_sum(model, inputs[kept], targets[kept], [indices[i] for i in kept], micro_batch)
        torch.testing.assert_close(whole, sum(alone[i] for i in kept))
    assert not torch.allclose(alone[0], gradient_sum(model, inputs[[0]], targets[[0]], [indices[0]], 1, step=4))
    assert not torch.allclose(alone[0], gradient_sum(model, inputs[[0]], targets[[0]], [indices[0]], 1, key=2))


def test_dropout_drops_its_share_and_the_examples_differ():
    class Masks(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(500))

        def forward(self, x):
            return (nn.functional.dropout(x, 0.3) * self.weight).sum()

    seeds = ExampleSeeds(Key.from_seed(0))
    masks = []
    for index in range(20):
        clipped = ClippedSum(Masks(), lambda output, target: output, 1e9, micro_batch=1, per_layer=False)
        flat = torch.zeros(500)
        clipped.add_to(flat, torch.ones(1, 500), torch.zeros(1), None, lambda part, index=index: [seeds.of(0, index)])
        masks.append(flat != 0)
    kept = torch.stack(masks).double()
    # 10,000 coins: five standard deviations, false alarm 6e-7. Any two masks agree in 58 % of 500 places.
    assert abs(kept.mean() - 0.7) < 5 * math.sqrt(0.21 / 10_000)
    agreement = [(kept[i] == kept[j]).double().mean().item() for i in range(20) for j in range(i)]
    assert max(agreement) < 0.75


def test_a_gradient_does_not_depend_on_the_size_of_its_micro_batch():
    """Near a kink a last bit decides, and kernels for other sizes round otherwise: examples must not see each other."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    inputs = torch.randn(40, 64)
    with torch.no_grad():
        # The first unit is 0 for every example up to its last bit, and its weights in the second layer are large.
        inputs -= torch.outer(model[0](inputs)[:, 0] / model[0].weight[0].square().sum(), model[0].weight[0])
        model[2].weight[0, 0] = 1e4
    targets = torch.zeros(40)
    seeds = ExampleSeeds(Key.from_seed(0))

    def clipped(count):
        found = ClippedSum(model, lambda outputs, target: outputs.sum(), 1.0, micro_batch=64, per_layer=False)
        flat = torch.zeros(found.size, dtype=torch.float64)
        found.add_to(flat, inputs[:count], targets[:count], None, lambda part: [seeds.of(0, 0)] * len(range(40)[part]))
        return flat

    for count in (1, 2, 3, 4, 7, 15, 16, 31, 39):
        assert (clipped(count + 1) - clipped(count)).norm() <= 1.0


class _Calling(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.layer, self.draw = nn.Linear(6, 3), draw

    def forward(self, x):
        return self.layer(x) + self.draw()


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: torch.randn(3, generator=torch.Generator()), "with its own generator"),
        (lambda: float(np.random.random()), "draws from np.random"),  # noqa: NPY002
        (random.random, "draws from random"),
        (np.random.standard_normal, "draws from np.random"),
    ],
)
def test_numbers_that_examples_would_share_are_refused(draw, words):
    inputs, targets = torch.randn(4, 6), torch.randint(0, 3, (4,))
    with pytest.raises(ValueError, match=words):
        gradient_sum(_Calling(draw), inputs, targets, [0, 1, 2, 3], 2)


class _Holding(nn.Module):
    def __init__(self, held, draw):
        super().__init__()
        self.layer, self.held, self.draw = nn.Linear(6, 3), held, draw

    def forward(self, x):
        return self.layer(x) + self.draw(self)


def _count(layer):
    layer.held += 1
    return layer.held


@pytest.mark.parametrize(
    ("held", "draw"),
    [
        (np.random.default_rng(0), lambda layer: layer.held.random()),
        (random.Random(0), lambda layer: layer.held.random()),
        (np.random.RandomState(0), lambda layer: layer.held.random_sample()),
        (0, _count),
    ],
    ids=["generator", "python", "legacy", "counter"],
)
def test_generators_and_counters_that_a_layer_keeps_are_refused(held, draw):
    inputs, targets = torch.randn(4, 6), torch.randint(0, 3, (4,))
    with pytest.raises(ValueError, match="layer '', a _Holding, which sets 'held'"):
        gradient_sum(_Holding(held, draw), inputs, targets, [0, 1, 2, 3], 2)


@torch.library.custom_op("minsep_tests::hidden_draw", mutates_args=())
def hidden_draw(x: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(x)


@hidden_draw.register_vmap
def _(info, in_dims, x):
    return hidden_draw(x), in_dims[0]


def test_draws_that_hide_in_an_operation_are_refused():
    inputs, targets = torch.randn(4, 6), torch.randint(0, 3, (4,))
    model = nn.Linear(6, 3)

    class Hiding(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = model

        def forward(self, x):
            return self.layer(x + hidden_draw(x))

    with pytest.raises(ValueError, match="draws random numbers in an operation of its own"):
        gradient_sum(Hiding(), inputs, targets, [0, 1, 2, 3], 2)


def test_a_loader_that_is_entered_leaves_the_generator_and_takes_the_default_collate():
    torch.manual_seed(1)
    expected = torch.rand(1)
    trainer = trainer_of()
    torch.manual_seed(1)
    run(trainer, Augmented("torch"), until=2, collate_fn=None)
    assert torch.equal(torch.rand(1), expected)


def test_a_resumed_run_may_have_another_micro_batch(tmp_path):
    straight = trainer_of(dropout=0.5)
    train(straight)
    first = trainer_of(dropout=0.5)
    train(first, steps=4)
    first.save(tmp_path / "run.checkpoint")
    other = {**options(), "micro_batch": 1}
    resumed = PrivateTraining.resume(tmp_path / "run.checkpoint", *arguments(dropout=0.5), mechanism_of(), **other)
    train(resumed)
    np.testing.assert_allclose(weights_of(resumed.model), weights_of(straight.model), atol=1e-5)
