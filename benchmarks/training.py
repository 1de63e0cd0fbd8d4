"""Rates of private training beside the same loop without clipping and noise: `python -m benchmarks.training`.

The peer is `vmap(grad)` in the same micro-batches with a plain sum, and the same optimiser after it. Both loops take
turns, step by step, so that a busy machine slows both.

Then the same private steps are taken by minsep and by Opacus on one core: the VGG, a transformer of 5 million
parameters on 128 words, and adapters of a model of GPT-2 small's shape.
"""

import json
import os
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.func import functional_call, grad, vmap

import minsep
from benchmarks.report import Comparison, print_comparisons
from experiments.models import vgg
from minsep.training.torch import PrivateTraining

EXAMPLES, BATCH, ITERATIONS, BANDS, MICRO_BATCH = 50_000, 167, 1500, 32, 32
STEPS = 20
cross_entropy = torch.nn.functional.cross_entropy


def mechanism_of(bands: int = BANDS) -> minsep.Mechanism:
    strategy = minsep.BandedToeplitz.optimal(iterations=ITERATIONS, bands=bands)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=BATCH / EXAMPLES, min_sep=bands), noise_multiplier=1.0)


class PlainLoop:
    """Per-example gradients and their sum, without clipping and noise."""

    def __init__(self) -> None:
        self._model = vgg()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-3, momentum=0.95)

        def loss(parameters, inputs, target):
            return cross_entropy(functional_call(self._model, parameters, (inputs[None],)), target[None])

        self._gradients = vmap(grad(loss), in_dims=(None, 0, 0))

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        parameters = dict(self._model.named_parameters())
        constants = {name: value.detach() for name, value in parameters.items()}
        sums = {name: torch.zeros_like(value) for name, value in constants.items()}
        for start in range(0, len(inputs), MICRO_BATCH):
            end = start + MICRO_BATCH
            for name, gradient in self._gradients(constants, inputs[start:end], targets[start:end]).items():
                sums[name] += gradient.sum(0)
        for name, parameter in parameters.items():
            parameter.grad = sums[name] / BATCH
        self._optimizer.step()


def private_loop(mechanism: minsep.Mechanism) -> PrivateTraining:
    model = vgg()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.95)
    return PrivateTraining(
        model, cross_entropy, optimizer, mechanism, num_examples=EXAMPLES, clip_norm=1.0, micro_batch=MICRO_BATCH
    )


def rates() -> list[Comparison]:
    inputs, targets = torch.randn(2 * BATCH, 3, 32, 32), torch.randint(0, 10, (2 * BATCH,))
    private, plain = private_loop(mechanism_of()), PlainLoop()
    ours, peers = [], []
    for step, indices in zip(range(STEPS + 2), private.batches(), strict=False):
        some = torch.from_numpy(indices % len(inputs))
        start = time.perf_counter()
        private.step(inputs[some], targets[some])
        middle = time.perf_counter()
        plain.step(inputs[some], targets[some])
        end = time.perf_counter()
        if step >= 2:
            ours.append((middle - start) / max(len(some), 1))
            peers.append((end - middle) / max(len(some), 1))
    our_time, peer_time = float(np.median(ours)), float(np.median(peers))
    print(
        f"{sum(parameter.numel() for parameter in private.model.parameters()):,} parameters, {torch.get_num_threads()} "
        f"threads: {1 / our_time:.0f} examples/s with privacy, {1 / peer_time:.0f} without"
    )
    return [
        Comparison(f"an example, VGG, {BANDS} bands (ms)", 1e3 * our_time, 1e3 * peer_time, bar=0.8),
        Comparison(f"{ITERATIONS:,} steps of {BATCH} examples (min)", ITERATIONS * BATCH * our_time / 60, bar=15),
    ]


def noise_memory() -> list[Comparison]:
    """Peak memory of the noise in a run, NumPy's own count, in rows of the parameters' size."""
    mechanism = mechanism_of()
    model = torch.nn.Linear(205_322, 1, bias=False)
    row = 4 * 205_322
    next(mechanism.noise(10))
    tracemalloc.start()
    trainer = PrivateTraining(
        model, cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism, num_examples=1, clip_norm=1.0
    )
    for step, indices in enumerate(trainer.batches()):
        trainer.step(torch.zeros(indices.size, 205_322), torch.zeros(indices.size, dtype=torch.long))
        if step == 3 * BANDS:
            break
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    most = 2 * (BANDS - 1)  # the past rows, and one block beside them
    return [Comparison(f"noise, {BANDS} bands: peak memory (rows of parameters)", peak / row, bar=most)]


PEERS = {
    "gradients of all examples": ("minsep-vmap", "opacus-hooks"),
    "ghost clipping": ("minsep-ghost", "opacus-ghost"),
}


def measured(model: str, way: str) -> dict[str, float]:
    """Return the rate and the peak memory of one way to train, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.private_steps", model, way]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def beside_opacus() -> None:
    table = Table(title="Private steps on one core", title_justify="left")
    for heading in ("model", "method", "examples/s: minsep", "Opacus", "peak memory (MiB): minsep", "Opacus"):
        table.add_column(heading, justify="left" if heading in ("model", "method") else "right")
    # Libraries alone take memory, which says nothing about models.
    libraries = {way: measured("nothing", way)["peak"] for ways in PEERS.values() for way in ways}
    for model in ("vgg", "transformer", "lora"):
        for method, ways in PEERS.items():
            ours, peers = (measured(model, way) for way in ways)
            table.add_row(
                model, method, f"{ours['rate']:.3g}", f"{peers['rate']:.3g}",
                f"{ours['peak'] - libraries[ways[0]]:.0f}", f"{peers['peak'] - libraries[ways[1]]:.0f}",
            )  # fmt: skip
    Console(width=130).print(table)


if __name__ == "__main__":
    print_comparisons("Training", [*rates(), *noise_memory()])
    beside_opacus()
