import dataclasses
import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

import minsep
from minsep.randomness import Key, NormalRows
from minsep.training.torch import LinearDecay, PrivateTraining, ScaleThenPrivatize
from minsep.training.torch.clipping import ClippedSum
from tests.training.small import TWO_WORKERS, seeds_of

EXAMPLES = 60
CLIP = 0.7
KEPT = 1 - 2**-14  # of the clip norm
cross_entropy = nn.functional.cross_entropy


def mechanism_of(iterations=12, bands=3, rate=0.1, noise_multiplier=0.9, **options):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=rate, min_sep=bands), noise_multiplier, **options)


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = 3 * torch.randn(EXAMPLES, 1, 6, 6, generator=generator)
    return inputs, torch.randint(0, 3, (EXAMPLES,), generator=generator)


def small_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


def gradient_of_one(model, inputs, targets):
    model.zero_grad()
    cross_entropy(model(inputs[None]), targets[None]).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def clipped_by_loop(model, inputs, targets, clip_norm, layers):
    """The sum of clipped gradients, one backward pass an example; `layers` are groups of parameters' positions."""
    total = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for x, y in zip(inputs, targets, strict=True):
        gradient = gradient_of_one(model, x, y)
        for layer in layers:
            norm = torch.cat([gradient[i].flatten() for i in layer]).norm()
            factor = min(1.0, KEPT * clip_norm / len(layers) ** 0.5 / float(norm))
            for i in layer:
                total[i] += factor * gradient[i]
    return torch.cat([part.flatten() for part in total])


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


def test_an_empty_batch_adds_noise_and_steps_and_the_divisor_is_public():
    mechanism = mechanism_of(iterations=30, rate=0.01)
    model, (inputs, targets) = small_model(), data()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=1.0), mechanism,
        num_examples=EXAMPLES, clip_norm=CLIP, expected_batch=2.5, seed=1,
    )  # fmt: skip
    size = sum(parameter.numel() for parameter in model.parameters())
    empty = 0
    for indices, row in zip(trainer.batches(), mechanism.noise(size, seed=1), strict=True):
        weights = [parameter.detach().clone() for parameter in model.parameters()]
        trainer.step(inputs[indices], targets[indices])
        if indices.size == 0:
            empty += 1
            moved = [(old - new).flatten() for old, new in zip(weights, model.parameters(), strict=True)]
            assert_allclose(torch.cat(moved).detach(), CLIP * row / 2.5, atol=1e-6)
    assert empty > 5
    assert trainer.steps == 30


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_refused_with_the_step(bad):
    model, (inputs, targets) = small_model(), data()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=1.0), mechanism_of(rate=0.3),
        num_examples=EXAMPLES, clip_norm=CLIP, seed=1,
    )  # fmt: skip
    batches = trainer.batches()
    first = next(batches)
    trainer.step(inputs[first], targets[first])
    second = next(batches)
    poisoned = inputs[second].clone()
    poisoned[-1, 0, 0, 0] = bad
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(ValueError, match="Step 2 has an example whose gradient is not finite"):
        trainer.step(poisoned, targets[second])
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, new)
    with pytest.raises(RuntimeError, match="interrupted"):
        trainer.step(inputs[second], targets[second])
    with pytest.raises(RuntimeError, match="interrupted"):
        trainer.save("never written")


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


def test_what_is_trained_on_is_what_was_drawn():
    model, (inputs, targets) = small_model(), data()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=1.0), mechanism_of(rate=0.3),
        num_examples=EXAMPLES, clip_norm=CLIP, seed=1,
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="No batch is waiting"):
        trainer.step(inputs, targets)
    batches = trainer.batches()
    indices = next(batches)
    with pytest.raises(ValueError, match=f"Step 1 was given {indices.size - 1} examples, but its batch has"):
        trainer.step(inputs[indices[1:]], targets[indices[1:]])
    with pytest.raises(ValueError, match="targets"):
        trainer.step(inputs[indices], targets[indices[1:]])
    with pytest.raises(RuntimeError, match="was drawn and not trained on"):
        next(batches)


def test_padding_is_never_trained_on():
    truncation = minsep.Truncation(batch_size=4, num_examples=EXAMPLES)
    mechanism = mechanism_of(iterations=20, rate=0.08, truncation=truncation)
    model, (inputs, targets) = small_model(), data()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism,
        num_examples=EXAMPLES, clip_norm=CLIP, seed=1,
    )  # fmt: skip
    sizes = []
    for indices in trainer.batches():
        assert (indices >= 0).all()
        sizes.append(indices.size)
        trainer.step(inputs[indices], targets[indices])
    assert max(sizes) == 4
    assert min(sizes) < 4


def test_certificates_of_another_mechanism_or_that_failed_are_refused():
    identity = minsep.BandedToeplitz.identity(iterations=5)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.1), noise_multiplier=3.0)
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def trainer(mechanism, certificate):
        return PrivateTraining(
            model, cross_entropy, optimizer, mechanism,
            num_examples=EXAMPLES, clip_norm=1.0, certificate=certificate,
        )  # fmt: skip

    passed = minsep.certify(mechanism, epsilon=2.0, delta=1e-3)
    assert trainer(mechanism, passed).certificate is passed
    with pytest.raises(ValueError, match="certificate is of another mechanism"):
        trainer(mechanism.with_noise_multiplier(2.0), passed)
    failed = minsep.certify(mechanism, epsilon=0.01, delta=1e-6)
    with pytest.raises(ValueError, match="certificate did not pass"):
        trainer(mechanism, failed)


