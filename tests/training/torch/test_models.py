"""The models and the mistakes that users bring: each works, or is refused in one sentence."""

import subprocess
import sys
import warnings

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.utils.checkpoint import checkpoint

from minsep.core.install import install_command
from minsep.training.torch import PrivateTraining, memory
from minsep.training.torch.attention import plain_attention
from minsep.training.torch.clipping import ClippedSum
from tests.training.torch.images import CLIP, EXAMPLES, KEPT, clipped_by_loop, cross_entropy, mechanism_of

CLASSES = 3


def examples(*shape, count=5):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(count, *shape, generator=generator), torch.randint(0, CLASSES, (count,), generator=generator)


def seeds_of(part):
    return [bytes([i]) * 32 for i in range(part.start, part.stop)]


def summed(model, inputs, targets, loss=cross_entropy, **options):
    clipped = ClippedSum(model, loss, CLIP, **{"micro_batch": 4, "per_layer": False, **options})
    flat = torch.zeros(clipped.size, dtype=torch.float64)
    clipped.add_to(flat, inputs, targets, None, seeds_of)
    return flat


def trainer_of(model, loss=cross_entropy, optimizer=None, **options):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = optimizer or torch.optim.SGD(trainable, lr=0.1)
    options = {"num_examples": EXAMPLES, "clip_norm": CLIP, "seed": 1, **options}
    return PrivateTraining(model, loss, optimizer, mechanism_of(rate=0.2), **options)


def loop_of(model, inputs, targets):
    return clipped_by_loop(model, inputs, targets, CLIP, [range(len(list(model.parameters())))])


class LastOutput(nn.Module):
    def __init__(self, layer, width):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # from the loop
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "num_layers": 2}, {"nonlinearity": "relu"},
     {"proj_size": 2}],
    ids=str,
)  # fmt: skip
def test_recurrent_layers_work(kind, options):
    if ("nonlinearity" in options and kind is not nn.RNN) or ("proj_size" in options and kind is not nn.LSTM):
        return
    torch.manual_seed(0)
    width = options.get("proj_size", 3) * (2 if options.get("bidirectional") else 1)
    model = LastOutput(kind(4, 3, batch_first=True, **options), width)
    inputs, targets = examples(6, 4)
    assert_allclose(summed(model, inputs, targets), loop_of(model, inputs, targets), atol=1e-6)


def test_states_and_time_first_work_in_recurrent_layers():
    class WithState(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 3)

        def forward(self, x):
            out, (hidden, memory) = self.layer(x.transpose(0, 1), (x[None, :, 0, :3] * 1.0, x[None, :, 1, :3] * 1.0))
            return out[-1] + hidden[0] * memory[0]

    torch.manual_seed(0)
    model = WithState()
    inputs, targets = examples(6, 4)
    assert_allclose(summed(model, inputs, targets), loop_of(model, inputs, targets), atol=1e-6)


def test_dropout_between_recurrent_layers_is_of_each_example():
    torch.manual_seed(0)
    model = LastOutput(nn.GRU(4, 3, num_layers=2, dropout=0.5, batch_first=True), 3)
    inputs, targets = examples(6, 4, count=2)
    assert torch.equal(summed(model, inputs, targets), summed(model, inputs, targets))
    first = summed(model, inputs[:1], targets[:1])
    doubled = summed(model, inputs[[0, 0]], targets[[0, 0]])
    assert not torch.equal(doubled, 2 * first)


def test_batch_normalisation_with_frozen_statistics_works_until_it_is_trained():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, CLASSES))
    model[1].running_mean.normal_()
    model[1].eval().requires_grad_(False)
    trainer = trainer_of(model)
    indices = next(trainer.batches())
    inputs, targets = examples(1, 6, 6, count=EXAMPLES)
    held = {name: value.clone() for name, value in model[1].state_dict().items()}
    trainer.step(inputs[indices], targets[indices])
    assert all(torch.equal(held[name], value) for name, value in model[1].state_dict().items())
    indices = next(trainer.batches())
    model.train()
    with pytest.raises(ValueError, match=r"layer '1', a BatchNorm2d, which mixes examples.*\.eval\(\)"):
        trainer.step(inputs[indices], targets[indices])
    model[1].eval()
    trainer.step(inputs[indices], targets[indices])
    assert trainer.steps == 2
    bare = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with pytest.raises(ValueError, match="mixes examples"):
        trainer_of(bare)


