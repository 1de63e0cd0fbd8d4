import pytest
import torch
from torch import nn

import minsep
from minsep.training.torch import PrivateTraining
from tests.training.small import TWO_WORKERS
from tests.training.torch.images import CLIP, EXAMPLES, cross_entropy, data, mechanism_of, small_model


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of one core
def test_a_loader_with_workers_trains_as_batches_do():
    inputs, targets = data()
    weights = []
    for workers in (None, {}, TWO_WORKERS):
        model = small_model()
        trainer = PrivateTraining(
            model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism_of(rate=0.03),
            num_examples=EXAMPLES, clip_norm=CLIP, seed=2,
        )  # fmt: skip
        if workers is None:
            pairs = ((inputs[indices], targets[indices]) for indices in trainer.batches())
        else:
            pairs = trainer.loader(torch.utils.data.TensorDataset(inputs, targets), **workers)
        for some, their_targets in pairs:
            trainer.step(some, their_targets)
        assert trainer.steps == 12
        weights.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


class _Counting(torch.utils.data.Dataset):
    """Examples that are their own numbers."""

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        return torch.tensor([float(index)]), torch.zeros(1)


def unamplified_training(**options):
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=5)
    mechanism = minsep.Mechanism(strategy, minsep.Unamplified(min_sep=5, participations=4), noise_multiplier=1.0)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return PrivateTraining(
        model, nn.functional.mse_loss, optimizer, mechanism, num_examples=EXAMPLES, clip_norm=1.0, seed=3, **options
    )


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of one core
@pytest.mark.parametrize(
    "workers", [pytest.param({}, id="none"), pytest.param(TWO_WORKERS, id="two", marks=pytest.mark.slow)]
)
def test_a_loader_that_was_left_goes_on_after_the_last_step(workers):
    expected = [indices.tolist() for indices in unamplified_training().mechanism.batches(EXAMPLES, seed=3)]
    trainer, found = unamplified_training(), []
    loader = trainer.loader(_Counting(), **workers)
    while trainer.steps < 20:
        assert len(loader) == 20 - trainer.steps
        for place, (some, targets) in enumerate(loader):
            if place == 11:  # read, and not trained on
                break
            found.append(some.flatten().int().tolist())
            trainer.step(some, targets)
    assert found == expected


def test_of_two_loaders_the_older_one_ends():
    trainer = unamplified_training()
    older, newer = (iter(trainer.loader(_Counting())) for _ in range(2))
    next(older)
    trainer.step(*next(newer))
    with pytest.raises(RuntimeError, match="A newer loader was started"):
        next(older)
    trainer.step(*next(newer))


def test_a_loader_out_of_order_is_refused():
    with pytest.raises(ValueError, match="in_order is False"):
        unamplified_training().loader(_Counting(), num_workers=2, in_order=False)


@pytest.mark.parametrize("rows", [EXAMPLES - 1, EXAMPLES + 1])
def test_a_dataset_with_another_number_of_rows_is_refused_before_the_first_step(rows):
    dataset = torch.utils.data.TensorDataset(torch.ones(rows, 1), torch.ones(rows, 1))
    with pytest.raises(ValueError, match=f"dataset has {rows} examples, but num_examples is {EXAMPLES}"):
        unamplified_training().loader(dataset)


class Standardised:
    """A collate function that subtracts the mean of the batch."""

    def __call__(self, items):
        inputs, targets = torch.utils.data.default_collate(items)
        return inputs - inputs.mean(), {"y": targets}


def batch_of(collate, indices):
    loader = unamplified_training().loader(_Counting(), collate_fn=collate)
    return loader.collate_fn(loader.dataset.__getitems__((0, indices)))


def test_a_collate_function_cannot_mix_examples():
    inputs, targets = batch_of(Standardised(), [3, 9])
    assert torch.equal(inputs, torch.zeros(2, 1))  # each is its own mean
    assert targets["y"].shape == (2, 1)
    assert torch.equal(batch_of(torch.utils.data.default_collate, [3, 9])[0], torch.tensor([[3.0], [9.0]]))
    assert batch_of(Standardised(), []) == (None, None)


@pytest.mark.parametrize(
    ("collate", "words"),
    [
        (lambda items: torch.zeros(1, int(items[0][0])), r"tensors of shapes \[\(3,\), \(9,\)\] .* fixed length"),
        (lambda items: {"n": len(items)}, "'n' of type int, but it must return tensors"),
        (lambda items: {"n": torch.tensor(1)}, r"'n' of shape \(\) for one example"),
        (lambda items: {str(float(items[0][0])): torch.zeros(1)}, "different features for examples"),
    ],
)
def test_what_a_collate_function_cannot_return_for_one_example(collate, words):
    with pytest.raises(ValueError, match=f"The collator returns {words}"):
        batch_of(collate, [3, 9])


class Drawing(_Counting):
    """Examples with noise from one of several generators, or with what was seen before."""

    def __init__(self, source):
        self.source, self.generator, self.last = source, torch.Generator(), torch.zeros(1)

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        match self.source:
            case "own":
                inputs = inputs + torch.randn(1, generator=self.generator)
            case "memory":
                inputs, self.last = inputs + self.last, inputs
            case "seeded":
                inputs = inputs + torch.randn(1)
        return {"x": inputs, "name": str(index)}, targets


@pytest.mark.parametrize("source", ["own", "memory", "seeded"])
def test_items_that_depend_on_others_are_refused(source):
    items = unamplified_training().loader(Drawing(source)).dataset
    if source == "seeded":
        assert len(items.__getitems__((0, [3, 9]))) == 2
    else:
        with pytest.raises(ValueError, match="returns another item 3 when asked again: it draws from a generator of"):
            items.__getitems__((0, [3, 9]))


def test_a_collate_function_that_remembers_is_refused():
    class Remembering:
        mean = 0.0

        def __call__(self, items):
            inputs, targets = torch.utils.data.default_collate(items)
            self.mean = 0.9 * self.mean + inputs
            return inputs - self.mean, targets

    with pytest.raises(ValueError, match="dataset or its collate_fn returns another item 3 when asked again"):
        batch_of(Remembering(), [3, 9])