def test_a_certificate_is_verified_if_that_is_asked_for():
    mechanism = mechanism_of(iterations=60, bands=2, rate=0.05, noise_multiplier=1.2)
    certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-3, seed=1)
    assert certificate.passed
    assert certificate.samples > 0

    def trainer(certificate, **options):
        model = small_model()
        return PrivateTraining(
            model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism,
            num_examples=EXAMPLES, clip_norm=1.0, certificate=certificate, **options,
        )  # fmt: skip

    assert trainer(certificate, verify=True).certificate is certificate
    proofs = [dataclasses.replace(proof, samples=proof.samples + 1) for proof in certificate.proofs]
    forged = dataclasses.replace(certificate, proofs=tuple(proofs))
    trainer(forged)
    with pytest.raises(ValueError, match="certificate does not hold"):
        trainer(forged, verify=True)
    with pytest.raises(ValueError, match="verify is True, but there is no certificate"):
        trainer(None, verify=True)


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
    with pytest.raises(ValueError, match="not trainable ones"):
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


def test_scale_then_privatize_equals_its_algorithm():
    mechanism, stability, rate, betas, epsilon = mechanism_of(iterations=6), 0.05, 0.03, (0.9, 0.99), 1e-6
    model, (inputs, targets) = small_model(), data()
    reference = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=betas, eps=epsilon)
    trainer = PrivateTraining(
        model, cross_entropy, optimizer, mechanism,
        num_examples=EXAMPLES, clip_norm=CLIP, scaling=ScaleThenPrivatize(stability), seed=3,
    )  # fmt: skip
    size = sum(parameter.numel() for parameter in model.parameters())
    first, second = torch.zeros(size), torch.zeros(size)
    for step, (indices, row) in enumerate(zip(trainer.batches(), mechanism.noise(size, seed=3), strict=True), 1):
        scales = 1 / (second.sqrt() + stability)
        total = torch.from_numpy(CLIP * row)
        for i in indices:
            gradient = torch.cat([part.flatten() for part in gradient_of_one(reference, inputs[i], targets[i])])
            scaled = scales * gradient
            total = total + scaled * min(1.0, KEPT * CLIP / float(scaled.norm()))
        gradient = total / (0.1 * EXAMPLES) / scales
        first = betas[0] * first + (1 - betas[0]) * gradient
        second = betas[1] * second + (1 - betas[1]) * gradient**2
        update = first / (1 - betas[0] ** step) / ((second / (1 - betas[1] ** step)).sqrt() + epsilon)
        with torch.no_grad():
            weights = nn.utils.parameters_to_vector(reference.parameters()) - rate * update
            nn.utils.vector_to_parameters(weights, reference.parameters())
        trainer.step(inputs[indices], targets[indices])
        found = nn.utils.parameters_to_vector(model.parameters()).detach()
        assert_allclose(found, weights, atol=5e-5)
    with pytest.raises(ValueError, match="needs Adam"):
        PrivateTraining(
            model, cross_entropy, torch.optim.SGD(model.parameters(), lr=1.0), mechanism,
            num_examples=EXAMPLES, clip_norm=CLIP, scaling=ScaleThenPrivatize(),
        )  # fmt: skip


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


def test_long_gradients_are_within_the_clip_norm():
    # Eight large entries and many small ones: squares of the small ones are lost in a sum of single precision.
    coefficients = torch.full((1, 1 << 20), 2.43e-4)
    coefficients[0, :8] = 1.0
    model = nn.Linear(1 << 20, 1, bias=False)
    clipped = ClippedSum(model, lambda outputs, targets: outputs.sum(), CLIP, micro_batch=4, per_layer=False)
    flat = torch.zeros(clipped.size)
    clipped.add_to(flat, coefficients, torch.zeros(1), None, seeds_of)
    assert_allclose(flat.double().norm(), KEPT * CLIP, rtol=2e-6)


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
@pytest.mark.parametrize("workers", [{}, TWO_WORKERS], ids=["none", "two"])
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
    with pytest.raises(RuntimeError, match="Another loader was begun"):
        next(older)
    trainer.step(*next(newer))


def test_a_loader_out_of_order_is_refused():
    with pytest.raises(ValueError, match="in_order is False"):
        unamplified_training().loader(_Counting(), num_workers=2, in_order=False)


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


def test_clip_norms_and_optimizers_that_cannot_work_are_refused():
    model = small_model()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for clip_norm in (0.0, 1e-21, float("nan")):
        with pytest.raises(ValueError, match="clip_norm is .*, but it must be a finite number above 1e-09"):
            PrivateTraining(model, cross_entropy, sgd, mechanism_of(), num_examples=EXAMPLES, clip_norm=clip_norm)
    lbfgs = torch.optim.LBFGS(model.parameters())
    with pytest.raises(ValueError, match="optimizer is LBFGS, but it must step by one dense gradient"):
        PrivateTraining(model, cross_entropy, lbfgs, mechanism_of(), num_examples=EXAMPLES, clip_norm=1.0)