class Checkpointed(nn.Module):
    def __init__(self, reentrant, dropout=0.0):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, CLASSES)
        self.drop, self.reentrant = nn.Dropout(dropout), reentrant

    def forward(self, x):
        def inside(y):
            return self.drop(torch.tanh(self.inner(y)))

        x = self.first(x)
        return self.last(inside(x) if self.reentrant is None else checkpoint(inside, x, use_reentrant=self.reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_works_example_by_example_with_a_warning(reentrant):
    torch.manual_seed(0)
    model = Checkpointed(reentrant)
    inputs, targets = examples(4)
    with pytest.warns(UserWarning, match="vmap cannot run the model, a Checkpointed, so examples are taken one by one"):
        found = summed(model, inputs, targets)
    assert_allclose(found, loop_of(model, inputs, targets), atol=1e-6)
    assert not any(parameter.grad is None for parameter in model.parameters())  # those of the loop stay


@pytest.mark.parametrize("reentrant", [False, True])
def test_the_repeated_forward_pass_of_checkpointing_draws_the_same_numbers(reentrant):
    inputs, targets = examples(4)
    sums = []
    for kind in (None, reentrant):
        torch.manual_seed(0)
        model = Checkpointed(kind, dropout=0.5)
        clipped = ClippedSum(model, cross_entropy, CLIP, micro_batch=1, per_layer=False)
        clipped._method = _one_by_one(clipped)
        flat = torch.zeros(clipped.size, dtype=torch.float64)
        clipped.add_to(flat, inputs, targets, None, seeds_of)
        sums.append(flat)
    assert_allclose(*sums, atol=1e-7)


def _one_by_one(clipped):
    from minsep.training.torch.methods import OneByOne

    return OneByOne(clipped.objective)


class Asks(nn.Module):
    """A layer that asks for the value of a tensor, which vmap cannot answer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        return x if x.sum() > 0 else 2 * x


def test_what_vmap_cannot_do_is_done_one_by_one_and_the_layer_is_named():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), Asks(), nn.Linear(4, CLASSES))
    inputs, targets = examples(4)
    with pytest.warns(UserWarning, match="vmap cannot run the layer '1', a Asks, so examples are taken one by one"):
        found = summed(model, inputs, targets)
    assert_allclose(found, loop_of(model, inputs, targets), atol=1e-6)


def test_one_by_one_an_example_draws_from_its_own_seed_and_generators_of_layers_are_refused():
    class Draws(Asks):
        def forward(self, x):
            return super().forward(x) * torch.rand(4)

    class DrawsOfItsOwn(Asks):
        def forward(self, x):
            return super().forward(x) * torch.rand(4, generator=torch.Generator())

    inputs, targets = examples(4)
    torch.manual_seed(0)
    model = nn.Sequential(Draws(), nn.Linear(4, CLASSES))
    sums = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for global_seed in (1, 2):
            torch.manual_seed(global_seed)
            sums.append(summed(model, inputs, targets))
            assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(global_seed))
        assert torch.equal(*sums)
        alone = sum(_summed_at(model, inputs[i : i + 1], targets[i : i + 1], place=i) for i in range(len(inputs)))
        assert_allclose(alone, sums[0], atol=1e-12)
        with pytest.raises(ValueError, match="with its own generator, which examples would share"):
            summed(nn.Sequential(DrawsOfItsOwn(), nn.Linear(4, CLASSES)), inputs, targets)


def _summed_at(model, inputs, targets, place):
    clipped = ClippedSum(model, cross_entropy, CLIP, micro_batch=4, per_layer=False)
    flat = torch.zeros(clipped.size, dtype=torch.float64)
    clipped.add_to(flat, inputs, targets, None, lambda part: seeds_of(slice(part.start + place, part.stop + place)))
    return flat


def test_autocast_and_half_precision_are_clipped_in_single_precision():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, CLASSES))
    inputs, targets = examples(64)
    with torch.autocast("cpu", torch.bfloat16):
        found = summed(model, 50 * inputs, targets)
    exact = loop_of(model, 50 * inputs, targets).double()
    assert float((found - exact).norm()) < 0.05 * float(exact.norm())
    for i in range(len(inputs)):
        with torch.autocast("cpu", torch.bfloat16):
            one = summed(model, 50 * inputs[i : i + 1], targets[i : i + 1])
        assert float(one.norm()) <= CLIP
        assert_allclose(one.norm(), KEPT * CLIP, rtol=1e-5)
    half = model.to(torch.bfloat16)
    one = summed(half, 50 * inputs[:1].bfloat16(), targets[:1])
    assert_allclose(one.norm(), KEPT * CLIP, rtol=1e-5)


def test_a_shape_error_leaves_the_step_to_be_repeated(tmp_path):
    inputs, targets = examples(4, count=EXAMPLES)
    weights = []
    for wrong in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, CLASSES))
        trainer = trainer_of(model)
        indices = next(trainer.batches())
        if wrong:
            with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
                trainer.step(torch.randn(len(indices), 5), targets[indices])
            assert (
                "in the layer '0', a Linear. The step was not taken: it may be repeated." in caught.value.__notes__[0]
            )
            with pytest.raises(IndexError):
                trainer.step(inputs[indices], targets[indices] + CLASSES)
            assert trainer.steps == 0
            trainer.save(tmp_path / "run.checkpoint")
        trainer.step(inputs[indices], targets[indices])
        assert trainer.steps == 1
        weights.append(model[0].weight.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            nn.Embedding(5, 3, sparse=True),
            "layer '', a Embedding with sparse gradients, but noise is dense: set",
        ),
        (
            nn.Sequential(nn.Linear(4, 4), nn.Linear(4, CLASSES, device="meta")),
            "model has '1.weight' on meta, but '0.weight' on cpu: move the whole model to one device",
        ),
    ],
)
def test_models_that_cannot_work_are_refused_in_one_sentence(model, words):
    with pytest.raises(ValueError, match=words):
        trainer_of(model)


def test_losses_and_inputs_that_cannot_work_are_refused_in_one_sentence():
    inputs, targets = examples(4)
    model = nn.Linear(4, CLASSES)
    with pytest.raises(ValueError, match=r"loss returned a tensor of shape \(1,\) for one example.*reduction="):
        summed(model, inputs, targets, loss=nn.CrossEntropyLoss(reduction="none"))
    with pytest.raises(ValueError, match="loss returned <class 'float'> for one example"):
        summed(model, inputs, targets, loss=lambda outputs, targets: 1.0)
    with pytest.raises(ValueError, match="inputs has a tensor on meta, but the model is on cpu"):
        summed(model, inputs.to("meta"), targets)
    with pytest.raises(ValueError, match="The examples contain a str, but they must be tensors"):
        summed(model, {"x": inputs, "padding": "longest"}, targets)


def test_an_optimizer_over_frozen_parameters_is_refused_with_the_line_that_filters_them():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, CLASSES))
    model[0].requires_grad_(False)
    line = r"\[parameter for parameter in model.parameters\(\) if parameter.requires_grad\]"
    with pytest.raises(ValueError, match=f"optimizer holds 2 parameters that are not trainable.*pass it {line}"):
        trainer_of(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize(("framework", "missing"), [("torch", "torch"), ("jax", "jax"), ("jax", "optax")])
def test_a_missing_framework_is_named_with_the_line_that_installs_it(framework, missing):
    program = f"import sys; sys.modules[{missing!r}] = None; import minsep.training.{framework}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stderr.strip().splitlines()[-1].startswith(f"ImportError: minsep.training.{framework} needs ")
    assert install_command(framework) in found.stderr


def test_a_frozen_parameter_that_changes_in_the_first_step_is_refused():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, CLASSES))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: model[0].weight.data.mul_(0.99))
    inputs, targets = examples(4, count=EXAMPLES)
    trainer = trainer_of(model, optimizer=optimizer)
    indices = next(trainer.batches())
    with pytest.raises(RuntimeError, match="The frozen parameter '0.weight' changed in the first step"):
        trainer.step(inputs[indices], targets[indices])


def test_a_trained_parameter_that_does_not_move_is_warned_of():
    model = nn.Linear(4, CLASSES, bias=False).to(torch.bfloat16)
    with torch.no_grad():
        model.weight.fill_(1.0)
    inputs, targets = examples(4, count=EXAMPLES)
    trainer = trainer_of(model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-6))
    indices = next(trainer.batches())
    with pytest.warns(UserWarning, match="'weight' did not move in the first step.*bfloat16.*float32"):
        trainer.step(inputs[indices].bfloat16(), targets[indices])


def test_a_warm_up_from_zero_delays_the_check_of_the_first_step():
    model = nn.Linear(4, CLASSES)
    inputs, targets = examples(4, count=EXAMPLES)
    trainer = trainer_of(model, schedule=lambda step: min(step, 1.0))
    for indices in trainer.batches():
        trainer.step(inputs[indices], targets[indices])
    assert trainer.steps == 12


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": "add"}, {"attn_mask": "where"}, {"enable_gqa": True}],
    ids=str,
)
def test_plain_attention_is_torch_attention(options):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 4, 5, 3, generator=generator) for _ in range(3))
    if "enable_gqa" in options:
        key, value = key[:, :2], value[:, :2]
    if "attn_mask" in options:
        mask = torch.randn(2, 1, 5, 5, generator=generator)
        options = {"attn_mask": mask > 0.5 if options["attn_mask"] == "where" else mask}
        assert options["attn_mask"].dtype != torch.bool or not options["attn_mask"].any(-1).all()
    expected = nn.functional.scaled_dot_product_attention(query, key, value, **options)
    assert_allclose(plain_attention(query, key, value, **options), expected, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_transformer_layers_of_torch_work(dropout):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.TransformerEncoderLayer(4, 2, 8, dropout=dropout, batch_first=True), nn.Flatten(), nn.Linear(24, CLASSES)
    )
    inputs, targets = examples(6, 4)
    found = summed(model, inputs, targets)
    if not dropout:
        assert_allclose(found, loop_of(model, inputs, targets), atol=1e-6)


def test_the_micro_batch_that_fits_is_measured_and_stays_when_the_run_resumes(tmp_path, monkeypatch):
    inputs, targets = examples(4, count=EXAMPLES)
    options = {"micro_batch": "auto"}
    trainer = trainer_of(nn.Linear(4, CLASSES), **options)
    indices = next(trainer.batches())
    trainer.step(inputs[indices], targets[indices])
    assert trainer._clipped.micro_batch == 32
    monkeypatch.setattr(memory, "available_memory", lambda device: 5_000)
    short = trainer_of(nn.Linear(4, CLASSES), **options)
    short.step(inputs[indices], targets[next(short.batches())])
    size = short._clipped.micro_batch
    assert 1 <= size < 32
    short.save(tmp_path / "run.checkpoint")
    monkeypatch.undo()
    model = nn.Linear(4, CLASSES)
    again = PrivateTraining.resume(
        tmp_path / "run.checkpoint", model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1),
        mechanism_of(rate=0.2), num_examples=EXAMPLES, clip_norm=CLIP, **options,
    )  # fmt: skip
    assert again._clipped.micro_batch == size


def test_measured_memory_is_that_of_live_tensors():
    def compute():
        first = torch.zeros(1000)
        second = first + 1
        del first
        third = second * 2
        third.add_(1)
        return third.view(10, 100).sum()

    assert 8000 <= memory.peak_memory(compute, torch.device("cpu")) <= 8100


class Storing(nn.Module):
    """Keeps a running mean of what it saw, in one of several ways."""

    def __init__(self, how):
        super().__init__()
        self.linear, self.how = nn.Linear(4, 3), how
        self.mean = nn.Parameter(torch.zeros(4), requires_grad=False)
        self.register_buffer("buffer", torch.zeros(4))
        self.pair = (torch.zeros(4), torch.zeros(4))
        self.table = {"mean": torch.zeros(4)}

    def forward(self, inputs):
        seen = inputs.detach().reshape(-1, 4)[0]
        match self.how:
            case "parameter":
                with torch.no_grad():
                    self.mean.mul_(0.9).add_(0.1 * seen)
            case "data":
                self.buffer.data.mul_(0.9).add_(0.1 * seen)
            case "tuple":
                self.pair = (self.pair[0] + seen, self.pair[1])
            case "dict":
                self.table["mean"] = self.table["mean"] + seen
        return self.linear(inputs)


@pytest.mark.filterwarnings("ignore:vmap cannot run")
@pytest.mark.parametrize(
    ("how", "attribute"), [("parameter", "mean"), ("data", "buffer"), ("tuple", "pair"), ("dict", "table")]
)
def test_a_model_that_stores_what_it_saw_ends_the_run(how, attribute, tmp_path):
    trainer = trainer_of(Storing(how))
    batch = next(trainer.batches())
    inputs, targets = examples(4, count=len(batch))
    with pytest.raises(ValueError, match=f"model has the layer '', a Storing, which sets '{attribute}'"):
        trainer.step(inputs, targets)
    with pytest.raises(RuntimeError, match="interrupted"):
        trainer.step(inputs, targets)
    with pytest.raises(RuntimeError, match="interrupted"):
        trainer.save(tmp_path / "checkpoint")


def test_a_loss_that_stores_what_it_saw_is_refused():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("centre", torch.zeros(3))

        def forward(self, outputs, targets):
            self.centre = 0.9 * self.centre + outputs.detach().mean(0)
            return cross_entropy(outputs - self.centre, targets)

    with pytest.raises(ValueError, match="loss has the layer '', a Centred, which sets 'centre'"):
        summed(nn.Linear(4, 3), *examples(4), loss=Centred())


def test_a_hook_that_would_see_raw_gradients_is_refused():
    for register in (nn.Parameter.register_post_accumulate_grad_hook, nn.Parameter.register_hook):
        model = nn.Linear(4, 3)
        trainer = trainer_of(model)
        batch = next(trainer.batches())
        handle = register(model.weight, lambda gradient: None)
        with pytest.raises(ValueError, match="model has a hook on the gradient of 'weight'"):
            trainer.step(*examples(4, count=len(batch)))
        with pytest.raises(ValueError, match="model has a hook on the gradient of 'weight'"):
            trainer_of(model)
        handle.remove()
        trainer.step(*examples(4, count=len(batch)))


def test_attention_where_everything_is_masked_by_minus_infinity():
    query = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.zeros(3, 3)
    mask[1] = -torch.inf
    found = plain_attention(query, query, query, mask)
    expected = nn.functional.scaled_dot_product_attention(query, query, query, mask)
    assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"])
@pytest.mark.parametrize("inside", [False, True])
def test_wrappers_that_add_up_gradients_are_refused_wherever_they_are(kind, inside):
    wrapper = type(kind, (nn.Linear,), {})(4, CLASSES)  # as they need devices and processes, others of their name
    with pytest.raises(ValueError, match=f"a {kind}, which adds up the gradients of several processes or devices"):
        trainer_of(nn.Sequential(nn.Linear(4, 4), wrapper) if inside else wrapper)


def test_a_loss_with_parameters_of_its_own_is_refused():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, outputs, targets):
            return cross_entropy(self.scale * outputs, targets)

    with pytest.raises(ValueError, match="loss has the trainable parameter 'scale', which is not one of the model"):
        trainer_of(nn.Linear(4, CLASSES), loss=Scaled())
    trainer_of(nn.Linear(4, CLASSES), loss=Scaled().requires_grad_(False))
