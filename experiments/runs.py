"""What the experiments share: calibrated mechanisms, runs that resume, results as JSON lines, and their plot."""

import hashlib
import itertools
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy import stats

import minsep
from minsep.participation import Scheme
from minsep.strategy import Strategy
from minsep.training.torch import PrivateTraining

Result = dict[str, Any]
Build = Callable[[Result], tuple[torch.nn.Module, torch.optim.Optimizer, dict[str, Any]]]
"""Return a fresh model, its optimiser and the options of `PrivateTraining` for the settings of a run."""

_SAVE_EVERY_SECONDS = 30.0


@dataclass(frozen=True)
class Part:
    """Examples and their targets."""

    inputs: Any
    targets: torch.Tensor

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Data:
    """Examples to train on and to test on, and perhaps some to choose a learning rate by."""

    train: Part
    test: Part
    validation: Part | None = None


@dataclass(frozen=True)
class Method:
    """A strategy and a scheme under the name that results and plots show."""

    name: str
    strategy: Strategy
    scheme: Scheme

    def calibrated(self, epsilon: float, delta: float, folder: Path) -> tuple[minsep.Mechanism, minsep.Certificate]:
        """Return the mechanism with the least certified noise; certificates are kept in a folder and used again."""
        identity = f"{self.strategy.fingerprint} {self.scheme.fingerprint} {epsilon} {delta}"
        path = folder / f"{self.name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"
        if path.exists():
            certificate = minsep.Certificate.load(path)
            noise_multiplier = certificate.mechanism.noise_multiplier
            return minsep.Mechanism(self.strategy, self.scheme, noise_multiplier), certificate
        best = minsep.calibrate(self.strategy, self.scheme, epsilon=epsilon, delta=delta)
        folder.mkdir(parents=True, exist_ok=True)
        best.certificate.save(path)
        return best.mechanism, best.certificate


