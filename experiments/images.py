"""DP-SGD, cyclic Poisson, balls-in-bins and b-min-sep on images: `python -m experiments.images --quick`.

The setting of the paper's image experiment: a small VGG, SGD with momentum 0.95 and a linear decay of the learning
rate, batches of a 300th of the examples, delta = 1 / (2 |D|). The default is a generated set.
"""

import time
from pathlib import Path
from typing import Annotated

import torch
import typer

import minsep
from experiments.image_data import Images, load_images
from experiments.models import vgg
from experiments.runs import Method, Result, Results, evaluate, plot, train, versions
from minsep.training.torch import LinearDecay, PrivateTraining

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


def run_once(images: Images, method: Method, settings: Result, folder: Path, micro_batch: int) -> Result:
    """Calibrate, train and evaluate one run."""
    begin = time.monotonic()
    mechanism, certificate = method.calibrated(settings["epsilon"], settings["delta"], folder / "certificates")
    calibration = time.monotonic() - begin
    torch.manual_seed(settings["seed"])
    channels, side = images.train.shape[1:3]
    model = vgg(channels, side)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["learning_rate"], momentum=MOMENTUM)
    arguments = (model, torch.nn.functional.cross_entropy, optimizer, mechanism)
    options = {
        "num_examples": len(images.train),
        "clip_norm": settings["clip_norm"],
        "micro_batch": micro_batch,
        "schedule": LinearDecay(mechanism.iterations),
    }
    label = f"{method.name} epsilon {settings['epsilon']:g} rate {settings['learning_rate']:g} seed {settings['seed']}"
    checkpoint = folder / f"{label.replace(' ', '-')}.checkpoint"
    if checkpoint.exists():
        trainer = PrivateTraining.resume(checkpoint, *arguments, **options)
    else:
        trainer = PrivateTraining(*arguments, certificate=certificate, seed=settings["seed"], **options)
    speed = train(trainer, images.train, images.train_targets, checkpoint, label)
    return {
        **settings,
        "noise_multiplier": mechanism.noise_multiplier,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "calibration_seconds": round(calibration, 2),
        **speed,
        **evaluate(model, images.test, images.test_targets),
        "versions": versions(),
    }


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
    quick: Annotated[bool, typer.Option("--quick", help="A small generated task, in under a minute.")] = False,
) -> None:
    """Train with four sampling schemes at one privacy each, and write results.jsonl and accuracy.svg."""
    if quick:
        iterations, epoch, bands, examples, epsilon = 60, 12, 4, 500, [8.0]
    images = load_images(dataset, data, examples)
    count = len(images.train)
    folder = output / (f"{dataset}-quick" if quick else dataset)
    results = Results(folder / "results.jsonl")
    shared = {
        "experiment": "images",
        "dataset": dataset,
        "delta": 1 / (2 * count),
        "iterations": iterations,
        "expected_batch": count / epoch,
        "clip_norm": clip_norm,
        "momentum": MOMENTUM,
    }
    for seed in range(seeds):
        for target in epsilon:
            for name in method:
                for rate in learning_rate:
                    chosen = method_of(name, iterations, bands, 1 / epoch)
                    settings = {
                        **shared,
                        "method": name,
                        "bands": chosen.strategy.bands,
                        "epsilon": target,
                        "learning_rate": rate,
                        "seed": seed,
                    }
                    if not results.has(settings):
                        results.add(run_once(images, chosen, settings, folder, micro_batch))
                        typer.echo(f"{name}, epsilon {target:g}: {results.lines[-1]['accuracy']:.2%}")
    plot(results.lines, folder / "accuracy.svg", dataset)
    typer.echo(f"Results and plot are in {folder}.")


if __name__ == "__main__":
    typer.run(main)
