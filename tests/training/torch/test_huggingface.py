"""Models of Hugging Face train as they come: padded, with either attention, tied or not, and with adapters."""

import re
from pathlib import Path

import peft
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from minsep.training.torch import PrivateTraining
from minsep.training.torch.clipping import ClippedSum
from tests.training.torch.huggingface import KINDS, batch_of, loss_of_model, model_of
from tests.training.torch.images import CLIP, EXAMPLES, KEPT, mechanism_of

# peft asks transformers by a name that has changed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing. is deprecated:FutureWarning"),
    # Which sizes of a micro-batch a processor computes alike is its own affair.
    pytest.mark.filterwarnings("ignore:On this processor, the last bits of gradients depend on the places:UserWarning"),
]


def seeds_of(part):
    return [bytes([i]) * 32 for i in range(part.start, part.stop)]


def summed(model, batch, clip_norm=CLIP, **options):
    clipped = ClippedSum(model, loss_of_model, clip_norm, **{"micro_batch": 3, "per_layer": False, **options})
    flat = torch.zeros(clipped.size, dtype=torch.float64)
    clipped.add_to(flat, batch, None, None, seeds_of)
    return flat


def loop_over(model, batch, clip_norm=CLIP):
    """The sum of clipped gradients, one backward pass an example, each on a batch of one."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    total = 0.0
    for i in range(len(next(iter(batch.values())))):
        loss = model(**{name: value[i : i + 1] for name, value in batch.items()}).loss
        gradients = torch.autograd.grad(loss, trainable)
        flat = torch.cat([gradient.flatten() for gradient in gradients]).double()
        total = total + flat * min(1.0, KEPT * clip_norm / float(flat.norm()))
    return total


def trainer_of(model, **options):
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    options = {"num_examples": EXAMPLES, "clip_norm": CLIP, "seed": 1, "micro_batch": 4, **options}
    return PrivateTraining(model, loss_of_model, torch.optim.SGD(trainable, lr=0.1), mechanism_of(rate=0.2), **options)


def rows(batch, indices):
    return {name: value[indices] for name, value in batch.items()}


@pytest.mark.parametrize("clipping", ["vmap", "ghost"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_padded_batches_train_as_examples_alone(kind, attention, clipping):
    model, batch = model_of(kind, attn_implementation=attention), batch_of(kind)
    assert_allclose(summed(model, batch, clipping=clipping), loop_over(model, batch), atol=2e-6)


@pytest.mark.parametrize("clipping", ["vmap", "ghost"])
@pytest.mark.parametrize("tied", [True, False])
def test_weights_may_be_tied(tied, clipping):
    model, batch = model_of("gpt2", tie_word_embeddings=tied), batch_of("gpt2")
    assert (model.lm_head.weight is model.transformer.wte.weight) == tied
    assert_allclose(summed(model, batch, clipping=clipping), loop_over(model, batch), atol=2e-6)


def test_autocast_works():
    model, batch = model_of("gpt2"), batch_of("gpt2")
    with torch.autocast("cpu", torch.bfloat16):
        found = summed(model, batch)
    exact = loop_over(model, batch)
    assert float((found - exact).norm()) < 0.03 * float(exact.norm())


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_works_and_the_switch_is_named(reentrant):
    model, batch = model_of("gpt2").train(), batch_of("gpt2")
    exact = loop_over(model, batch)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    with pytest.warns(UserWarning, match="one by one.*switch it off with model.activation_checkpointing_disable"):
        found = summed(model, batch)
    assert_allclose(found, exact, atol=2e-6)


def test_a_run_takes_batch_encodings_and_empty_batches():
    model, batch = model_of("llama"), batch_of("llama", count=EXAMPLES)
    trainer = trainer_of(model)
    for indices in trainer.batches():
        trainer.step(type(batch)(rows(batch, indices)) if indices.size else None)
    assert trainer.steps == 12


def with_adapters(**options):
    config = peft.LoraConfig(
        r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM", lora_dropout=0.0, **options
    )
    return peft.get_peft_model(model_of("gpt2"), config)


def test_only_adapters_are_trained_and_the_model_stays_itself(tmp_path):
    model, batch = with_adapters(), batch_of("gpt2", count=EXAMPLES)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer = trainer_of(model)
    names = list(trainer._clipped.parameters)
    assert names
    assert all("lora_" in name for name in names)
    assert trainer._noise.shape == (sum(before[name].numel() for name in names),)
    some = rows(batch, slice(0, 5))
    for clipping in ("vmap", "ghost"):
        assert_allclose(summed(model, some, clipping=clipping), loop_over(model, some), atol=2e-6)
    for indices in trainer.batches():
        trainer.step(rows(batch, indices))
    for name, value in model.named_parameters():
        assert torch.equal(before[name], value) != (name in names)
    words = model.generate(**rows(batch, slice(0, 1)) | {"labels": None}, max_new_tokens=3, pad_token_id=2)
    assert words.shape[0] == 1
    model.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(model_of("gpt2"), tmp_path).eval()
    model.eval()
    with torch.no_grad():
        assert_allclose(again(**some).logits, model(**some).logits, atol=1e-6)


def test_the_gradients_of_first_adapters_are_zero_and_noise_moves_them():
    model, batch = with_adapters(), batch_of("gpt2", count=EXAMPLES)
    first = [parameter for name, parameter in model.named_parameters() if "lora_A" in name]
    start = [parameter.detach().clone() for parameter in first]
    clipped = ClippedSum(model, loss_of_model, CLIP, micro_batch=3, per_layer=False)
    flat = torch.zeros(clipped.size)
    clipped.add_to(flat, rows(batch, slice(0, 3)), None, None, seeds_of)
    parts = clipped.parts(flat)
    assert all(float(part.norm()) == 0 for name, part in parts.items() if "lora_A" in name)
    assert all(float(part.norm()) > 0 for name, part in parts.items() if "lora_B" in name)
    trainer = trainer_of(model)
    trainer.step(rows(batch, next(trainer.batches())))
    assert not any(torch.equal(old, new) for old, new in zip(start, first, strict=True))


def test_dropout_of_adapters_is_of_each_example():
    model, batch = model_of("gpt2", resid_pdrop=0.3).train(), batch_of("gpt2", count=2)
    alone = [summed(model, rows(batch, slice(0, 1)), micro_batch=2)]
    together = ClippedSum(model, loss_of_model, CLIP, micro_batch=2, per_layer=False)
    flat = torch.zeros(together.size, dtype=torch.float64)
    together.add_to(flat, rows(batch, [0, 1]), None, None, seeds_of)
    other = torch.zeros(together.size, dtype=torch.float64)
    together.add_to(other, rows(batch, [1]), None, None, lambda part: seeds_of(slice(1, 2)))
    assert_allclose(flat, alone[0] + other, atol=1e-9)


def test_an_optimizer_over_the_whole_model_is_refused_with_the_line_to_write():
    model = with_adapters()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"pass it \[parameter for parameter in model.parameters\(\) if"):
        PrivateTraining(model, nn.functional.cross_entropy, optimizer, mechanism_of(), num_examples=9, clip_norm=1.0)


def test_the_example_of_the_documentation_runs():
    text = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
    (program,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "peft" in code)
    names = {}
    exec(program, names)
    assert names["trainer"].steps == 10
