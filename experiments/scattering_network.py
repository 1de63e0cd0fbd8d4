"""A small network on scattering features: `python -m experiments.scattering_network --data package --cache features`.

The features of `experiments.scattering` at all 8 x 8 places; a layer that looks at one place, one that looks at 3 x 3,
and a linear one. `PrivateTraining` trains it. Learning rates are chosen on training images kept aside, with certified
noise; then the chosen one is trained on all training images with fresh seeds, and tested.
"""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import nn

from experiments.scattering import CACHE_HELP, Features, load_features
from experiments.scattering_study import MOMENTUM, RESULTS, TUNING_SEED, VALIDATION, Choice, Study
from experiments.schedule import linear_decay
from experiments.sweep import Record, Setting, sweep
from minsep.training.torch import PrivateTraining

CHANNELS, SIDE, WIDTH = 243, 8, 64
CLIP_NORM = 0.1
CHOICES = {"dp-sgd": Choice("dp-sgd", 10, 1), "b-min-sep": Choice("b-min-sep", 25, 4)}
RATES = (2.0, 4.0, 8.0)
"""Learning rates for batches of a 50th of the examples; those of other batches are in proportion to the size."""
REFERENCE = 50
_AT_ONCE = 250


def network(classes: int = 10) -> nn.Sequential:
    """Return the model: 62,794 parameters."""
    return nn.Sequential(
        nn.Conv2d(CHANNELS, WIDTH, 1),
        nn.Tanh(),
        nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(WIDTH * (SIDE // 2) ** 2, classes),
    )


def inputs(features: Features, rows: Any) -> torch.Tensor:
    """Return some features as channels x places."""
    return torch.from_numpy(features.rows[rows].astype(np.float32)).view(-1, CHANNELS, SIDE, SIDE)


def train(features: Features, setting: Setting, certificate: Path, examples: int, judged: tuple[int, int]) -> Setting:
    """Train one network on the first examples, and return its accuracy on others."""
    begin = time.monotonic()
    torch.manual_seed(setting["seed"])
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=setting["learning_rate"], momentum=MOMENTUM)
    iterations = setting["epochs"] * setting["epoch"]
    trainer = PrivateTraining.from_certificate(
        certificate,
        model,
        nn.functional.cross_entropy,
        optimizer,
        num_examples=examples,
        clip_norm=CLIP_NORM,
        seed=setting["seed"],
        micro_batch=_AT_ONCE,
        schedule=linear_decay(iterations) if setting["decay"] else None,
    )
    targets = torch.from_numpy(features.targets).long()
    for indices in trainer.batches():
        trainer.step(inputs(features, indices), targets[indices])
    with torch.no_grad():
        outputs = [model.eval()(inputs(features, slice(k, k + 500))) for k in range(*judged, 500)]
    right = torch.cat(outputs).argmax(1) == targets[slice(*judged)]
    return {"accuracy": float(right.float().mean()), "training_seconds": round(time.monotonic() - begin, 1)}


def chosen(tuned: list[Record]) -> Setting:
    """Return the learning rate and schedule of the best accuracy on images kept aside."""
    best = max(tuned, key=lambda record: record["result"]["accuracy"])["setting"]
    return {name: best[name] for name in ("learning_rate", "decay")}


def main(
    data: Annotated[Path | None, typer.Option(help="Folder of CIFAR-10's files.")] = None,
    cache: Annotated[Path, typer.Option(help=CACHE_HELP)] = Path("features"),
    method: Annotated[list[str], typer.Option(help="dp-sgd or b-min-sep, any number of times.")] = list(CHOICES),  # noqa: B006
    epsilon: float = 3.0,
    epochs: Annotated[int, typer.Option(help="Expected participations of an example.")] = 20,
    rate: Annotated[list[float], typer.Option(help="Learning rate for batches of a 50th.")] = list(RATES),  # noqa: B006
    decay: Annotated[bool, typer.Option(help="Whether the learning rate decreases.")] = True,
    seeds: int = 5,
    threads: Annotated[int, typer.Option(help="Cores of a run.")] = 2,
    results: Annotated[Path, typer.Option(help="Folder of JSON lines and certificates.")] = RESULTS,
) -> None:
    """Certify, tune and test the network by each method."""
    torch.set_num_threads(threads)
    features = load_features("cifar10", data, cache, 1)
    study, last = Study(features, epochs, results), features.examples
    for choice in (CHOICES[name] for name in method):
        noise = study.setting(choice, epsilon)
        (certified,) = sweep([noise], study.certify, results / "images_certificates.jsonl")
        certificate = results / certified["result"]["certificate"]
        tried = [{**noise, "learning_rate": one * REFERENCE / choice.epoch, "decay": decay} for one in rate]
        tuned = sweep(
            [{**one, "seed": TUNING_SEED} for one in tried],
            lambda setting, certificate=certificate: train(
                features, setting, certificate, last - VALIDATION, (last - VALIDATION, last)
            ),
            results / "network_tuning.jsonl",
        )
        wanted = [{**noise, **chosen(tuned), "seed": seed} for seed in range(seeds)]
        sweep(
            wanted,
            lambda setting, certificate=certificate: train(
                features, setting, certificate, last, (last, len(features.targets))
            ),
            results / "network.jsonl",
        )


if __name__ == "__main__":
    typer.run(main)
