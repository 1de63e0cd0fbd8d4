"""One model, one way to train it privately: `python -m benchmarks.private_steps vgg minsep-ghost`.

It prints examples a second of processor time and the peak memory of the process in MiB, as JSON. Each way has its own
process, so that peaks do not mix. A step is clipping, noise of one band and SGD, on a batch of a fixed size.
"""

import json
import sys
import time
import warnings

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

from experiments.models import vgg

WORDS, LENGTH = 1000, 128
STEPS = 4


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in self.attention(self.first_norm(x)).chunk(3, -1)
        )
        heads = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(heads.transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.second_norm(x))))


class Transformer(nn.Module):
    """A language model of 5.3 million parameters."""

    def __init__(self, width: int = 256, layers: int = 6) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS)

    def forward(self, index):
        places = torch.arange(index.shape[1]).repeat(len(index), 1)
        return self.head(self.norm(self.blocks(self.words(index) + self.places(places)))).transpose(1, 2)


class Adapted(nn.Module):
    """GPT-2 small's shape with random weights and adapters of rank 8."""

    def __init__(self) -> None:
        super().__init__()
        import peft
        import transformers

        config = peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
        plain = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        self.model = peft.get_peft_model(transformers.GPT2LMHeadModel(plain), config)

    def forward(self, index):
        return self.model(input_ids=index, use_cache=False).logits.transpose(1, 2)


def words_of(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    index = torch.randint(0, WORDS, (count, LENGTH))
    return index, index.roll(-1, 1)


MODELS = {
    "nothing": (lambda: nn.Linear(4, 3), lambda count: (torch.randn(count, 4), torch.randint(0, 3, (count,))), 32, 32),
    "vgg": (vgg, lambda count: (torch.randn(count, 3, 32, 32), torch.randint(0, 10, (count,))), 64, 32),
    "transformer": (Transformer, words_of, 16, 16),
    "lora": (Adapted, words_of, 4, 4),
}
"""Model, examples, size of a batch, size of a micro-batch."""


class MeanLoss(nn.Module):
    """Cross entropy, averaged over the places of an example and, unless reduction is "none", over examples."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, outputs, targets):
        losses = cross_entropy(outputs, targets, reduction="none").flatten(1 if targets.dim() > 1 else 0)
        losses = losses.mean(1) if losses.dim() > 1 else losses
        return losses.mean() if self.reduction == "mean" else losses


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def minsep_steps(name: str, clipping: str):
    import minsep
    from minsep.training.torch import PrivateTraining

    make, examples_of, batch, micro_batch = MODELS[name]
    model = make()
    inputs, targets = examples_of(batch)
    # Every example takes part in every step, so that batches have a fixed size, as those of the peer.
    scheme = minsep.CyclicPoisson(rate=1.0, cycle=1, parts="equal")
    mechanism = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=100), scheme, noise_multiplier=1.0)
    trainer = PrivateTraining(
        model, MeanLoss(), torch.optim.SGD(trainable(model), lr=1e-3), mechanism,
        num_examples=batch, clip_norm=1.0, micro_batch=micro_batch, clipping=clipping,
    )  # fmt: skip
    for indices in trainer.batches():
        trainer.step(inputs[indices], targets[indices])
        yield batch


def opacus_steps(name: str, mode: str):
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    make, examples_of, batch, micro_batch = MODELS[name]
    model = make().train()
    inputs, targets = examples_of(batch)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=batch)
    private = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(trainable(model), lr=1e-3), criterion=MeanLoss(), data_loader=loader,
        noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=False, grad_sample_mode=mode,
    )  # fmt: skip
    model, optimizer, criterion = (private[0], private[1], private[2] if mode == "ghost" else MeanLoss())
    while True:
        for start in range(0, batch, micro_batch):
            # The peer's way to take a batch in parts: gradients add up until the last one.
            optimizer.signal_skip_step(do_skip=start + micro_batch < batch)
            criterion(model(inputs[start : start + micro_batch]), targets[start : start + micro_batch]).backward()
            optimizer.step()
            optimizer.zero_grad()
        yield batch


WAYS = {
    "minsep-vmap": lambda name: minsep_steps(name, "vmap"),
    "minsep-ghost": lambda name: minsep_steps(name, "ghost"),
    "minsep-auto": lambda name: minsep_steps(name, "auto"),
    "opacus-hooks": lambda name: opacus_steps(name, "hooks"),
    "opacus-ghost": lambda name: opacus_steps(name, "ghost"),
}


def main(name: str, way: str) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    steps = WAYS[way](name)
    next(steps)
    times = []
    for _ in range(STEPS):
        start = time.process_time()
        batch = next(steps)
        times.append((time.process_time() - start) / batch)
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({"rate": 1 / sorted(times)[len(times) // 2], "peak": peak / 1024}))


if __name__ == "__main__":
    main(*sys.argv[1:])
