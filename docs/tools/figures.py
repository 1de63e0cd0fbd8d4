"""The figures of docs/choosing.md: `python docs/tools/figures.py` draws them, `--measure` also computes them again."""

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter, ScalarFormatter

import minsep

TOOLS = Path(__file__).parent
ASSETS = TOOLS.parent / "assets"
NUMBERS = TOOLS / "figures.json"

TASK = {"num_examples": 60_000, "batch_size": 512, "iterations": 2000, "epsilon": 4.0, "delta": 1e-5}
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
BATCHES = (256, 512, 1024, 2048, 4096)
ITERATIONS = (250, 500, 1000, 2000, 4000)

COLOURS = {"DP-SGD": "#d2691e", "b-min-sep": "#3f51b5"}


@cache
def measured(**changes: float) -> dict[str, Any]:
    """Return the estimated errors of one task: DP-SGD, and b-min-sep by its bands."""
    task: Any = TASK | changes
    if task == TASK and changes:
        return measured()
    table = minsep.plan(
        **task,
        schemes=("poisson", "min-sep"),
        max_bands=32,
        tune=False,
        estimate=True,
        compute=minsep.Compute(workers=1),
    ).table
    errors = [
        (each.scheme, each.bands, each.min_sep, each.noise_multiplier, each.error) for each in table if each.error
    ]
    bands = sorted({each[1] for each in errors if each[0] == "min-sep"})
    return {
        "task": task,
        "DP-SGD": min(error for kind, *_, error in errors if kind == "poisson"),
        "b-min-sep": min(error for kind, *_, error in errors if kind == "min-sep"),
        "by bands": {count: min(each[4] for each in errors if each[:2] == ("min-sep", count)) for count in bands},
    }


def measure() -> None:
    """Compute everything, and write it to a file."""
    epoch = TASK["num_examples"] / TASK["batch_size"]
    epochs = TASK["iterations"] / epoch
    numbers = {
        "epsilon": [measured(epsilon=epsilon) for epsilon in EPSILONS],
        "delta": [measured(delta=delta) for delta in DELTAS],
        "batch_size": [
            measured(batch_size=size, iterations=round(epochs * TASK["num_examples"] / size)) for size in BATCHES
        ],
        "iterations": [measured(iterations=count) for count in ITERATIONS],
    }
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n")


def relative(point: dict[str, Any], method: str) -> float:
    """Return the error in the average gradient of a run, in units of 1e-5 clip norms."""
    return float(1e5 * point[method] / (point["task"]["iterations"] * point["task"]["batch_size"]))


def draw(numbers: dict[str, Any]) -> None:
    """Draw one figure for each number that is chosen."""
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "minsep", "font.size": 10, "axes.spines.top": False}
    mpl.rcParams |= {"axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False}
    labels = {
        "epsilon": "epsilon",
        "delta": "delta",
        "batch_size": "expected batch size, at 17 epochs",
        "iterations": "iterations, at batches of 512",
    }
    for name, label in labels.items():
        figure, axes = plt.subplots(figsize=(6.2, 3.4), layout="constrained")
        places = [point["task"][name] for point in numbers[name]]
        for method, colour in COLOURS.items():
            errors = [relative(point, method) for point in numbers[name]]
            axes.plot(places, errors, marker="o", color=colour, label=method)
        axes.set_xlabel(label)
        finish(figure, axes, name, places, logarithmic=name == "epsilon")
    figure, axes = plt.subplots(figsize=(6.2, 3.4), layout="constrained")
    for point, style in zip([numbers["epsilon"][place] for place in (1, 3, 5)], ("-", "--", ":"), strict=True):
        counts = [1, *map(int, point["by bands"])]
        errors = [point["DP-SGD"], *point["by bands"].values()]
        ratios = [error / errors[0] for error in errors]
        epsilon = point["task"]["epsilon"]
        axes.plot(counts, ratios, style, marker="o", color=COLOURS["b-min-sep"], label=f"epsilon {epsilon:g}")
    axes.set_xlabel("bands (1 is DP-SGD)")
    finish(figure, axes, "bands", counts, "error relative to DP-SGD", logarithmic=False)


def finish(figure: Any, axes: Any, name: str, places: list[float], label: str = "", logarithmic: bool = True) -> None:
    """Label the axes of a figure, and save it."""
    axes.set_xscale("log")
    if name != "delta":
        axes.set_xticks(places, [f"{place:,g}" for place in places])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
    if logarithmic:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(ScalarFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel(label or "error in the average gradient\n(in 1e-5 clip norms)")
    axes.legend()
    figure.savefig(ASSETS / f"choosing-{name.replace('_', '-')}.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="compute the numbers again: some minutes")
    if parser.parse_args().measure:
        measure()
    draw(json.loads(NUMBERS.read_text()))