class Results:
    """JSON lines in a file, one a run; a run that is in the file is not done again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[Result] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def has(self, settings: Result) -> bool:
        """Whether a run with these settings was done."""
        return any(all(line.get(name) == value for name, value in settings.items()) for line in self.lines)

    def add(self, result: Result) -> None:
        """Write a result at once."""
        self.lines.append(result)
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")


def run_all(
    data: Data,
    build: Build,
    methods: list[Method],
    shared: Result,
    folder: Path,
    *,
    epsilons: list[float],
    learning_rates: list[float],
    seeds: int,
) -> None:
    """Do the runs that are not done yet, write their results at once, and plot all of them."""
    results = Results(folder / "results.jsonl")
    for seed, epsilon, method, rate in itertools.product(range(seeds), epsilons, methods, learning_rates):
        of_run = {"method": method.name, "bands": method.strategy.bands, "epsilon": epsilon}
        settings = {**shared, **of_run, "learning_rate": rate, "seed": seed, "examples": len(data.train)}
        if not results.has(settings):
            results.add(run_once(data, build, method, settings, folder))
            print(f"{method.name}, epsilon {epsilon:g}: {results.lines[-1]['accuracy']:.2%}")
    plot(results.lines, folder / "accuracy.svg", shared["dataset"])
    print(f"Results and plot are in {folder}.")


def run_once(data: Data, build: Build, method: Method, settings: Result, folder: Path) -> Result:
    """Calibrate, train and evaluate one run, or the rest of one that was interrupted."""
    begin = time.monotonic()
    mechanism, certificate = method.calibrated(settings["epsilon"], settings["delta"], folder / "certificates")
    calibration = time.monotonic() - begin
    torch.manual_seed(settings["seed"])
    model, optimizer, options = build(settings)
    arguments = (model, torch.nn.functional.cross_entropy, optimizer, mechanism)
    options |= {"num_examples": len(data.train), "clip_norm": settings["clip_norm"]}
    label = f"{method.name} epsilon {settings['epsilon']:g} rate {settings['learning_rate']:g} seed {settings['seed']}"
    checkpoint = folder / f"{label.replace(' ', '-')}.checkpoint"
    if checkpoint.exists():
        trainer = PrivateTraining.resume(checkpoint, *arguments, **options)
    else:
        trainer = PrivateTraining(*arguments, certificate=certificate, seed=settings["seed"], **options)
    speed = train(trainer, data.train, checkpoint, label)
    chosen_by = {} if data.validation is None else {"validation_accuracy": evaluate(model, data.validation)["accuracy"]}
    return {
        **settings,
        "noise_multiplier": mechanism.noise_multiplier,
        "scheme": mechanism.describe()["scheme"],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "calibration_seconds": round(calibration, 2),
        **speed,
        **chosen_by,
        **evaluate(model, data.test),
        "test_examples": len(data.test),
        "versions": versions(),
    }


def bar() -> Progress:
    """Return the progress bar of a run."""
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


def train(trainer: PrivateTraining, part: Part, checkpoint: Path, label: str) -> Result:
    """Train to the end, with a checkpoint now and then, and return how fast it went."""
    begin = saved = time.monotonic()
    first, examples = trainer.steps, 0
    with bar() as progress:
        task = progress.add_task(label, total=trainer.mechanism.iterations, completed=first)
        for indices in trainer.batches():
            trainer.step(part.inputs[indices], part.targets[indices])
            examples += indices.size
            progress.advance(task)
            if time.monotonic() - saved > _SAVE_EVERY_SECONDS:
                trainer.save(checkpoint)
                saved = time.monotonic()
    seconds = time.monotonic() - begin
    checkpoint.unlink(missing_ok=True)
    return {
        "steps_timed": trainer.steps - first,
        "seconds": round(seconds, 2),
        "examples_per_second": round(examples / seconds, 1),
    }


@torch.no_grad()
def evaluate(model: torch.nn.Module, part: Part) -> Result:
    """Return accuracy and mean cross entropy."""
    model.eval()
    outputs = torch.cat([model(part.inputs[start : start + 500]) for start in range(0, len(part), 500)])
    model.train()
    return {
        "accuracy": float((outputs.argmax(1) == part.targets).float().mean()),
        "loss": float(torch.nn.functional.cross_entropy(outputs, part.targets)),
    }


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {name: version(name) for name in ("minsep", "torch", "numpy")}


def summarise(lines: Iterable[Result]) -> dict[str, list[tuple[float, float, float]]]:
    """Return (epsilon, mean accuracy, half width of a 95 % interval) of each method, at its best learning rate.

    The best is that of the validation examples, where there are any. With several seeds the interval is Student's,
    over runs; with one it is that of the test set alone.
    """
    groups: dict[tuple[str, float, float], list[Result]] = defaultdict(list)
    for line in lines:
        groups[line["method"], line["epsilon"], line["learning_rate"]].append(line)
    best: dict[tuple[str, float], tuple[float, float, float]] = {}
    for (method, epsilon, _), runs in groups.items():
        values = [run["accuracy"] for run in runs]
        mean = sum(values) / len(values)
        if len(values) > 1:
            deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
            half = float(stats.t.ppf(0.975, len(values) - 1)) * deviation / math.sqrt(len(values))
        else:
            half = 1.96 * math.sqrt(mean * (1 - mean) / runs[0]["test_examples"])
        choice = sum(run.get("validation_accuracy", run["accuracy"]) for run in runs) / len(runs)
        best[method, epsilon] = max(best.get((method, epsilon), (-1.0, 0.0, 0.0)), (choice, mean, half))
    curves: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for (method, epsilon), (_, mean, half) in sorted(best.items(), key=lambda item: item[0][1]):
        curves[method].append((epsilon, mean, half))
    return dict(curves)


def plot(lines: list[Result], path: Path, title: str) -> None:
    """Draw test accuracy over epsilon, with 95 % intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for method, points in summarise(lines).items():
        epsilons, means, halves = zip(*points, strict=True)
        axes.errorbar(
            epsilons, [100 * m for m in means], [100 * h for h in halves], marker="o", capsize=3, label=method
        )
    seeds = {line["seed"] for line in lines}
    meaning = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed; intervals of the test set alone"
    axes.set(xscale="log", xlabel="epsilon", ylabel="test accuracy (%)", title=f"{title} ({meaning})")
    axes.minorticks_off()
    shown = sorted({line["epsilon"] for line in lines})
    axes.set_xticks(shown, [f"{epsilon:g}" for epsilon in shown])
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
