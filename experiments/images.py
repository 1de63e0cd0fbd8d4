"""DP-SGD, cyclic Poisson, balls-in-bins and b-min-sep on images: `python -m experiments.images --quick`.

The setting of the paper's image experiment: a small VGG, SGD with momentum 0.95 and a linear decay of the learning
rate, batches of a 300th of the examples, delta = 1 / (2 |D|). The default is a generated set.
"""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import minsep
from experiments.image_data import load_images
from experiments.models import vgg
from experiments.runs import Data, Method, Part, Result, run_all
from experiments.schedule import linear_decay

MOMENTUM = 0.95
NAMES = ("dp-sgd", "cyclic-poisson", "balls-in-bins", "b-min-sep")


def method_of(name: str, iterations: int, bands: int, rate: float) -> Method:
    """Return one of the four methods; `rate` is the expected batch size over the number of examples."""
    if name == "dp-sgd":
        return Method(name, minsep.BandedToeplitz.identity(iterations=iterations), minsep.Poisson(rate))
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    schemes = {
        "cyclic-poisson": lambda: minsep.CyclicPoisson(rate, cycle=bands),
        "balls-in-bins": lambda: minsep.BallsInBins(epoch=round(1 / rate)),
        "b-min-sep": lambda: minsep.MinSep(rate, min_sep=bands),
    }
    if name not in schemes:
        raise SystemExit(f"method is {name!r}, but it must be one of {', '.join(NAMES)}.")
    return Method(name, strategy, schemes[name]())


def held_out(data: Data, validation: int) -> Data:
    """Return the data with the last training examples kept for validation."""
    count = len(data.train) - validation
    if not 0 < count <= len(data.train):
        raise SystemExit(f"--validation is {validation}, but it must be from 0 to {len(data.train) - 1}.")
    if validation == 0:
        return data
    inputs, targets = data.train.inputs, data.train.targets
    return Data(Part(inputs[:count], targets[:count]), data.test, Part(inputs[count:], targets[count:]))


def main(
    dataset: Annotated[str, typer.Option(help="generated, cifar10 or fashion-mnist.")] = "generated",
    data: Annotated[Path | None, typer.Option(help="Folder of the dataset's files.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for results, certificates and the plot.")] = Path("results"),
    method: Annotated[list[str], typer.Option(help="Method, any number of times.")] = list(NAMES),  # noqa: B006
    epsilon: Annotated[list[float], typer.Option(help="Epsilon, any number of times.")] = [2.0, 8.0],  # noqa: B006
    learning_rate: Annotated[list[float], typer.Option(help="Learning rate; the best of several counts.")] = [0.1],  # noqa: B006
    clip_norm: float = 1.0,
    bands: int = 32,
    iterations: int = 1500,
    epoch: Annotated[int, typer.Option(help="Examples over expected batch size.")] = 300,
    examples: Annotated[int, typer.Option(help="Number of generated examples.")] = 20_000,
    seeds: int = 1,
    micro_batch: int = 64,
    validation: Annotated[int, typer.Option(help="Training examples kept for choosing the learning rate.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small generated task, in under a minute.")] = False,
) -> None:
    """Train with four sampling schemes at one privacy each, and write results.jsonl and accuracy.svg."""
    if quick:
        iterations, epoch, bands, examples, epsilon = 60, 12, 4, 500, [8.0]
    data_of_run = held_out(load_images(dataset, data, examples), validation)
    count = len(data_of_run.train)
    channels, side = data_of_run.train.inputs.shape[1:3]

    def build(settings: Result) -> tuple[torch.nn.Module, torch.optim.Optimizer, dict[str, Any]]:
        model = vgg(channels, side)
        optimizer = torch.optim.SGD(model.parameters(), lr=settings["learning_rate"], momentum=MOMENTUM)
        return model, optimizer, {"micro_batch": micro_batch, "schedule": linear_decay(iterations)}

    shared = {
        "experiment": "images",
        "dataset": dataset,
        "delta": 1 / (2 * count),
        "iterations": iterations,
        "expected_batch": count / epoch,
        "clip_norm": clip_norm,
        "momentum": MOMENTUM,
    }
    run_all(
        data_of_run,
        build,
        [method_of(name, iterations, bands, 1 / epoch) for name in method],
        shared,
        output / (f"{dataset}-quick" if quick else dataset),
        epsilons=epsilon,
        learning_rates=learning_rate,
        seeds=seeds,
    )


if __name__ == "__main__":
    typer.run(main)
