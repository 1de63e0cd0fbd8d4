"""Does the error of a workload predict the outcome of training? From all files: `python -m experiments.prediction`.

For each study, epsilon and workload: the rank correlation of errors with outcomes, over the mechanisms that were
trained. Images: accuracy on images kept aside, within equal batches. Papers: test loss, averaged over seeds.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from scipy import stats

import minsep
from experiments.author_figures import FEATURES, place_of, summaries
from experiments.figures import saved, styled
from experiments.image_figures import TITLES, correlations, studies
from experiments.scattering_study import FIGURES, RESULTS, WORKLOADS
from experiments.sweep import Record, read
from minsep.show import palette

_LEAST = 5
_COLOURS = {
    "prefix sums": palette.BLUE,
    "momentum": palette.TEAL,
    "momentum, linear decay": palette.GOLD,
    "forgetting": palette.ORANGE,
    "single step": palette.GREY,
}


class Predicted(NamedTuple):
    """How well the error of a workload predicts: 1 if a larger error is always a worse outcome."""

    study: str
    epsilon: float
    workload: str
    mechanisms: int
    rank: float


def of_images(results: Path) -> list[Predicted]:
    """Return the correlations of all studies of images that were tested."""
    return [
        Predicted(TITLES.get(study.features, study.features), one.epsilon, one.workload, one.mechanisms, -one.within)
        for study in studies(results)
        if study.tests
        for one in correlations(study.points)
    ]


@cache
def _strategy(iterations: int, bands: int) -> minsep.BandedToeplitz:
    return minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)


def of_papers(results: Path, features: str) -> list[Predicted]:
    """Return the correlations of one kind of features of papers, for each bound on an author's papers."""
    noises = {place_of(record["setting"]): record for record in read(results / "papers_noise.jsonl")}
    losses = summaries(read(results / f"papers_{features}.jsonl"), "loss")
    found = []
    for bound, epsilon in sorted({(place.user_bound, place.epsilon) for place in losses}):
        places = [place for place in losses if (place.user_bound, place.epsilon) == (bound, epsilon)]
        if len(places) < _LEAST:
            continue
        outcomes = [losses[place].mean for place in places]
        study = f"Papers, {FEATURES[features]}, {bound} an author"
        for name, workload in WORKLOADS.items():
            errors = [_error(workload, noises[place]) for place in places]
            rank = float(stats.spearmanr(errors, outcomes).statistic)
            found.append(Predicted(study, epsilon, name, len(places), rank))
    return found


def _error(workload: minsep.Workload, noise: Record) -> float:
    result = noise["result"]
    return workload.error(_strategy(noise["setting"]["iterations"], result["bands"]), result["noise_multiplier"])


def picture(found: list[Predicted], path: Path) -> None:
    """Draw the correlations over epsilon, one panel a study."""
    from matplotlib.figure import Figure

    studies = list(dict.fromkeys(one.study for one in found))
    with styled():
        columns = 2
        figure = Figure(figsize=(9, 2.3 * -(-len(studies) // columns) + 0.6), layout="constrained")
        panels = figure.subplots(-(-len(studies) // columns), columns, sharey=True, squeeze=False).ravel()
        for axes, study in zip(panels, studies, strict=False):
            own = [one for one in found if one.study == study]
            for name, colour in _COLOURS.items():
                points = sorted((one.epsilon, one.rank) for one in own if one.workload == name)
                axes.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=4, linewidth=1.4, label=name)
            epsilons = sorted({one.epsilon for one in own})
            axes.axhline(0, color=palette.QUIET, linewidth=0.8)
            axes.set_xscale("log", base=2)
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes.set_xticks([], minor=True)
            axes.set(xlim=(epsilons[0] / 1.5, epsilons[-1] * 1.5), ylim=(-1.05, 1.05))
            counts = sorted({one.mechanisms for one in own})
            axes.set_title(f"{study} ({' or '.join(map(str, counts))})", fontsize=9)
        for axes in panels[len(studies) :]:
            axes.set_visible(False)
        figure.supxlabel("ε", fontsize=10)
        figure.supylabel("rank correlation of error and outcome (1: perfect)", fontsize=10)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=9)
        saved(figure, path)


def main(
    results: Annotated[Path, typer.Option(help="Folder of JSON lines.")] = RESULTS,
    figures: Annotated[Path, typer.Option(help="Folder of the figures.")] = FIGURES,
) -> None:
    """Print and draw how well each workload predicts."""
    found = of_images(results) + [one for features in FEATURES for one in of_papers(results, features)]
    for study in dict.fromkeys(one.study for one in found):
        for name in _COLOURS:
            own = sorted(one for one in found if (one.study, one.workload) == (study, name))
            ranks = ", ".join(f"{one.rank:+.2f} (epsilon {one.epsilon:g})" for one in own)
            print(f"{study}: {name}: {ranks}; mean {np.mean([one.rank for one in own]):+.2f}")
    picture(found, figures / "prediction.svg")


if __name__ == "__main__":
    typer.run(main)
