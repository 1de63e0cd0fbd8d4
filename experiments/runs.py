"""What the experiments share: calibrated mechanisms, runs that resume, results as JSON lines, and their plot."""

import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable
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

_SAVE_EVERY_SECONDS = 30.0


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
            noise_multiplier = certificate.mechanism["noise_multiplier"]
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


def bar() -> Progress:
    """Return the progress bar of a run."""
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


def train(trainer: PrivateTraining, inputs: Any, targets: torch.Tensor, checkpoint: Path, label: str) -> Result:
    """Train to the end, with a checkpoint now and then, and return how fast it went."""
    begin = saved = time.monotonic()
    first, examples = trainer.steps, 0
    with bar() as progress:
        task = progress.add_task(label, total=trainer.mechanism.iterations, completed=first)
        for indices in trainer.batches():
            trainer.step(inputs[indices], targets[indices])
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
def evaluate(model: torch.nn.Module, inputs: Any, targets: torch.Tensor) -> Result:
    """Return accuracy and mean cross entropy on test examples."""
    model.eval()
    outputs = torch.cat([model(inputs[start : start + 500]) for start in range(0, len(targets), 500)])
    model.train()
    return {
        "accuracy": float((outputs.argmax(1) == targets).float().mean()),
        "loss": float(torch.nn.functional.cross_entropy(outputs, targets)),
        "test_examples": len(targets),
    }


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {name: version(name) for name in ("minsep", "torch", "numpy")}


def summarise(lines: Iterable[Result]) -> dict[str, list[tuple[float, float, float]]]:
    """Return (epsilon, mean accuracy, half width of a 95 % interval) of each method, at its best learning rate.

    With several seeds the interval is Student's, over runs; with one it is that of the test set alone.
    """
    groups: dict[tuple[str, float, float], list[Result]] = defaultdict(list)
    for line in lines:
        groups[line["method"], line["epsilon"], line["learning_rate"]].append(line)
    best: dict[tuple[str, float], tuple[float, float]] = {}
    for (method, epsilon, _), runs in groups.items():
        values = [run["accuracy"] for run in runs]
        mean = sum(values) / len(values)
        if len(values) > 1:
            deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
            half = float(stats.t.ppf(0.975, len(values) - 1)) * deviation / math.sqrt(len(values))
        else:
            half = 1.96 * math.sqrt(mean * (1 - mean) / runs[0]["test_examples"])
        best[method, epsilon] = max(best.get((method, epsilon), (-1.0, 0.0)), (mean, half))
    curves: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for (method, epsilon), (mean, half) in sorted(best.items(), key=lambda item: item[0][1]):
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
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
